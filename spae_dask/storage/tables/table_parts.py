"""Parts of a table's files, and how they are put together to row blocks."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class FileParts:
    """Metadata of a table file, known before its rows are read.

    Attributes
    ----------
    file : str
        Path or URL.
    rows : tuple of int
        Number of rows of each row group or record batch.
    types : dict of numpy.dtype
        Types of the chosen columns, by name.
    nulls : bool
        True if columns of other types than floats have nulls, or may have them.
    part_nbytes : int
        Bytes held for the largest part while it is decoded, at most.
    """

    file: str
    rows: tuple[int, ...]
    types: dict[str, np.dtype[Any]]
    nulls: bool
    part_nbytes: int


@dataclass(frozen=True)
class Piece:
    """A row block: whole parts of one file, or some rows of a part.

    Attributes
    ----------
    file : str
        Path or URL.
    first, last : int
        The parts ``first`` to ``last - 1``.
    skip, rows : int
        Rows to leave out at their beginning, and to take.
    """

    file: str
    first: int
    last: int
    skip: int
    rows: int


def cut(files: Sequence[FileParts], row_nbytes: int, target_nbytes: int, most_nbytes: int) -> Iterator[Piece]:
    """Row blocks of a table: small parts gathered up to ``target_nbytes``, one larger than ``most_nbytes`` cut."""
    target, most = max(1, target_nbytes // row_nbytes), max(1, most_nbytes // row_nbytes)
    for each in files:
        first = held = 0
        for number, rows in enumerate(each.rows):
            if held and held + rows > target:
                yield Piece(each.file, first, number, 0, held)
                first, held = number, 0
            if rows > most:
                n_cuts = -(-rows // most)
                length = -(-rows // n_cuts)
                for skip in range(0, rows, length):
                    yield Piece(each.file, number, number + 1, skip, min(length, rows - skip))
                first = number + 1
            else:
                held += rows
        if held:
            yield Piece(each.file, first, len(each.rows), 0, held)
