"""Stores that are chunked along their columns: applying an encoder reads only the chunks that hold its features."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import zarr

from spae_dask import ColumnSelector, SparseEncoder
from spae_dask.blocks import columns_alone
from spae_dask.errors import StorageError
from spae_dask.estimators.writing import transform_to_zarr
from spae_dask.storage.open import open_matrix

N, D, WIDTH = 230, 40, 8


@pytest.fixture
def rows() -> np.ndarray:
    """Rows whose variance lies in columns 3, 5, 17 and 18, so in the first and third column of chunks."""
    rng = np.random.default_rng(0)
    x = 0.01 * rng.normal(size=(N, D))
    x[:, [3, 5, 17, 18]] += rng.normal(size=(N, 2)) @ rng.normal(size=(2, 4))
    return x.astype(np.float32)


def stored(path: Path, values: np.ndarray, zarr_format: int, shards: tuple[int, int] | None = None) -> str:
    made = zarr.create_array(
        str(path), shape=values.shape, chunks=(50, WIDTH), dtype=values.dtype, zarr_format=zarr_format, shards=shards
    )
    made[...] = values
    return str(path)


def spoil(path: str, column: int) -> None:
    """Garbage in place of every chunk of a column of chunks."""
    array = zarr.open_array(path, mode="r")
    for row in range(-(-N // 50)):
        Path(path, array.metadata.encode_chunk_key((row, column))).write_bytes(b"garbage")


@pytest.fixture
def encoder(rows: np.ndarray) -> SparseEncoder:
    fitted = SparseEncoder(n_components=2, n_nonzero=2, effort=0).fit(rows)
    assert set(fitted.selected_features_ // WIDTH) == {0, 2}
    return fitted


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_chunks_without_features_are_never_read(rows, encoder, tmp_path, zarr_format):
    path = stored(tmp_path / "x.zarr", rows, zarr_format)
    for column in (1, 3, 4):
        spoil(path, column)
    wanted = encoder.transform(rows)
    np.testing.assert_array_equal(encoder.transform(path).compute(scheduler="sync"), wanted)
    transform_to_zarr(path, encoder, str(tmp_path / "z.zarr"))
    np.testing.assert_array_equal(zarr.open_array(tmp_path / "z.zarr")[...], wanted)


def test_a_broken_chunk_with_features_is_named(rows, encoder, tmp_path):
    path = stored(tmp_path / "x.zarr", rows, 3)
    spoil(path, 1)
    spoil(path, 2)
    with pytest.raises(StorageError, match=r"chunk 'c/0/2' of .* \(rows 0 to 49\) cannot be read"):
        encoder.transform(path).compute(scheduler="sync")


def test_shards_are_read_in_part(rows, encoder, tmp_path):
    path = stored(tmp_path / "x.zarr", rows, 3, shards=(100, 40))
    np.testing.assert_array_equal(encoder.transform(path).compute(scheduler="sync"), encoder.transform(rows))


def test_a_number_for_missing_is_seen_in_them_too(rows, tmp_path):
    holed = rows.copy()
    holed[::7, 3] = -9.0
    path = stored(tmp_path / "x.zarr", holed, 3)
    fitted = SparseEncoder(n_components=2, n_nonzero=2, effort=0, missing="mean", missing_value=-9.0).fit(holed)
    spoil(path, 1)
    np.testing.assert_array_equal(fitted.transform(path).compute(scheduler="sync"), fitted.transform(holed))


def test_the_selector_reads_no_others_either(rows, tmp_path):
    path = stored(tmp_path / "x.zarr", rows, 3)
    selector = ColumnSelector(n_columns=3).fit(rows)
    for column in set(range(5)) - set(selector.selected_idx_ // WIDTH):
        spoil(path, column)
    np.testing.assert_array_equal(selector.transform(path).compute(scheduler="sync"), selector.transform(rows))


def test_blocks_are_whole_chunks_and_count_what_they_hold(rows, tmp_path):
    whole = open_matrix(stored(tmp_path / "x.zarr", rows, 3))
    alone = columns_alone(whole, np.array([3, 17]))
    assert alone.shape == (N, 2)
    assert all(bound % 50 == 0 for bound in alone.bounds[:-1])
    read = np.concatenate([alone.read(i) for i in range(len(alone.bounds) - 1)])
    np.testing.assert_array_equal(read, rows[:, [3, 17]])
    assert alone.read_nbytes <= whole.read_nbytes


def test_nothing_is_gained_where_every_column_of_chunks_is_needed(rows, tmp_path):
    whole = open_matrix(stored(tmp_path / "x.zarr", rows, 3))
    assert columns_alone(whole, np.arange(0, D, WIDTH)) is None
    shutil.rmtree(tmp_path / "x.zarr")
