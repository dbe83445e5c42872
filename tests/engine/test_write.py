"""Rows are written in whole units, each by one task, and what does not read back the same is refused."""

from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spae_dask.blocks import ArrayBlocks
from spae_dask.errors import StorageError
from spae_dask.passes.options import pass_options
from spae_dask.passes.serial import SerialRunner
from spae_dask.passes.spans import Span
from spae_dask.passes.write import WriteRows, unit_spans

FLOAT64 = np.dtype(np.float64)


@dataclass
class Shelf:
    """A sink in memory that records which rows were written in one go."""

    n_rows: int
    unit_rows: int
    n_columns: int = 2
    dtype: np.dtype[Any] = FLOAT64
    writes: list[tuple[int, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.rows = np.full((self.n_rows, self.n_columns), -1, dtype=self.dtype)

    def write(self, first_row: int, rows: npt.NDArray[Any]) -> None:
        self.writes.append((first_row, first_row + rows.shape[0]))
        self.rows[first_row : first_row + rows.shape[0]] = rows

    def read(self, first_row: int, last_row: int) -> npt.NDArray[Any]:
        return self.rows[first_row:last_row].copy()


class FirstTwo:
    """Output rows are the first two columns and the row number that was said."""

    def encode(self, rows: Any, first_row: int) -> npt.NDArray[np.float64]:
        numbers = np.arange(first_row, first_row + rows.shape[0])
        np.testing.assert_array_equal(rows[:, 2], numbers)
        return np.asarray(rows[:, :2], dtype=np.float64)


def numbered(n: int) -> npt.NDArray[np.float64]:
    return np.column_stack([np.random.default_rng(n).random((n, 2)), np.arange(n)])


@st.composite
def layouts(draw: st.DrawFn) -> tuple[int, int, int, int]:
    """Rows, rows per block, rows per unit, units per span."""
    n = draw(st.integers(1, 200))
    return n, draw(st.integers(1, n)), draw(st.integers(1, n)), draw(st.integers(1, 5))


def spans_of(n: int, per_block: int, unit: int, units_per_span: int) -> tuple[ArrayBlocks, tuple[Span, ...]]:
    source = ArrayBlocks(numbered(n), per_block)
    with pass_options(min_span_nbytes=units_per_span * unit * 24):
        return source, unit_spans(source.bounds, 24, unit)


@settings(deadline=None)
@given(layouts())
def test_spans_cover_all_rows_in_whole_units_and_name_the_blocks_that_hold_them(
    layout: tuple[int, int, int, int],
) -> None:
    n, per_block, unit, _ = layout
    source, spans = spans_of(*layout)
    assert spans[0].first_row == 0
    assert spans[-1].last_row == n
    for before, after in pairwise(spans):
        assert before.last_row == after.first_row
    for span in spans:
        assert span.first_row % unit == 0
        assert span.last_row % unit == 0 or span.last_row == n
        assert source.bounds[span.first_block] <= span.first_row < source.bounds[span.first_block + 1]
        assert source.bounds[span.last_block - 1] < span.last_row <= source.bounds[span.last_block]
        assert per_block >= 1


@settings(deadline=None)
@given(layouts())
def test_every_row_is_written_once_in_whole_units(layout: tuple[int, int, int, int]) -> None:
    n, _, unit, _ = layout
    source, spans = spans_of(*layout)
    shelf = Shelf(n, unit)
    done = SerialRunner(source).run_spans(WriteRows(FirstTwo(), shelf), spans)
    assert sum(done) == n
    assert shelf.rows.tobytes() == source.X[:, :2].tobytes()
    assert sorted(shelf.writes) == [(start, min(start + unit, n)) for start in range(0, n, unit)]


def test_no_two_spans_write_to_the_same_unit() -> None:
    source, spans = spans_of(100, 7, 8, 2)
    assert len(spans) > 3
    touched = []
    for span in spans:
        shelf = Shelf(100, 8)
        WriteRows(FirstTwo(), shelf)(source, span)
        touched.append({first // 8 for first, _ in shelf.writes})
    assert sum(map(len, touched)) == len(set.union(*touched))


def test_a_span_written_twice_leaves_the_same_rows() -> None:
    source, spans = spans_of(50, 6, 9, 2)
    shelf = Shelf(50, 9)
    for span in (*spans, *reversed(spans)):
        WriteRows(FirstTwo(), shelf)(source, span)
    assert shelf.rows.tobytes() == source.X[:, :2].tobytes()


@pytest.mark.parametrize("harm", ["one bit", "lost", "short", "negative zero"])
def test_rows_that_read_back_differently_are_refused_by_their_numbers(harm: str) -> None:
    class Faulty(Shelf):
        def read(self, first_row: int, last_row: int) -> npt.NDArray[Any]:
            rows = super().read(first_row, last_row)
            if first_row == 20:
                if harm == "one bit":
                    rows.view(np.uint64)[3, 1] ^= 1
                if harm == "lost":
                    rows[:] = 0.0
                if harm == "short":
                    return rows[:-1]
                if harm == "negative zero":
                    rows[0, 0] = -rows[0, 0]
            return rows

    source, spans = spans_of(60, 7, 10, 1)
    source.X[20, 0] = 0.0
    with pytest.raises(StorageError, match="rows 20 to 29 read back differently from what was written"):
        SerialRunner(source).run_spans(WriteRows(FirstTwo(), Faulty(60, 10)), spans)


def test_nan_that_reads_back_as_nan_is_the_same() -> None:
    source, spans = spans_of(20, 7, 10, 1)
    source.X[3, 0] = np.nan
    assert SerialRunner(source).run_spans(WriteRows(FirstTwo(), Shelf(20, 10)), spans) == [10, 10]


def test_rows_take_the_type_of_the_sink() -> None:
    source, spans = spans_of(20, 7, 10, 1)
    shelf = Shelf(20, 10, dtype=np.dtype(np.float32))
    SerialRunner(source).run_spans(WriteRows(FirstTwo(), shelf), spans)
    np.testing.assert_array_equal(shelf.rows, source.X[:, :2].astype(np.float32))
