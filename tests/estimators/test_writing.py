"""Codes in a Zarr store: the same numbers as transform, written whole or not at all."""

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import pytest
import zarr
from zarr.storage import MemoryStore

from spae_dask import SparseEncoder
from spae_dask.errors import InvalidInput, NonFiniteInput, OutputExists, StorageError
from spae_dask.estimators import writing
from spae_dask.estimators.writing import transform_to_zarr
from spae_dask.storage.writing.zarr_sink import ZarrSink, create_sink, unit_rows_for
from tests.conftest import OptionsSetter
from tests.estimators.sources import batch_encoder, spread, zarr_array

X = spread(np.random.default_rng(0), 500, 8)


@pytest.fixture(scope="module")
def encoder() -> SparseEncoder:
    return batch_encoder(2, n_nonzero=3).fit(X)


@pytest.fixture
def small_units(monkeypatch: pytest.MonkeyPatch, options: OptionsSetter) -> None:
    """Units of 37 rows and a span for every two of them, so that a small array makes many tasks."""
    monkeypatch.setattr(writing, "unit_rows_for", lambda n_rows, row_nbytes, rows_per_block: 37)
    options(min_span_nbytes=2 * 37 * 64)


KINDS: dict[str, Callable[[Path], Any]] = {
    "numpy": lambda _: X,
    "float32": lambda _: X.astype(np.float32),
    "int": lambda _: X.astype(np.int16),
    "dask": lambda _: da.from_array(X, chunks=(90, 3)),
    "memory": lambda _: zarr_array(MemoryStore(), X, (90, 3)),
    "zarr": lambda folder: zarr_array(folder / "x.zarr", X, (90, 3)),
    "shards": lambda folder: zarr_array(folder / "x.zarr", X, (10, 4), shards=(50, 8)),
    "path": lambda folder: str(zarr_array(folder / "x.zarr", X, (90, 3)).store_path).removeprefix("file://"),
}


@pytest.mark.usefixtures("small_units")
@pytest.mark.parametrize("kind", KINDS)
def test_the_store_holds_what_transform_gives(encoder: SparseEncoder, kind: str, tmp_path: Path) -> None:
    given = KINDS[kind](tmp_path)
    report = transform_to_zarr(given, encoder, str(tmp_path / "z.zarr"))
    stored = zarr.open_array(tmp_path / "z.zarr", mode="r")
    wanted = np.asarray(encoder.transform(given))
    np.testing.assert_allclose(stored[...], wanted, rtol=1e-12 if wanted.dtype == float else 1e-5, atol=1e-12)
    assert stored.dtype == wanted.dtype == report.dtype
    assert stored.chunks == (37, 2)
    assert (report.shape, report.chunk_rows, report.n_chunks, report.rows_verified) == ((500, 2), 37, 14, 500)
    assert dict(stored.attrs)["spae"]["kind"] == "codes"
    assert sorted(path.name for path in tmp_path.iterdir() if path.name != "x.zarr") == ["z.zarr"]
    assert "500 rows read back and verified" in report.describe()


def test_every_chunk_is_stored_even_one_of_zeros(encoder: SparseEncoder, tmp_path: Path) -> None:
    sink = create_sink(str(tmp_path / "z.zarr"), (20, 2), np.dtype(np.float64), 10, {})
    for first in (0, 10):
        sink.write(first, np.zeros((10, 2)))
    assert sum(path.is_file() for path in (tmp_path / "z.zarr" / "c").rglob("*")) == 2


def test_an_existing_output_is_kept_unless_it_may_go(encoder: SparseEncoder, tmp_path: Path) -> None:
    path = str(tmp_path / "z.zarr")
    transform_to_zarr(X[:50], encoder, path)
    with pytest.raises(OutputExists, match="--force"):
        transform_to_zarr(X, encoder, path)
    assert zarr.open_array(path).shape == (50, 2)
    transform_to_zarr(X, encoder, path, overwrite=True)
    assert zarr.open_array(path).shape == (500, 2)
    assert [each.name for each in tmp_path.iterdir()] == ["z.zarr"]


