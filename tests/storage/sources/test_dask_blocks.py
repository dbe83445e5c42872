"""Row blocks of dask arrays."""

import dask
import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from spae_dask.blocks import LazyRowBlocks
from spae_dask.errors import InvalidInput
from spae_dask.storage.sources.dask_blocks import DaskBlocks, as_rows, counted_rows, has_unknown_rows

X = np.arange(120.0).reshape(40, 3)


@pytest.fixture(autouse=True)
def in_this_thread() -> object:
    with dask.config.set(scheduler="synchronous"):
        yield


def all_rows(blocks: DaskBlocks) -> np.ndarray:
    parts = [blocks.read(i) for i in range(len(blocks.bounds) - 1)]
    return np.concatenate([part.toarray() if sp.issparse(part) else part for part in parts])


@given(rows=st.lists(st.integers(0, 7), min_size=1, max_size=8), cut=st.integers(0, 3))
def test_blocks_are_the_row_chunks_that_are_not_empty(rows: list[int], cut: int) -> None:
    rows = [*rows, 1]
    values = np.arange(3.0 * sum(rows)).reshape(-1, 3)
    columns = (cut, 3 - cut) if 0 < cut < 3 else (3,)
    blocks = DaskBlocks(da.from_array(values, chunks=(tuple(rows), columns)))
    assert np.diff(blocks.bounds).tolist() == [n for n in rows if n]
    np.testing.assert_array_equal(all_rows(blocks), values)
    computed = dask.compute(*blocks.lazy_blocks())
    np.testing.assert_array_equal(np.concatenate(computed), values)
    assert len(computed) == len(blocks.bounds) - 1


@pytest.mark.parametrize("kind", [sp.csr_matrix, sp.csr_array, sp.csc_matrix, sp.coo_array])
def test_sparse_blocks_of_any_kind_become_csr_arrays(kind: type) -> None:
    blocks = DaskBlocks(da.from_array(X, chunks=(10, 3)).map_blocks(kind))
    assert isinstance(blocks.read(0), sp.csr_array)
    np.testing.assert_array_equal(all_rows(blocks), X)


def test_sparse_blocks_cut_by_columns_are_put_together() -> None:
    blocks = DaskBlocks(da.from_array(X, chunks=(10, 2)).map_blocks(sp.csr_matrix))
    np.testing.assert_array_equal(all_rows(blocks), X)


def test_rows_of_unknown_number_are_counted() -> None:
    selected = da.from_array(X, chunks=(10, 2))[X[:, 0] > 30]
    unknown = da.from_array(X, chunks=(10, 2))[da.from_array(X[:, 0], chunks=10) > 30]
    assert has_unknown_rows(unknown)
    assert not has_unknown_rows(selected)
    counted = counted_rows(unknown)
    assert sum(counted.chunks[0]) == (X[:, 0] > 30).sum()
    np.testing.assert_array_equal(all_rows(DaskBlocks(counted)), X[X[:, 0] > 30])


def test_nothing_is_computed_to_count_what_is_known() -> None:
    def fail(block: np.ndarray) -> np.ndarray:
        raise AssertionError("computed")

    known = da.from_array(X, chunks=(10, 3)).map_blocks(fail, dtype=X.dtype, meta=X[:0])
    assert counted_rows(known) is known


def test_an_unknown_number_of_columns_is_refused_with_the_remedy() -> None:
    x = da.from_array(X, chunks=(10, 3))
    with pytest.raises(InvalidInput, match=r"number of columns.*compute_chunk_sizes\(\)"):
        counted_rows(x[:, da.from_array(np.array([1, 0, 1]) > 0)])


def test_entries_under_a_mask_are_refused_rather_than_taken_for_data() -> None:
    masked = da.ma.masked_greater(da.from_array(X, chunks=(10, 3)), 100.0)
    blocks = DaskBlocks(masked)
    np.testing.assert_array_equal(blocks.read(0), X[:10])
    with pytest.raises(InvalidInput, match=r"hides 19 entries.*filled"):
        blocks.read(3)
    assert type(as_rows(np.ma.masked_array(X, mask=False))) is np.ndarray


def test_it_is_lazy_and_says_what_it_is() -> None:
    blocks = DaskBlocks(da.from_array(X, chunks=(10, 2)))
    assert isinstance(blocks, LazyRowBlocks)
    assert blocks.describe() == "dask array (40, 3) of chunks (10, 2)"
    assert blocks.read_nbytes == 2 * 10 * 3 * 8  # its columns are cut
    assert DaskBlocks(da.from_array(X, chunks=(10, 3))).read_nbytes == 10 * 3 * 8
    assert not blocks.in_process
