"""Rows and columns of other sources, cut out block by block."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from spae_dask.blocks import ArrayBlocks, largest_block_nbytes, stored_entries, total_nbytes
from spae_dask.storage.sources.submatrix import Submatrix
from tests.storage.anndata_stores import sparse_counts
from tests.storage.test_h5_files import rows_of

X0 = sparse_counts(30, 8)


@given(
    rows=st.none() | st.sets(st.integers(0, 29), min_size=1),
    columns=st.none() | st.permutations(range(8)).flatmap(lambda p: st.integers(1, 8).map(lambda n: p[:n])),
    rows_per_block=st.integers(1, 31),
    sparse=st.booleans(),
)
def test_any_choice_is_that_of_numpy(
    rows: set[int] | None, columns: list[int] | None, rows_per_block: int, sparse: bool
) -> None:
    names = tuple("abcdefgh")
    source = ArrayBlocks(X0 if sparse else X0.toarray(), rows_per_block, feature_names=names)
    kept = None if rows is None else np.array(sorted(rows))
    wanted = None if columns is None else np.array(columns)
    cut = Submatrix(source, kept, wanted)
    expected = X0.toarray()[slice(None) if kept is None else kept][:, slice(None) if wanted is None else wanted]

    np.testing.assert_array_equal(rows_of(cut), expected)
    assert cut.shape == expected.shape
    assert cut.bounds[-1] == len(expected)
    assert cut.feature_names == (names if columns is None else tuple(names[column] for column in columns))
    held = [cut.read(number) for number in range(len(cut.bounds) - 1)]
    if sparse:
        assert stored_entries(cut) is not None
        assert max(b.data.nbytes + b.indices.nbytes for b in held) <= largest_block_nbytes(cut) <= total_nbytes(source)  # type: ignore[union-attr]
    assert largest_block_nbytes(source) <= cut.read_nbytes


def test_blocks_without_a_chosen_row_are_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    source, reads = ArrayBlocks(X0.toarray(), 5), []
    read = ArrayBlocks.read
    monkeypatch.setattr(ArrayBlocks, "read", lambda self, i: (reads.append(i), read(self, i))[1])
    rows_of(Submatrix(source, np.array([6, 8, 29])))
    assert reads == [1, 5]
    assert not sp.issparse(Submatrix(source).read(0))
