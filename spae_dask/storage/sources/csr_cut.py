"""Cut of the rows of a CSR matrix into blocks of about equal entries. Pure: row pointers in, bounds out."""

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

Pointers = npt.NDArray[np.int64]


def cut_rows(pieces: Iterable[tuple[int, Pointers]], block_entries: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Cut rows into blocks; only a piece of the row pointers is looked at a time.

    Parameters
    ----------
    pieces : iterable of (int, ndarray of int64)
        The row pointers in order: the number of the first one, and some of them. Each piece begins with the pointer the
        one before ended with.
    block_entries : int
        Entries of a block, where a row counts as one more so that empty rows do not pile up without end.

    Returns
    -------
    bounds, entries : tuple of int
        Row bounds of the blocks, and the stored entries before each of them. A block has more than ``block_entries``
        only if it is a single row.
    """
    bounds, entries = [0], [0]
    last, n_before = 0, 0
    for start, pointers in pieces:
        load = pointers + np.arange(start, start + len(pointers))
        last, n_before = start + len(pointers) - 1, int(pointers[-1])
        fits = int(np.searchsorted(load, entries[-1] + bounds[-1] + block_entries, side="right")) - 1
        while start + fits < last:
            bounds.append(max(start + fits, bounds[-1] + 1))
            entries.append(int(pointers[bounds[-1] - start]))
            fits = int(np.searchsorted(load, entries[-1] + bounds[-1] + block_entries, side="right")) - 1
    if bounds[-1] < last:
        bounds.append(last)
        entries.append(n_before)
    return tuple(bounds), tuple(entries)
