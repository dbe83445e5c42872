"""Large chunks: few are in flight at once, and the rows are the same."""

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from zarr.storage import LocalStore

from spae_dask.storage.open import open_matrix
from spae_dask.storage.sources import runs
from spae_dask.storage.sources.zarr_blocks import ZarrBlocks
from tests.storage.anndata_stores import csr_store, sparse_counts
from tests.storage.sources.test_zarr_blocks import LAYOUTS, Layout, all_rows, numbers

N_CHUNKS = 3


class Watched(LocalStore):
    """A local store that counts the chunks that are asked for at once."""

    now = most = 0

    async def get(self, key: str, *given: Any, **named: Any) -> Any:
        cls = type(self)
        cls.now += 1
        cls.most = max(cls.most, cls.now)
        try:
            await asyncio.sleep(0.001)
            return await super().get(key, *given, **named)
        finally:
            cls.now -= 1


@pytest.fixture(autouse=True)
def unwatched() -> None:
    Watched.now = Watched.most = 0


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.name)
@pytest.mark.parametrize("n_chunks", [1, N_CHUNKS])
def test_rows_read_in_pieces_are_the_same(
    layout: Layout, n_chunks: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    X = numbers(layout.dtype)
    array = zarr.create_array(tmp_path / "x.zarr", data=X, chunks=layout.chunks, **layout.options)
    monkeypatch.setattr(runs, "IN_FLIGHT_NBYTES", n_chunks * int(np.prod(array.chunks)) * X.dtype.itemsize)

    blocks = ZarrBlocks(array, 1 << 24)
    np.testing.assert_array_equal(all_rows(blocks), X)
    for columns in ([0, 1, 5, 11], [3, 4, 5, 6, 7, 8], [12]):
        np.testing.assert_array_equal(blocks.rows(2, 50, np.array(columns)), X[2:50, columns])


@pytest.mark.parametrize("chunks", [(4, 13), (57, 2), (10, 3)])
def test_no_more_chunks_are_in_flight_than_are_planned(
    chunks: tuple[int, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    zarr.create_array(tmp_path / "x.zarr", data=numbers(), chunks=chunks)
    blocks = ZarrBlocks(zarr.open_array(Watched(tmp_path / "x.zarr", read_only=True)), 1 << 24)
    all_rows(blocks)
    assert Watched.most > N_CHUNKS
    planned = blocks.read_nbytes

    Watched.most = 0
    monkeypatch.setattr(runs, "IN_FLIGHT_NBYTES", N_CHUNKS * blocks.chunk_nbytes)
    all_rows(blocks)
    assert Watched.most <= N_CHUNKS
    assert blocks.read_nbytes == 2 * N_CHUNKS * blocks.chunk_nbytes < planned


def test_sparse_rows_in_large_chunks_are_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    X = sparse_counts(dtype="float32")
    csr_store(tmp_path / "x", X, 3, chunk=16, pointer_chunk=30)
    monkeypatch.setattr(runs, "IN_FLIGHT_NBYTES", 2 * 16 * 8)

    source = open_matrix(zarr.open_group(Watched(tmp_path / "x", read_only=True), mode="r"))
    read = [source.read(number).toarray() for number in range(len(source.bounds) - 1)]
    np.testing.assert_array_equal(np.concatenate(read), X.toarray())
    assert 0 < Watched.most <= 4  # four chunks of float32 are two of int64
