"""Squared norms of X - X H G, summed over the rows themselves: losses with no cancellation at all."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from spae_dask.passes.accumulators.base import Floats, Rows, State, panel_rows_for, weighed
from spae_dask.passes.accumulators.roundings import largest_error, lengthened, merged, no_chain
from spae_dask.passes.accumulators.shift import Point, deviations

INDEPENDENT = 1e-10
"""Eigenvalues of the correlations of codes below this share of the largest are rounding."""


@dataclass(frozen=True, eq=False)
class ResidualSums:
    """Residual ``E = X - X H G`` of an encoder, and its products with the codes ``Z = X H``.

    They say what any other decoder would lose: ``E - Z D`` is the residual of ``G + D``. Nothing is the difference of
    two large numbers, since E is small where G is good.

    Attributes
    ----------
    norms : ndarray (d,)
        Squared lengths of the columns of E.
    codes : ndarray (k, k)
        ``Z'Z``.
    cross : ndarray (k, d)
        ``Z'E``; zero if G is the best decoder.
    error : float
        Largest error of each sum, over the lengths of the columns that were multiplied.
    """

    norms: Floats
    codes: Floats
    cross: Floats
    error: float

    @property
    def loss(self) -> float:
        """``||E||^2``."""
        return float(np.sum(self.norms))

    def correction(self) -> Floats:
        """Change ``D (k, d)`` of the decoder that makes it the best for these rows: ``(Z'Z)^+ Z'E``."""
        lengths = np.sqrt(np.diagonal(self.codes))
        inverse = np.divide(1.0, lengths, out=np.zeros_like(lengths), where=lengths > 0.0)
        eigenvalues, vectors = np.linalg.eigh(self.codes * inverse[:, None] * inverse)
        kept = eigenvalues > max(INDEPENDENT, 1e4 * self.error) * max(float(eigenvalues[-1]), 0.0)
        weights = inverse[:, None] * vectors[:, kept]
        change: Floats = weights @ ((weights.T @ self.cross) / eigenvalues[kept, None])
        return change

    def loss_with(self, change: Floats) -> tuple[float, float]:
        """Loss ``||X - X H (G + D)||^2`` for a change D (k, d) of the decoder, and the error of the sums in it."""
        gained = 2.0 * float(np.vdot(change, self.cross)) - float(np.vdot(change, self.codes @ change))
        carried = np.sqrt(self.norms) + np.sqrt(np.diagonal(self.codes)) @ np.abs(change)
        return max(self.loss - gained, 0.0), self.error * float(carried @ carried)


@dataclass(frozen=True, eq=False)
class Residual:
    """Recipe for the residual ``X - X H G``, X about ``mean`` (and divided by ``scale``), summed over the rows.

    With H = Z and G = Z' its norms are those that PCA leaves. One pass; 6 d k operations a row.

    Parameters
    ----------
    columns : ndarray (r,) of int
        Nonzero rows of H.
    H_selected : ndarray (r, k)
        Coefficients of H in those rows.
    G : ndarray (k, d)
        Decoder.
    mean : ndarray (d,) or (2, d)
        Subtracted from every row; ``(2, d)`` in two floats.
    scale : ndarray (d,) or None
        Divides every centered row.
    """

    recipe_kind: ClassVar[str] = "spae_dask.accumulators.residual.Residual"
    takes_weights: ClassVar[bool] = True

    columns: npt.NDArray[np.intp]
    H_selected: Floats
    G: Floats
    mean: Point
    scale: Floats | None = None

    @property
    def state_nbytes(self) -> int:
        """Column norms, ``Z'Z``, ``Z'E`` and the roundings."""
        k, d = self.G.shape
        return int(8 * (d + k * k + k * d + 2))

    @property
    def panel_rows(self) -> int:
        """Number of rows that stay in cache."""
        return panel_rows_for(self.mean.shape[-1], at_least=64)

    def work_nbytes(self, n_rows: int) -> int:
        """The centered rows, the chosen columns among them, the codes, the reconstruction, and a product."""
        k, d = self.G.shape
        return int(8 * (n_rows * (2 * d + self.columns.size + 2 * k) + k * (k + d)))

    @property
    def flops_per_row(self) -> float:
        """Encode, decode, subtract, square, and multiply with the codes."""
        r, k = self.H_selected.shape
        return float(2 * k * (r + 2 * self.mean.shape[-1] + k) + 4 * self.mean.shape[-1])

    def zero(self) -> State:
        """No rows."""
        k, d = self.G.shape
        return {"norms": np.zeros(d), "codes": np.zeros((k, k)), "cross": np.zeros((k, d)), "chain": no_chain()}

    def update(
        self,
        state: State,
        rows: Rows,
        first_row: int,  # noqa: ARG002 - rows are exchangeable
        roots: Floats | None = None,
    ) -> State:
        """Add the residuals of these rows and their products with the codes."""
        residual = weighed(deviations(rows, self.mean, self.scale), roots)
        codes = residual[:, self.columns] @ self.H_selected
        residual -= codes @ self.G
        state["norms"] += np.einsum("ij,ij->j", residual, residual)
        state["codes"] += codes.T @ codes
        state["cross"] += codes.T @ residual
        state["chain"] = lengthened(state["chain"], rows.shape[0])
        return state

    def merge(self, a: State, b: State) -> State:
        """Sums add."""
        return {name: a[name] + b[name] for name in a} | {"chain": merged(a["chain"], b["chain"])}

    def result(self, state: State) -> ResidualSums:
        """The sums."""
        error = largest_error(state["chain"])
        return ResidualSums(state["norms"].copy(), state["codes"].copy(), state["cross"].copy(), error)
