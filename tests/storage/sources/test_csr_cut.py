"""Cutting sparse rows into blocks, against the greedy definition."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from spae_dask.storage.sources.csr_blocks import cut_rows


def pieces(pointers: NDArray[np.int64], length: int) -> list[tuple[int, NDArray[np.int64]]]:
    return [(i, pointers[i : i + length + 1]) for i in range(0, max(1, len(pointers) - 1), length)]


@given(lengths=st.lists(st.integers(0, 30), min_size=1, max_size=60), block=st.integers(1, 50), piece=st.integers(1, 9))
def test_blocks_are_as_long_as_they_may_be_whatever_the_pieces(lengths: list[int], block: int, piece: int) -> None:
    pointers = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    bounds, entries = cut_rows(pieces(pointers, piece), block)
    expected = [0]
    for row in range(1, len(lengths) + 1):
        load = pointers[row] - pointers[expected[-1]] + row - expected[-1]
        if load > block and row - 1 > expected[-1]:
            expected.append(row - 1)
            load = pointers[row] - pointers[row - 1] + 1
        if load > block:
            expected.append(row)
    if expected[-1] != len(lengths):
        expected.append(len(lengths))
    assert list(bounds) == expected
    assert list(entries) == pointers[expected].tolist()


def test_empty_rows_do_not_pile_up_in_one_block() -> None:
    bounds, entries = cut_rows([(0, np.zeros(1001, dtype=np.int64))], 100)
    assert max(np.diff(bounds)) == 100
    assert set(entries) == {0}
