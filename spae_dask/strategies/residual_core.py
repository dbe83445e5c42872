"""Residuals of the data on covariates: summaries of ``[Z X]`` become those of ``(I - P) X``, P the projection on Z.

Z is about its mean, so that with a column of ones it has the same residuals (Frisch & Waugh 1933, Lovell 1963). Of a
scatter the residual is a Schur complement; of a triangle it is the block below that of Z, in which nothing cancels.

Rounding: the residual of column i is ``[Z X] w`` with ``w = (-b, e_i)``. So an error of ``[Z X]`` or of its products
that is relative to the lengths l of the columns moves the residual as if its column had the length ``l_i + |b|' l_Z``,
b being the best coefficients, at which a change of b counts for nothing in first order.
"""

from dataclasses import replace

import numpy as np
from scipy.linalg import cho_factor, cho_solve, solve_triangular

from spae_dask.maths.linalg.scaling import unit_columns
from spae_dask.passes.accumulators import CenteredTriangle, Scatter
from spae_dask.strategies.core_summary import Explained, Floats, refuse_overflow
from spae_dask.strategies.rounding import ROUNDOFF


def residual_of(found: Scatter | CenteredTriangle, q: int) -> tuple[Scatter | CenteredTriangle, Explained]:
    """Summary of the residuals, from that of the rows with q columns of covariates in front."""
    if isinstance(found, Scatter):
        return _residual_scatter(found, q)
    return _residual_triangle(found, q)


def _residual_scatter(found: Scatter, q: int) -> tuple[Scatter, Explained]:
    refuse_overflow(found.scatter[:, q:])
    Z, ZX, X = found.scatter[:q, :q], found.scatter[:q, q:], found.scatter[q:, q:]
    effects = coefficients(Z, ZX)
    taken = ZX.T @ effects
    scatter = X - (taken + taken.T) / 2
    error = found.error + (q + 4) * ROUNDOFF
    lengths = found.lengths[q:] + found.lengths[:q] @ np.abs(effects)
    wholly = np.diagonal(scatter) <= error * lengths**2
    wholly &= np.diagonal(X) > 0.0
    # rounding may leave more than two columns of their lengths can have in common
    most = np.sqrt(np.clip(np.diagonal(scatter), 0.0, None))
    np.clip(scatter, -np.outer(most, most), np.outer(most, most), out=scatter)
    scatter[wholly] = 0.0
    scatter[:, wholly] = 0.0
    left = replace(
        found,
        center=found.center[:, q:],
        scatter=scatter,
        lengths=lengths,
        error=error,
        noise=found.noise + 4 * ROUNDOFF,
        exact_sums=False,
    )
    return left, Explained(effects, wholly)


def _residual_triangle(found: CenteredTriangle, q: int) -> tuple[CenteredTriangle, Explained]:
    whole = found.triangle
    refuse_overflow(whole)
    if whole.shape[0] != whole.shape[1] or np.any(np.tril(whole[:, :q], -1)):  # rows that are a core themselves
        Q, R = np.linalg.qr(whole[:, :q], mode="complete")
        whole = np.hstack([R, Q.T @ whole[:, q:]])
    effects = solve_triangular(whole[:q, :q], whole[:q, q:]) if q else whole[:0, q:]
    triangle = np.array(whole[q:, q:], order="F")
    of_all = unit_columns(found.triangle)[1]
    lengths = of_all[q:] + of_all[:q] @ np.abs(effects)
    wholly = (unit_columns(triangle)[1] <= found.error * lengths) & (of_all[q:] > 0.0)
    triangle[:, wholly] = 0.0
    left = replace(found, center=found.center[:, q:], triangle=triangle, lengths=lengths)
    return left, Explained(effects, wholly)


def coefficients(gram: Floats, cross: Floats) -> Floats:
    """``(Z'Z)^-1 Z'X`` of covariates whose columns are orthogonal but for rounding."""
    if not gram.size:
        return np.zeros(cross.shape)
    solved: Floats = cho_solve(cho_factor(gram), cross)
    return solved
