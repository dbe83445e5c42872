"""All metrics of an encoder on a core, whichever method made the encoder.

The two measures of Magdon-Ismail & Boutsidis (2015), section 5, information loss and symmetric explained variance, each
against PCA's and against the total; and what the sparse PCA literature reports beside them: nonzeros, how far H is from
orthonormal, how correlated the codes are, and Zou's adjusted variance. To check any number here: a dense SVD,
``numpy.linalg.lstsq`` and ``numpy.corrcoef`` on ``X @ H``.
"""

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from spae_dask.errors import InvalidInput, NonFiniteInput
from spae_dask.markup import html_table, labelled_lines
from spae_dask.maths.linalg.codes import code_correlation, sequential_variances, unit_codes
from spae_dask.maths.linalg.loss import (
    encoder_loss,
    information_loss,
    prefix_losses,
    symmetric_explained,
    total_variance,
)
from spae_dask.maths.linalg.scaling import FloatArray, unit_scaled
from spae_dask.maths.linalg.spectral import pca_loss, right_singular

HEAD = ("component", "nonzeros", "loss so far", "of total", "adjusted variance")
"""Column headings of the table of components."""

NAME_WIDTH = 19
"""Characters of a name in the table for the terminal."""


@dataclass(frozen=True)
class EncoderMetrics:
    """Variance of X that an encoder H (d, k) keeps and loses, and its sparsity.

    Attributes
    ----------
    loss, pca_loss, total : float
        ``min over G of ||X - X H G||^2``; ``||X - X_k||^2``; ``||X||^2``.
    information_loss, loss_share : float
        ``loss`` over ``pca_loss``, at least 1, which is ``ratio`` as well; and over ``total``.
    symmetric_explained : float
        ``||X H H^+||^2``.
    symmetric_ratio, symmetric_share : float
        That over ``||X_k||^2``, at most 1; and over ``total``.
    prefix_losses : tuple of float
        Losses of ``H[:, :1], H[:, :2], ..., H``; they never rise.
    adjusted_variance : tuple of float
        Variance of each code beyond the codes before it (Zou, Hastie & Tibshirani 2006), columns at unit length.
    adjusted_share : float
        Their sum over ``total``.
    n_nonzero : tuple of int
        Nonzeros of each column.
    mean_nonzero : float
        Their mean.
    combined_nonzero : int
        Nonzero rows: features that any component uses.
    orthonormality_defect : float
        ``||H'H - I||``, Frobenius norm of H as given.
    score_correlation : tuple of tuple of float
        Correlations (k, k) of the codes XH. A zero code has 0 throughout, on the diagonal too.
    largest_correlation : float
        Largest magnitude off the diagonal.
    """

    loss: float
    pca_loss: float
    total: float
    information_loss: float
    loss_share: float
    symmetric_explained: float
    symmetric_ratio: float
    symmetric_share: float
    prefix_losses: tuple[float, ...]
    adjusted_variance: tuple[float, ...]
    adjusted_share: float
    n_nonzero: tuple[int, ...]
    mean_nonzero: float
    combined_nonzero: int
    orthonormality_defect: float
    score_correlation: tuple[tuple[float, ...], ...]
    largest_correlation: float

    def as_dict(self) -> dict[str, Any]:
        """The fields by name, for JSON; what is explained, by PCA too, and the ratio come first."""
        return {name: getattr(self, name) for name in ("explained", "pca_explained", "ratio")} | asdict(self)

    @property
    def ratio(self) -> float:
        """``loss / pca_loss``, which the paper calls information loss."""
        return self.information_loss

    @property
    def explained(self) -> float:
        """Share of the total that the encoder explains."""
        return _share(self.total - self.loss, self.total)

    @property
    def pca_explained(self) -> float:
        """Share of the total that PCA explains with as many components."""
        return _share(self.total - self.pca_loss, self.total)

    def __str__(self) -> str:
        """A table for the terminal."""
        lines = [
            f"explained          {self.explained:.4%} of the total, PCA {self.pca_explained:.4%}",
            f"ratio              {self.ratio:.6f} x PCA's loss",
            f"loss               {self.loss:.6g} of {self.total:.6g}  ({self.loss_share:.4%})",
            f"PCA's loss         {self.pca_loss:.6g}",
            f"symmetric variance {self.symmetric_ratio:.6f} of PCA's",
        ]
        return "\n".join([*lines, self.details()])

    def details(self) -> str:
        """The part of the table that a certificate does not have."""
        head = f"{HEAD[0]}  {HEAD[1]:>9}  {HEAD[2]:>12}  {HEAD[3]:>9}  {HEAD[4]:>17}"
        rows = (
            f"{j:>9}  {nonzeros:>9}  {loss:>12}  {share:>9}  {v:>17}" for j, nonzeros, loss, share, v in self._rows()
        )
        return "\n".join([*self._facts(), head, *rows])

    def _repr_html_(self) -> str:
        """The same for notebooks."""
        facts = labelled_lines("\n".join(self._facts()), NAME_WIDTH)
        return html_table("All measures of the encoder", (), facts) + html_table("Its components", HEAD, self._rows())

    def _facts(self) -> list[str]:
        k = len(self.n_nonzero)
        return [
            f"of the total       {self.loss_share:.4%} lost, {self.symmetric_share:.4%} symmetric variance, "
            f"{self.adjusted_share:.4%} adjusted variance",
            f"nonzeros, mean     {self.mean_nonzero:.2f} a component, {self.combined_nonzero} features in all",
            f"not orthonormal by {self.orthonormality_defect:.3g}  (norm of H'H - I)",
            f"score correlation  {self.largest_correlation:.4f} at most between two of {k} codes",
        ]

    def _rows(self) -> list[tuple[str, ...]]:
        """Table rows, one for each component."""
        per = zip(self.n_nonzero, self.prefix_losses, self.adjusted_variance, strict=True)
        return [
            (str(j), str(nonzeros), f"{loss:.6g}", f"{_share(loss, self.total):.4%}", f"{variance:.6g}")
            for j, (nonzeros, loss, variance) in enumerate(per, start=1)
        ]


