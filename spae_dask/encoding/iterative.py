"""Iterative encoder: one component after another, each on columns of what those before it left.

Magdon-Ismail & Boutsidis, *Optimal sparse linear encoders and sparse PCA* (2015), iterative algorithm and its adaptive
theorem. Component j is the best single code on r_j columns of the residual ``D = X - P_{XH} X``; it acts on the
original features, so its residual is that of the grown encoder. If every step loses at most ``1 + eps/j`` times what
the best single code would, then every prefix of l components loses at most ``(e l)^eps`` times PCA's loss plus
``eps l^(1 + eps) ||X_l - X_1||^2``. To check a run: ``losses[j]`` is the loss of the first j + 1 columns by any road.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from spae_dask.encoding.batch import encoder_from_columns
from spae_dask.encoding.budgets import budgets_of
from spae_dask.errors import InvalidInput
from spae_dask.linalg.project import optimal_decoder
from spae_dask.linalg.scaling import FloatArray, squared_columns, unit_scaled
from spae_dask.linalg.spectral import right_singular
from spae_dask.selection import Selection, selection_named

# A column whose squared residual is below this share of the column is rounding noise.
_DEAD = 1e-24
# A code shorter than this share of the core explains nothing.
_SPENT = 1e-12


@dataclass(frozen=True, eq=False)
class IterativeEncoder:
    """Components in the order they were found.

    Attributes
    ----------
    H : ndarray (d, k')
        Unit columns of at most r_j nonzeros; neither orthogonal nor uncorrelated. ``k' < k`` if nothing was left.
    G : ndarray (k', d)
        Optimal decoder.
    losses : ndarray (k',)
        Loss of the first 1, 2, ... columns.
    singular : ndarray (k',)
        Largest singular value of the residual each component was made on: a single code could have explained its
        square.
    """

    H: FloatArray
    G: FloatArray
    losses: FloatArray
    singular: FloatArray

    def step_bounds(self, total: float, eps: float) -> FloatArray:
        """What the theorem asks of each step, ``(1 + eps/j) (loss_{j-1} - sigma_j^2)``, given the total ``||X||^2``."""
        before = np.concatenate([[total], self.losses[:-1]])
        bounds: FloatArray = (1 + eps / np.arange(1, self.losses.size + 1)) * (before - self.singular**2)
        return bounds


def iterative_sizes(k: int, eps: float, *, sharp: bool = True) -> tuple[int, ...]:
    """Nonzeros r_1, ..., r_k for which every step keeps to ``1 + eps/j``.

    Parameters
    ----------
    k : int
        Components.
    eps : float
        Wanted excess, positive.
    sharp : bool
        ``1 + ceil(2j/eps)``, which a single starting column allows, instead of the paper's ``5 + ceil(5j/eps)``.
    """
    if k < 1 or not 0 < eps < math.inf:
        raise InvalidInput(f"iterative sizes need k >= 1 and a positive eps; got k = {k}, eps = {eps}")
    start, factor = (1, 2) if sharp else (5, 5)
    return tuple(start + math.ceil(factor * j / eps) for j in range(1, k + 1))


def encode_iterative(
    core: FloatArray,
    k: int,
    r: int | Sequence[int],
    *,
    selection: str | Selection = "adaptive-derandomized",
    rng: np.random.Generator,
) -> IterativeEncoder:
    """Build the encoder component by component.

    Parameters
    ----------
    core : ndarray (m, d)
        Core of X.
    k : int
        Components.
    r : int or sequence of int
        Nonzeros of each component, or of the first, second, ... one.
    selection : str or Selection
        How the columns of a step are chosen, for a single code. ``"adaptive-derandomized"`` carries the theorem.
    rng : Generator
        For selections that draw.

    Returns
    -------
    IterativeEncoder
        Encoder, decoder and prefix losses.
    """
    select = selection_named(selection) if isinstance(selection, str) else selection
    scaled, scale = unit_scaled(core)
    norms = squared_columns(scaled)
    columns: list[FloatArray] = []
    losses, singular = [], []
    U = np.zeros((scaled.shape[0], 0))
    left = scaled
    for size in budgets_of(k, r):
        live = np.where(squared_columns(left) > _DEAD * norms, left, 0.0)
        if not np.any(live):
            break
        h, u = _step(live, scaled, U, size, select, rng)
        if u is None:
            break
        singular.append(float(right_singular(live, 0)[0][0]) * scale)
        U = np.column_stack([U, u])
        # from the core each time: updates of updates would drift
        left = scaled - U @ (U.T @ scaled)
        left -= U @ (U.T @ left)
        columns.append(h)
        losses.append(float(np.vdot(left, left)) * scale * scale)
    H = np.column_stack(columns) if columns else np.zeros((scaled.shape[1], 0))
    return IterativeEncoder(H, optimal_decoder(core, H), np.array(losses), np.array(singular))


def _step(
    left: FloatArray, core: FloatArray, U: FloatArray, size: int, select: Selection, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray | None]:
    """Best single code on chosen columns of the residual: its coefficients, and its direction beside U."""
    H, _ = encoder_from_columns(left, select(left, 1, size, rng), 1)
    if H.shape[1] == 0:
        return np.zeros(core.shape[1]), None
    h = H[:, 0]
    u = core @ h
    for _ in range(2):
        u = u - U @ (U.T @ u)
    length = float(np.linalg.norm(u))
    return (h, None) if length <= _SPENT * float(np.linalg.norm(core)) else (h, u / length)
