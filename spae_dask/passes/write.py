"""Writing a row-wise result: each task writes whole units of the output, reads them back and compares.

A unit is what the output stores as one object, so no two tasks ever write to the same object. Where units and the
source's blocks do not line up, a block is read by both neighbours.
"""

import zlib
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from spae_dask.blocks import RowBlocks
from spae_dask.errors import StorageError
from spae_dask.passes.options import current_options
from spae_dask.passes.spans import Span, share_of
from spae_dask.passes.sweep import read_again

Rows = npt.NDArray[Any]


class RowSink(Protocol):
    """Output for rows, stored in units of ``unit_rows`` rows."""

    @property
    def unit_rows(self) -> int: ...

    @property
    def n_columns(self) -> int: ...

    @property
    def dtype(self) -> np.dtype[Any]: ...

    def write(self, first_row: int, rows: Rows) -> None:
        """Store one whole unit."""
        ...

    def read(self, first_row: int, last_row: int) -> Rows:
        """Read rows back from the store."""
        ...


class RowMap(Protocol):
    """Makes output rows (m, k) of input rows (m, d), each from itself alone."""

    def encode(self, rows: Any, first_row: int) -> Rows: ...


def unit_spans(bounds: Sequence[int], row_nbytes: int, unit_rows: int) -> tuple[Span, ...]:
    """Cut the rows into spans of whole units; a span names every block that holds any of its rows.

    Parameters
    ----------
    bounds : sequence of int
        Row bounds of the source's blocks.
    row_nbytes : int
        Decoded bytes of a source row.
    unit_rows : int
        Rows of a unit of the output.
    """
    n_rows = bounds[-1]
    n_units = -(-n_rows // unit_rows)
    span_nbytes = max(current_options().min_span_nbytes, share_of(n_rows * row_nbytes))
    units_per_span = max(1, span_nbytes // (unit_rows * row_nbytes))
    spans = []
    for first_unit in range(0, n_units, units_per_span):
        first_row = first_unit * unit_rows
        last_row = min((first_unit + units_per_span) * unit_rows, n_rows)
        spans.append(Span(bisect_right(bounds, first_row) - 1, bisect_left(bounds, last_row), first_row, last_row))
    return tuple(spans)


@dataclass(frozen=True, eq=False)
class WriteRows:
    """Span work: encode the rows of a span and store them, unit by unit, each read back and compared.

    Parameters
    ----------
    encode : RowMap
        From input rows to output rows.
    sink : RowSink
        Output of the rows.
    """

    encode: RowMap
    sink: RowSink

    def __call__(self, source: RowBlocks, span: Span) -> int:
        """Write the rows of ``span``; gives back how many were written and verified."""
        for first_row, rows in self._units(source, span):
            self.sink.write(first_row, rows)
            back = self.sink.read(first_row, first_row + rows.shape[0])
            if _checksum(back) != _checksum(rows):
                raise StorageError(
                    f"rows {first_row} to {first_row + rows.shape[0] - 1} read back differently from what was "
                    "written: the storage is faulty. Nothing was published. Write to another place."
                )
        return span.n_rows

    def _units(self, source: RowBlocks, span: Span) -> Iterator[tuple[int, Rows]]:
        """Whole units of output rows, in order; holds one block and one unit."""
        unit = self.sink.unit_rows
        at = span.first_row
        buffer = np.empty((min(unit, span.n_rows), self.sink.n_columns), dtype=self.sink.dtype)
        filled = 0
        for number in range(span.first_block, span.last_block):
            start, stop = max(source.bounds[number], span.first_row), min(source.bounds[number + 1], span.last_row)
            block: Any = read_again(source, number)
            codes = self.encode.encode(block[start - source.bounds[number] : stop - source.bounds[number]], start)
            del block
            while codes.shape[0]:
                taken = min(unit - filled, span.last_row - at - filled, codes.shape[0])
                buffer[filled : filled + taken] = codes[:taken]
                codes, filled = codes[taken:], filled + taken
                if filled == min(unit, span.last_row - at):
                    yield at, buffer[:filled]
                    at, filled = at + filled, 0


def _checksum(rows: Rows) -> int:
    """CRC-32 of the bytes, so that NaN compares equal to itself and -0 differs from 0."""
    return zlib.crc32(np.ascontiguousarray(rows).data)
