"""A fit of a store in tall chunks, read by groups of columns, against one of the same numbers in row chunks."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import zarr

from benchmarks.problems import CODECS, SensorCounts
from benchmarks.store_fit import fit
from benchmarks.table import Line
from benchmarks.timing import take_turns, timed
from spae_dask import open_matrix

COPIED = 16
"""Chunks that are copied at once."""


@dataclass(frozen=True)
class ColumnChunks:
    """Fits of both stores in turns.

    Parameters
    ----------
    problem : SensorCounts
        The store in row chunks.
    chunk_columns : int
        Columns of a chunk of the other store, which has all rows.
    at_most : float, optional
        Target for tall chunks over row chunks.
    """

    problem: SensorCounts
    chunk_columns: int
    at_most: float | None = None

    def run(self, scratch: Path, repetitions: int) -> list[Line]:
        """Time both fits, whose losses must be the same."""
        rows = self.problem.make(scratch)
        tall = self._twin(rows)
        losses: dict[Path, float] = {}

        def fit_once(path: Path) -> None:
            losses[path] = fit(path, "sketch").certificate_.loss

        turns = take_turns(
            {str(path): lambda path=path: timed(lambda: fit_once(path)) for path in (rows, tall)}, repetitions
        )
        apart = abs(losses[tall] / losses[rows] - 1.0)
        if apart > 1e-6:
            raise AssertionError(f"losses of the two fits are {apart:.1e} apart")
        source: Any = open_matrix(tall)
        case = (
            f"sketch, d = {self.problem.n_features:,}, {self.problem.codec}, {self.problem.nbytes >> 20:,} MiB, chunks "
            f"of {self.chunk_columns} columns; by rows each would be decoded {source.decodes_per_chunk} times a pass"
        )
        return [Line("tall chunks / row chunks", case, turns[str(tall)], turns[str(rows)], at_most=self.at_most)]

    def _twin(self, rows: Path) -> Path:
        """The same numbers in chunks of all rows; made once."""
        path = rows.with_name(f"{rows.stem}-columns-{self.chunk_columns}.zarr")
        if path.exists():
            return path
        given: Any = zarr.open_array(rows, mode="r")
        unfinished, (n, d) = path.with_suffix(".unfinished"), given.shape
        made = zarr.create_array(
            unfinished,
            shape=(n, d),
            chunks=(n, self.chunk_columns),
            dtype=given.dtype,
            compressors=CODECS[self.problem.codec],
            overwrite=True,
        )
        step = COPIED * self.chunk_columns
        for start in range(0, d, step):
            made[:, start : start + step] = given[:, start : start + step]
        return unfinished.rename(path)
