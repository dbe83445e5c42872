"""Bounds on the rounding error of a loss.

The loss of a given pair of encoder H and decoder G is linear in the second moments A = X'X:

    ||X - X H G||^2 = tr (I - HG)' A (I - HG).

So an error E of A moves it by ``tr (I - HG)' E (I - HG)``, and nothing else matters. A pass states how large E can be:
``|E_ij| <= products * l_i * l_j`` with l the lengths of the columns. Then the loss errs by at most
``products * reach^2``, where the *reach* of the pair is the length of the vector ``l' |I - HG|``. The reach is near
``||X||`` for most encoders. It is large where columns that are nearly equal are used against each other: there an
encoder divides rounding noise by small differences.

A QR factorization errs in the rows instead: each column of X by at most ``rows`` of its length. Then the root of the
loss errs by at most ``rows * reach``. PCA has a reach of at most ``(1 + sqrt(k)) ||X||``, because the projection on its
components has Frobenius norm ``sqrt(k)``.
"""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from spae_dask.maths.linalg.project import DEPENDENT
from spae_dask.maths.linalg.scaling import PANEL_COLUMNS

Floats = npt.NDArray[np.float64]

ROUNDOFF = 2.0**-53
"""Unit roundoff of float64."""

DECIDES = 0.1
"""Part of PCA's loss that noise may move a loss by; a search leaves alone what noise would decide."""

LARGEST_CUT = 1e-3
"""Columns are never called dependent where more than this part of their length is their own."""


@dataclass(frozen=True, eq=False)
class Rounding:
    """Errors of what a loss is computed from, all relative to the lengths of the columns.

    Attributes
    ----------
    lengths : ndarray (d,)
        Lengths l of the columns of X, centered and scaled; at least.
    products : float
        Largest error of an entry (i, j) of X'X, over ``l_i l_j``.
    rows : float
        Largest error of a column of X, over its length.
    noise : float
        Error of an entry of X'X to expect, over ``l_i l_j``.
    mean : float
        Largest error of the mean of a column, over its length and times ``sqrt(n)``.
    missed : ndarray (d,)
        ``sqrt(n)`` times what the reported mean, which is one float64 number a column, misses of the exact one; scaled.
    left_out : float
        Sum of squares of the columns that were left out as constant to rounding.
    by_products : bool
        True if a loss is computed from products alone, as the total minus the explained part. False if a loss is the
        square of a residual.
    excess : float
        Sum of the squares of the lengths beyond ``||X||^2``: errors of residuals are those of what they are left of.
    """

    lengths: Floats
    products: float = 0.0
    rows: float = 0.0
    noise: float = 0.0
    mean: float = 0.0
    missed: Floats | float = 0.0
    left_out: float = 0.0
    by_products: bool = False
    excess: float = 0.0

    @property
    def total(self) -> float:
        """Sum of squares that errors are relative to: about ``||X||^2``."""
        return float(np.sum(self.lengths**2))

    def loss_error(self, loss: float, H: Floats, G: Floats) -> float:
        """Largest error of ``||X - X H G||^2``, computed from what this is the rounding of.

        Parameters
        ----------
        loss : float
            The computed loss.
        H, G : ndarray (d, k), (k, d)
            Encoder and decoder.
        """
        used = H.any(axis=1)
        steps = int(np.count_nonzero(used)) + H.shape[1] + 8
        # evaluating (X H) G rounds every product of H with G, whether or not they cancel
        evaluated = steps * ROUNDOFF * self.apart(H, G)
        reach = self.reach(H, G)
        if self.by_products:
            error = self.products * reach**2 + evaluated * self.apart(H, G)
        else:
            error = self._error(reach, self.rows * reach + evaluated, loss)
        of_mean = (self.mean * reach) ** 2 + self._missed(H, G)
        return float(error + (self.lengths.size + 8) * ROUNDOFF * loss + of_mean)

    def pca_error(self, pca_loss: float, k: int) -> float:
        """Largest error of PCA's loss with k components, from the singular values of a core."""
        reach = (1.0 + math.sqrt(k)) * math.sqrt(self.total)
        svd = self.lengths.size * ROUNDOFF * math.sqrt(self.total)
        offset = np.broadcast_to(self.missed, self.lengths.shape)
        of_mean = (self.mean * reach) ** 2 + float(offset @ offset)
        return self._error(reach, self.rows * reach + svd, pca_loss) + of_mean + self.left_out

    def _error(self, reach: float, of_root: float, loss: float) -> float:
        return self.products * reach * reach + 2.0 * of_root * math.sqrt(max(loss, 0.0)) + of_root**2

    def _missed(self, H: Floats, G: Floats) -> float:
        """Loss that a mean of one float64 number a column adds, and that of the columns left out."""
        offset = np.broadcast_to(self.missed, self.lengths.shape)
        left = offset - (offset @ H) @ G
        return float(left @ left) + self.left_out

    def reach(self, H: Floats, G: Floats) -> float:
        """Length of ``l' |I - HG|``; at most that of ``l + l' |HG|``, which is what this returns."""
        used = np.flatnonzero(H.any(axis=1))
        total = 0.0
        for start in range(0, G.shape[1], PANEL_COLUMNS):  # so that HG is never held whole
            panel = slice(start, start + PANEL_COLUMNS)
            carried = self.lengths[panel] + self.lengths[used] @ np.abs(H[used] @ G[:, panel])
            total += float(carried @ carried)
        return math.sqrt(total)

    def apart(self, H: Floats, G: Floats) -> float:
        """Length of ``l' + l' |H| |G|``: at least the reach, and more where products of H with G cancel."""
        used = H.any(axis=1)
        carried = self.lengths + (self.lengths[used] @ np.abs(H[used])) @ np.abs(G)
        return math.sqrt(float(carried @ carried))

    def rank_tol(self, pca_loss: float) -> float:
        """Relative length below which a column's part outside the span of others is noise.

        An encoder may divide by so small a difference, which multiplies noise by the inverse square. The cut is where
        that noise would reach ``DECIDES`` of PCA's loss.

        Parameters
        ----------
        pca_loss : float
            Loss of PCA on the core.
        """
        share = max(pca_loss / self.total, self.noise, self.rows**2) if self.total > 0.0 else 1.0
        by_products = math.sqrt(self.noise / (DECIDES * share))
        by_rows = 2.0 * self.rows / (DECIDES * math.sqrt(share))
        return min(max(by_products, by_rows, DEPENDENT), LARGEST_CUT)
