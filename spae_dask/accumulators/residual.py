"""Squared norms of X - X H G, summed over the rows themselves: losses with no cancellation at all."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from spae_dask.accumulators.base import Floats, Rows, State, panel_rows_for


@dataclass(frozen=True, eq=False)
class ResidualColumns:
    """Recipe for the squared column norms of ``X - X H G``, X about ``mean`` (and divided by ``scale``).

    With H = Z and G = Z' these are the residual norms of PCA; with H selecting columns C and G = C^+ X, what the
    columns leave of each other one. One pass; 4 d k operations a row.

    Parameters
    ----------
    columns : ndarray (r,) of int
        Nonzero rows of H.
    H_selected : ndarray (r, k)
        Those rows.
    G : ndarray (k, d)
        Decoder.
    mean : ndarray (d,)
        Subtracted from every row.
    scale : ndarray (d,) or None
        Divides every centered row.
    """

    columns: npt.NDArray[np.intp]
    H_selected: Floats
    G: Floats
    mean: Floats
    scale: Floats | None = None

    @property
    def state_nbytes(self) -> int:
        """A d-vector."""
        return 8 * self.mean.size

    @property
    def panel_rows(self) -> int:
        """Whatever stays in cache."""
        return panel_rows_for(self.mean.size, at_least=64)

    @property
    def work_nbytes(self) -> int:
        """The centered rows, the chosen columns among them, and the reconstruction."""
        return 8 * self.panel_rows * (2 * self.mean.size + self.columns.size)

    @property
    def flops_per_row(self) -> float:
        """Encode, decode, subtract, square."""
        r, k = self.H_selected.shape
        return float(2 * k * (r + self.mean.size) + 4 * self.mean.size)

    def zero(self) -> State:
        """No rows."""
        return {"norms": np.zeros(self.mean.size)}

    def update(self, state: State, rows: Rows, first_row: int) -> State:  # noqa: ARG002 - rows are exchangeable
        """Add the squared residuals of these rows."""
        residual = np.subtract(rows, self.mean, dtype=np.float64)
        if self.scale is not None:
            residual /= self.scale
        residual -= (residual[:, self.columns] @ self.H_selected) @ self.G
        state["norms"] += np.einsum("ij,ij->j", residual, residual)
        return state

    def merge(self, a: State, b: State) -> State:
        """Sums add."""
        return {"norms": a["norms"] + b["norms"]}

    def result(self, state: State) -> Floats:
        """Squared column norms (d,)."""
        return state["norms"].copy()


@dataclass(frozen=True, eq=False)
class Residual:
    """Recipe for ``||X - X H G||^2``, the sum over the columns of ``ResidualColumns``.

    Parameters
    ----------
    columns, H_selected, G, mean, scale
        As for ``ResidualColumns``.
    """

    columns: npt.NDArray[np.intp]
    H_selected: Floats
    G: Floats
    mean: Floats
    scale: Floats | None = None

    @property
    def by_column(self) -> ResidualColumns:
        """The recipe that keeps the columns apart."""
        return ResidualColumns(self.columns, self.H_selected, self.G, self.mean, self.scale)

    @property
    def state_nbytes(self) -> int:
        """That of ``by_column``."""
        return self.by_column.state_nbytes

    @property
    def panel_rows(self) -> int:
        """That of ``by_column``."""
        return self.by_column.panel_rows

    @property
    def work_nbytes(self) -> int:
        """That of ``by_column``."""
        return self.by_column.work_nbytes

    @property
    def flops_per_row(self) -> float:
        """That of ``by_column``."""
        return self.by_column.flops_per_row

    def zero(self) -> State:
        """No rows."""
        return self.by_column.zero()

    def update(self, state: State, rows: Rows, first_row: int) -> State:
        """Add the squared residuals of these rows."""
        return self.by_column.update(state, rows, first_row)

    def merge(self, a: State, b: State) -> State:
        """Sums add."""
        return self.by_column.merge(a, b)

    def result(self, state: State) -> float:
        """The squared Frobenius norm of the residual."""
        return float(np.sum(state["norms"]))
