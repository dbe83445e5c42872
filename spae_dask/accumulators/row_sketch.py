"""Row sketch W = S X, S drawn by global row index, so that W does not depend on how the rows are cut."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from spae_dask.accumulators.base import Floats, Rows, State, panel_rows_for
from spae_dask.linalg.sketch import gaussian_rows, sign_rows

DRAW: dict[str, Callable[[int, int, int, int, int], Floats]] = {"gaussian": gaussian_rows, "sign": sign_rows}


@dataclass(frozen=True, eq=False)
class SketchedRows:
    """A row sketch and what centering it takes.

    Attributes
    ----------
    count : int
        Rows seen.
    sketch : ndarray (s, d)
        ``S (X - shift)``.
    ones : ndarray (s,)
        ``S 1``, the sketch of a column of ones.
    shift : ndarray (d,)
        What the rows were counted from.
    """

    count: int
    sketch: Floats
    ones: Floats
    shift: Floats

    def about(self, origin: Floats) -> Floats:
        """Sketch ``S (X - origin)`` (s, d); exact for a linear sketch."""
        centered: Floats = self.sketch - np.outer(self.ones, origin - self.shift)
        return centered


@dataclass(frozen=True)
class RowSketch:
    """Recipe for a row sketch. One pass; 2 s operations an entry.

    As in ``Gram``, every state counts from the mean of the first rows it sees, so that a large mean does not swamp the
    sketch; a linear sketch is moved to another shift exactly.

    Parameters
    ----------
    n_features : int
        d.
    size : int
        s, rows of the sketch.
    seed, stream : int
        Which sketch matrix.
    kind : {"gaussian", "sign"}
        Its entries.
    """

    n_features: int
    size: int
    seed: int = 0
    stream: int = 0
    kind: str = "gaussian"

    @property
    def state_nbytes(self) -> int:
        """S by d, S 1, the shift and the count."""
        return 8 * (self.size * self.n_features + self.size + self.n_features) + 8

    @property
    def panel_rows(self) -> int:
        """Whatever stays in cache, but enough for a matrix product."""
        return panel_rows_for(self.n_features, at_least=64)

    @property
    def work_nbytes(self) -> int:
        """The shifted rows, their part of S with its draws, and one product."""
        return 8 * (self.panel_rows * (self.n_features + 5 * self.size) + self.size * self.n_features)

    @property
    def flops_per_row(self) -> float:
        """The product, and about thirty operations a random entry."""
        return 2.0 * self.size * self.n_features + 30.0 * self.size

    def zero(self) -> State:
        """No rows."""
        return {
            "count": np.zeros((), dtype=np.int64),
            "shift": np.zeros(self.n_features),
            "sketch": np.zeros((self.size, self.n_features)),
            "ones": np.zeros(self.size),
        }

    def update(self, state: State, rows: Rows, first_row: int) -> State:
        """Add the sketch of these rows."""
        if rows.shape[0] == 0:
            return state
        if state["count"] == 0:
            state["shift"][...] = rows.mean(axis=0, dtype=np.float64)
        shifted = np.subtract(rows, state["shift"], dtype=np.float64)
        S = DRAW[self.kind](self.seed, self.stream, first_row, rows.shape[0], self.size)
        state["sketch"] += S.T @ shifted
        state["ones"] += S.sum(axis=0)
        state["count"] += rows.shape[0]
        return state

    def merge(self, a: State, b: State) -> State:
        """Move ``b`` to the shift of ``a``; then sums add."""
        if a["count"] == 0 or b["count"] == 0:
            return {name: array.copy() for name, array in (b if a["count"] == 0 else a).items()}
        return {
            "count": np.asarray(a["count"] + b["count"]),
            "shift": a["shift"].copy(),
            "sketch": a["sketch"] + b["sketch"] + np.outer(b["ones"], b["shift"] - a["shift"]),
            "ones": a["ones"] + b["ones"],
        }

    def result(self, state: State) -> SketchedRows:
        """The sketch."""
        return SketchedRows(
            count=int(state["count"]),
            sketch=state["sketch"].copy(),
            ones=state["ones"].copy(),
            shift=state["shift"].copy(),
        )
