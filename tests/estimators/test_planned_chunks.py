"""Objects that a plan reads of a store of many small chunks, counted by the store."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import zarr
from zarr.storage import MemoryStore, WrapperStore

from spae_dask import open_matrix, plan
from spae_dask.passes.calibration import MOST_CHUNKS, MOST_READS
from spae_dask.storage.sources.submatrix import chosen_columns, chosen_rows
from spae_dask.storage.sources.zarr_blocks import ZarrBlocks

N, D, ROWS = 120_000, 20, 4


class Counting(WrapperStore[Any]):
    """A store that knows the chunks that were asked for. None is there, so that all read as the fill value."""

    def __init__(self, store: Any) -> None:
        super().__init__(store)
        self.asked: list[str] = []

    async def get(self, key: str, *rest: Any, **options: Any) -> Any:
        if key.startswith("c/"):
            self.asked.append(key)
        return await super().get(key, *rest, **options)


def tiny_chunks(n: int = N, d: int = D, chunks: tuple[int, int] = (ROWS, D)) -> "tuple[Counting, zarr.Array[Any]]":
    store = Counting(MemoryStore())
    return store, zarr.create_array(store, shape=(n, d), chunks=chunks, dtype="f4", fill_value=1.0)


@pytest.mark.parametrize(
    "how",
    [
        {},
        {"missing_value": -9.0, "missing": "zero"},
        {"recipe": "log1p"},
        {"recipe": "normalize_total(median),log1p"},
        {"scale": True},
        {"n_top_features": 10},
        {"folds": 5},
    ],
    ids=lambda how: ", ".join(how) or "plain",
)
def test_a_plan_reads_few_chunks_however_many_a_block_has(how: dict[str, Any]) -> None:
    store, array = tiny_chunks()
    source = open_matrix(array)
    assert N // ROWS / (len(source.bounds) - 1) > 10 * MOST_CHUNKS
    found = plan(source, 2, n_nonzero=3, **how)
    assert found.calibration is not None
    assert 0 < len(store.asked) <= MOST_READS * MOST_CHUNKS
    nominal = plan(source, 2, n_nonzero=3, calibrate=False, **how)
    assert (found.strategy, found.worker_nbytes, found.bytes_read) == (
        nominal.strategy,
        nominal.worker_nbytes,
        nominal.bytes_read,
    )


@pytest.mark.parametrize(
    "chosen",
    [
        lambda source: chosen_columns(source, np.arange(0, D, 3)),
        lambda source: chosen_rows(source, np.arange(0, N, 7)),
    ],
    ids=["columns", "rows"],
)
def test_a_plan_of_chosen_rows_or_columns_reads_few_chunks(chosen: Callable[[Any], Any]) -> None:
    store, array = tiny_chunks()
    assert plan(chosen(open_matrix(array)), 2, n_nonzero=3).calibration is not None
    assert 0 < len(store.asked) <= MOST_READS * MOST_CHUNKS


def test_of_wide_rows_one_row_of_chunks_is_read() -> None:
    columns = 2 * MOST_CHUNKS
    store, array = tiny_chunks(160, columns, (ROWS, 1))
    plan(array, 2, n_nonzero=3)
    assert 0 < len(store.asked) <= MOST_READS * columns


@pytest.mark.parametrize(
    ("shape", "chunks", "most"),
    [((1000, 6), (10, 6), 7), ((1000, 6), (10, 2), 7), ((1003, 6), (10, 4), 1), ((5, 6), (10, 6), 1)],
)
def test_smaller_blocks_hold_the_same_rows(shape: tuple[int, int], chunks: tuple[int, int], most: int) -> None:
    values = np.arange(np.prod(shape), dtype=np.float64).reshape(shape)
    array = zarr.create_array(MemoryStore(), shape=shape, chunks=chunks, dtype="f8")
    array[...] = values
    whole = ZarrBlocks(array)
    smaller = whole.in_smaller_blocks(most)
    blocks = [smaller.read(i) for i in range(len(smaller.bounds) - 1)]
    np.testing.assert_array_equal(np.vstack(blocks), values)
    across = -(-shape[1] // chunks[1])
    assert max(-(-len(block) // chunks[0]) * across for block in blocks) <= max(most, across)
    assert smaller.in_smaller_blocks(10**9) is smaller
    assert whole.in_smaller_blocks(10**9) is whole
