"""Entries of a sparse matrix that stand twice are summed, in a type that holds the sum."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp
import zarr

from spae_dask.blocks import as_csr, in_canonical_form
from spae_dask.errors import InvalidInput
from spae_dask.storage.ingesting.ingest import ingest
from tests.estimators.sources import batch_encoder

N_ROWS, N_COLUMNS = 40, 5


def doubled(dtype: str) -> tuple[sp.csr_array, np.ndarray[Any, Any]]:
    """A CSR array in which every entry stands twice, and the sums; most of them do not fit ``dtype``."""
    rng = np.random.default_rng(3)
    largest = np.iinfo(dtype).max
    parts = rng.integers(largest // 3, largest + 1, size=(2, N_ROWS, N_COLUMNS))
    columns = np.tile(np.arange(N_COLUMNS), 2 * N_ROWS)
    values = parts.transpose(1, 0, 2).ravel()
    pointers = np.arange(N_ROWS + 1) * 2 * N_COLUMNS
    rows = sp.csr_array((values.astype(dtype), columns, pointers), shape=(N_ROWS, N_COLUMNS))
    return rows, parts.sum(axis=0).astype(np.float64)


def coordinates(rows: sp.csr_array) -> sp.coo_array:
    """The same entries by row and column number, twice as well."""
    numbers = np.repeat(np.arange(N_ROWS), np.diff(rows.indptr))
    return sp.coo_array((rows.data, (numbers, rows.indices)), shape=rows.shape)


def by_columns(rows: sp.csr_array) -> sp.csc_array:
    """The same entries column by column, twice as well."""
    return rows.tocsc()


def chunked(rows: sp.csr_array) -> Any:
    """A dask array of CSR chunks."""
    block = da.from_array(np.zeros(rows.shape, rows.dtype), chunks=(N_ROWS, N_COLUMNS))
    return block.map_blocks(lambda _: rows, dtype=rows.dtype, meta=sp.csr_array((0, 0), dtype=rows.dtype))


def stored(rows: sp.csr_array, folder: Path) -> str:
    """An AnnData-like CSR group that holds the entries as they are."""
    group = zarr.open_group(folder / "X.zarr", mode="w", zarr_format=2)
    group.attrs.update({"encoding-type": "csr_matrix", "encoding-version": "0.1.0", "shape": list(rows.shape)})
    for name in ("data", "indices", "indptr"):
        values = getattr(rows, name)
        group.create_array(name, shape=values.shape, dtype=values.dtype, chunks=values.shape)[...] = values
    return str(folder / "X.zarr")


DOORS: dict[str, Callable[[sp.csr_array, Path], Any]] = {
    "CSR": lambda rows, _: rows,
    "CSR matrix": lambda rows, _: sp.csr_matrix(rows),
    "COO": lambda rows, _: coordinates(rows),
    "CSC": lambda rows, _: by_columns(rows),
    "dask": lambda rows, _: chunked(rows),
    "zarr": stored,
}


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("strategy", ["gram", "tsqr", "sketch", "stream"])
def test_sums_that_do_not_fit_the_type_are_right(door: str, dtype: str, strategy: str, tmp_path: Path) -> None:
    rows, dense = doubled(dtype)
    given = DOORS[door](rows, tmp_path)
    encoder: Any = batch_encoder(1, n_nonzero=3, strategy=strategy).fit(given)
    np.testing.assert_allclose(encoder.mean_, dense.mean(axis=0), rtol=1e-12)
    codes = encoder.transform(given)
    expected = (dense - encoder.mean_) @ encoder.components_.T
    np.testing.assert_allclose(np.asarray(codes), expected, rtol=1e-9, atol=1e-9)


def test_rows_that_come_in_batches(tmp_path: Path) -> None:
    rows, dense = doubled("uint8")
    online: Any = batch_encoder(1, n_nonzero=3, strategy="stream")
    for start in range(0, N_ROWS, 7):
        online.partial_fit(rows[start : start + 7])
    np.testing.assert_allclose(online.mean_, dense.mean(axis=0), rtol=1e-12)


def test_ingesting_sums_or_refuses(tmp_path: Path) -> None:
    rows, dense = doubled("uint8")
    with pytest.raises(InvalidInput, match=r"uint8 cannot hold.*wider type"):
        ingest(rows, tmp_path / "narrow.zarr")
    assert not (tmp_path / "narrow.zarr").exists()
    ingest(rows, tmp_path / "wide.zarr", dtype="uint16")
    encoder: Any = batch_encoder(1, n_nonzero=3).fit(tmp_path / "wide.zarr")
    np.testing.assert_allclose(encoder.mean_, dense.mean(axis=0), rtol=1e-12)


def test_single_entries_keep_their_type() -> None:
    rows = sp.csr_array((np.array([3, 4], "u1"), np.array([1, 0]), np.array([0, 2])), shape=(1, 2))
    assert in_canonical_form(rows).dtype == np.uint8
    assert as_csr(rows.tocoo()).dtype == np.uint8
    assert not rows.has_sorted_indices, "the caller's matrix stays as it was"
