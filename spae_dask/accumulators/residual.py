"""Squared norm of X - X H G, summed over the rows themselves: the loss with no cancellation at all."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from spae_dask.accumulators.base import Floats, Rows, State, panel_rows_for


@dataclass(frozen=True, eq=False)
class Residual:
    """Recipe for ``||X - X H G||^2`` with X about ``mean`` (and divided by ``scale``).

    One pass; 4 d k operations a row.

    Parameters
    ----------
    columns : ndarray (r,) of int
        Nonzero rows of the encoder.
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
        """One number."""
        return 8

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
        return {"loss": np.zeros(())}

    def update(self, state: State, rows: Rows, first_row: int) -> State:  # noqa: ARG002 - rows are exchangeable
        """Add the squared residual of these rows."""
        residual = np.subtract(rows, self.mean, dtype=np.float64)
        if self.scale is not None:
            residual /= self.scale
        residual -= (residual[:, self.columns] @ self.H_selected) @ self.G
        state["loss"] += np.einsum("ij,ij->", residual, residual)
        return state

    def merge(self, a: State, b: State) -> State:
        """Sums add."""
        return {"loss": np.asarray(a["loss"] + b["loss"])}

    def result(self, state: State) -> float:
        """The squared Frobenius norm of the residual."""
        return float(state["loss"])