@pytest.mark.parametrize("output", ["x.zarr", "x.zarr/inside", "."])
def test_the_input_is_never_the_output(encoder: SparseEncoder, tmp_path: Path, output: str) -> None:
    zarr_array(tmp_path / "x.zarr", X, (90, 8))
    for given in (tmp_path / "x.zarr", zarr.open_array(tmp_path / "x.zarr"), (tmp_path / "x.zarr").as_uri()):
        with pytest.raises(InvalidInput, match="input"):
            transform_to_zarr(given, encoder, str(tmp_path / output), overwrite=True)
    np.testing.assert_array_equal(zarr.open_array(tmp_path / "x.zarr")[...], X)


def test_the_input_is_recognised_through_a_link(encoder: SparseEncoder, tmp_path: Path) -> None:
    zarr_array(tmp_path / "x.zarr", X, (90, 8))
    (tmp_path / "link.zarr").symlink_to(tmp_path / "x.zarr")
    with pytest.raises(InvalidInput, match="input"):
        transform_to_zarr(tmp_path / "x.zarr", encoder, str(tmp_path / "link.zarr"), overwrite=True)


@pytest.mark.usefixtures("small_units")
def test_a_full_disk_leaves_nothing_behind(
    encoder: SparseEncoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: ZarrSink, first_row: int, rows: Any) -> None:
        if first_row >= 300:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        whole(self, first_row, rows)

    whole = ZarrSink.write
    monkeypatch.setattr(ZarrSink, "write", full)
    with pytest.raises(StorageError, match=r"No space left on device.*Free some space"):
        transform_to_zarr(X, encoder, str(tmp_path / "z.zarr"))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("small_units")
@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_an_interrupted_run_leaves_nothing_behind_and_the_old_output_as_it_was(
    encoder: SparseEncoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    transform_to_zarr(X[:50], encoder, str(tmp_path / "z.zarr"))

    def broken(self: ZarrSink, first_row: int, last_row: int) -> Any:
        raise error

    monkeypatch.setattr(ZarrSink, "read", broken)
    with pytest.raises(error):
        transform_to_zarr(X, encoder, str(tmp_path / "z.zarr"), overwrite=True)
    assert [each.name for each in tmp_path.iterdir()] == ["z.zarr"]
    assert zarr.open_array(tmp_path / "z.zarr").shape == (50, 2)


@pytest.mark.usefixtures("small_units")
def test_a_corrupted_write_is_noticed_and_not_published(
    encoder: SparseEncoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def corrupting(self: ZarrSink, first_row: int, rows: Any) -> None:
        whole(self, first_row, rows + 1e-9 if first_row == 37 else rows)

    whole = ZarrSink.write
    monkeypatch.setattr(ZarrSink, "write", corrupting)
    with pytest.raises(StorageError, match="rows 37 to 73 read back differently from what was written"):
        transform_to_zarr(X, encoder, str(tmp_path / "z.zarr"))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("small_units")
def test_bad_entries_are_named_by_their_row_in_the_data(encoder: SparseEncoder, tmp_path: Path) -> None:
    rows = X.copy()
    rows[411, encoder.selected_features_[1]] = np.nan
    zarr_array(tmp_path / "x.zarr", rows, (90, 8))
    with pytest.raises(NonFiniteInput, match=f"NaN at row 411, column {encoder.selected_features_[1]}"):
        transform_to_zarr(tmp_path / "x.zarr", encoder, str(tmp_path / "z.zarr"))
    assert [each.name for each in tmp_path.iterdir()] == ["x.zarr"]


def test_a_folder_that_is_not_there_is_named(encoder: SparseEncoder, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="nowhere does not exist"):
        transform_to_zarr(X, encoder, str(tmp_path / "nowhere" / "z.zarr"))


@pytest.mark.parametrize("n_rows", [1, 1000, 10**6, 10**9])
@pytest.mark.parametrize("row_nbytes", [8, 400])
@pytest.mark.parametrize("rows_per_block", [1, 777, 10**5, 10**7])
def test_units_are_neither_tiny_nor_huge_nor_many(n_rows: int, row_nbytes: int, rows_per_block: int) -> None:
    unit = unit_rows_for(n_rows, row_nbytes, rows_per_block)
    assert 1 <= unit <= n_rows
    assert unit * row_nbytes <= 64 << 20
    assert -(-n_rows // unit) <= max(4001, n_rows * row_nbytes // (32 << 20) + 1)
    if rows_per_block * row_nbytes <= 64 << 20 and unit < n_rows:
        assert unit % rows_per_block == 0