def encoder_metrics(core: npt.ArrayLike, H: npt.ArrayLike) -> EncoderMetrics:
    """Measure an encoder on a matrix in memory, or on its core.

    Parameters
    ----------
    core : array_like (m, d)
        X itself, or any core of it (``core' core = X'X``). It is taken as it is: center and scale it as the encoder
        expects, ``x - x.mean(axis=0)`` for ordinary PCA; only then are the correlations those of statistics.
    H : array_like (d, k)
        Any encoder, one component a column, dependent and zero ones too. A fitted ``SparseEncoder`` has it as
        ``components_.T``. Only the orthonormality defect depends on the lengths of the columns.

    Returns
    -------
    EncoderMetrics
        Prints as a table. The loss is relative to the best decoder for X.

    Raises
    ------
    InvalidInput
        If the shapes do not fit, or squares of the core's entries overflow.
    NonFiniteInput
        If an entry is NaN or infinite.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.array([[2.0, 0.0], [-2.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
    >>> round(encoder_metrics(x, [[0.0], [1.0]]).ratio, 6)
    4.0
    """
    matrix = np.asarray(core, dtype=np.float64)
    total = total_variance(matrix)
    if not math.isfinite(total):
        raise InvalidInput(
            "squares of the entries of the core overflow float64, because its values are too large (about "
            "1e150 or more). Divide it by a constant; no ratio changes."
        )
    weights = _checked(H, matrix.shape[1])
    if matrix.shape[0] > 2 * matrix.shape[1]:  # a tall X: its triangular factor has the same losses
        matrix = np.asarray(np.linalg.qr(matrix, mode="r"))
    return metrics_of(matrix, weights, right_singular(matrix, 0)[0])


def metrics_of(matrix: FloatArray, weights: FloatArray, spectrum: FloatArray) -> EncoderMetrics:
    """Metrics of an encoder ``weights (d, k)`` on a core (m, d) with known singular values, all of them checked."""
    total = total_variance(matrix)
    k, loss = weights.shape[1], encoder_loss(matrix, weights)
    best, symmetric = pca_loss(spectrum, k), symmetric_explained(matrix, weights)
    adjusted, correlation = _of_codes(matrix, weights)
    n_nonzero = np.count_nonzero(weights, axis=0)
    return EncoderMetrics(
        loss=loss,
        pca_loss=best,
        total=total,
        information_loss=information_loss(loss, best, total),
        loss_share=_share(loss, total),
        symmetric_explained=symmetric,
        symmetric_ratio=symmetric / (total - best) if total > best else 1.0,
        symmetric_share=_share(symmetric, total),
        prefix_losses=tuple(prefix_losses(matrix, weights).tolist()),
        adjusted_variance=tuple(adjusted.tolist()),
        adjusted_share=_share(float(np.sum(adjusted)), total),
        n_nonzero=tuple(n_nonzero.tolist()),
        mean_nonzero=float(np.mean(n_nonzero)),
        combined_nonzero=int(np.count_nonzero(weights.any(axis=1))),
        orthonormality_defect=_defect(weights),
        score_correlation=tuple(map(tuple, correlation.tolist())),
        largest_correlation=float(np.max(np.abs(np.triu(correlation, 1)), initial=0.0)),
    )


def _checked(H: npt.ArrayLike, d: int) -> FloatArray:
    weights = np.asarray(H, dtype=np.float64)
    if weights.ndim != 2 or weights.shape[0] != d or weights.shape[1] == 0:
        raise InvalidInput(
            f"the encoder H has shape {weights.shape}, but the core has {d} columns. Give H of shape ({d}, "
            "k): a row for each column of the core, and k >= 1 components. The components_ of a "
            "SparseEncoder are its transpose."
        )
    if not np.isfinite(weights).all():
        column = int(np.flatnonzero(~np.isfinite(weights).all(axis=0))[0])
        raise NonFiniteInput(
            f"the encoder H contains NaN or infinite entries, the first in column {column}. Give finite numbers."
        )
    return weights


def _of_codes(core: FloatArray, H: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Adjusted variances (k,) and correlations (k, k)."""
    scaled, scale = unit_scaled(core)
    codes = unit_codes(scaled, H)
    return sequential_variances(codes.T @ codes) * scale * scale, code_correlation(codes)


def _share(part: float, total: float) -> float:
    return part / total if total > 0 else 0.0


def _defect(H: FloatArray) -> float:
    off, scale = unit_scaled(H.T @ H - np.eye(H.shape[1]))
    return float(np.linalg.norm(off)) * scale
