"""Choose columns on a core, build the encoder and certify it."""

import functools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from spae_dask.maths.encoders.orthonormal import orthonormalize
from spae_dask.maths.linalg.design import Design
from spae_dask.maths.linalg.loss import encoder_loss, rounding_error, sequential_explained, total_variance
from spae_dask.maths.linalg.scaling import unit_scaled
from spae_dask.maths.linalg.spectral import pca_loss, right_singular
from spae_dask.passes.accumulators import Accumulator, Adjusted, Imputed, Residual, ResidualSums
from spae_dask.passes.accumulators.base import RunPass
from spae_dask.strategies.certificate import Certificate, symmetric_bounds
from spae_dask.strategies.certify import EXACT, better_decoder, certify, measured_on_rows, remeasured
from spae_dask.strategies.core_summary import CoreSummary, Explained, Floats
from spae_dask.strategies.methods import METHODS, Encoded, Report, Search, ruled
from spae_dask.strategies.parameters import SHARED, FitParameters
from spae_dask.strategies.rounding import Rounding
from spae_dask.strategies.theory import target_of


def loss_target(core: Floats, params: FitParameters, least: float | None = None) -> float:
    """Largest loss that meets the target of a fit, plus rounding; ``least`` is PCA's loss, if it is known."""
    total = total_variance(core)
    if least is None:
        least = pca_loss(right_singular(core, 0)[0], params.n_components)
    wanted = params.allowed_loss(least, total)
    return wanted + rounding_error(wanted, total)


def with_components(params: FitParameters, summary: CoreSummary) -> FitParameters:
    """Parameters with the number of components of which a share of the variance was asked; as they are without one.

    It is the smallest k for which PCA explains more than that share of the total, as in scikit-learn's ``PCA``; 1 for
    data without variance.
    """
    share = params.pca_share
    if share is None:
        return params

    def smallest(sigma: Floats) -> int:
        spectrum, _ = unit_scaled(sigma[:, None])
        explained = np.cumsum(spectrum**2)
        enough = explained > share * explained[-1]
        enough[-1] |= explained[-1] > 0.0
        return int(np.argmax(enough)) + 1

    return replace(params, n_components=summary.components_by(smallest))


def smallest_r(core: Floats, k: int, target: float, encode: Callable[[int], Floats], floor: int | None = None) -> int:
    """Find a small r such that the encoder of r nonzeros loses at most ``target``.

    Parameters
    ----------
    core : ndarray (m, d)
        Core of X.
    k : int
        Components.
    target : float
        Largest loss allowed.
    encode : callable
        Function from r to an encoder H (d, k) with at most r nonzeros a column.
    floor : int, optional
        Fewest nonzeros worth a try; k if not given, as where all components share their columns.

    Returns
    -------
    int
        Number r, at least ``floor``, or the number of nonzero columns if that is smaller; so many are always enough.
    """
    available = max(1, int(np.count_nonzero(core.any(axis=0))))
    least = min(k if floor is None else floor, available)
    return smallest_within(target, lambda r: encoder_loss(core, encode(r)), least, available)


Made = TypeVar("Made")

STRIDE = 4
"""Next r at most, over the largest one that was not enough."""


def smallest_within(target: float, loss: Callable[[int], float], least: int, most: int) -> int:
    """Find a small r whose loss is at most a target, in few evaluations.

    A loss falls nearly evenly with the logarithm of r, and ever more slowly. So the next r is where a line through the
    last two losses meets the target, or half-way where lines converge slowly.

    Parameters
    ----------
    target : float
        Largest loss allowed.
    loss : callable
        Loss for r, which should not rise with r.
    least, most : int
        Range of r.

    Returns
    -------
    int
        ``least``, or an r that is enough while r - 1 is not; ``most``, whose loss is not asked for, if no other is.

    Examples
    --------
    >>> smallest_within(0.1, lambda r: 1 / r, 1, 100)
    10
    """
    losses: dict[int, float] = {}
    too_few, enough, halved, r = least - 1, most, True, least
    while too_few < r < enough:
        losses[r], gap = loss(r), enough - too_few
        too_few, enough = (too_few, r) if losses[r] <= target else (r, enough)
        r = (too_few + enough) // 2
        if enough not in losses:
            beyond = _beyond(losses, target, too_few)
            r = beyond if beyond < most else r
        elif halved:
            r = min(max(_between(losses, target, too_few, enough), too_few + 1), enough - 1)
        halved = 2 * (enough - too_few) <= gap
    return enough


def _beyond(losses: Mapping[int, float], target: float, too_few: int) -> int:
    """Size at which a line through the losses of the last two sizes, in the logarithm of r, meets the target."""
    if len(losses) == 1:
        return 2 * too_few
    before = max(r for r in losses if r < too_few)
    slope = (losses[before] - losses[too_few]) / math.log(too_few / before)
    if slope * math.log(STRIDE) <= losses[too_few] - target:
        return STRIDE * too_few
    return max(too_few + 1, math.ceil(too_few * math.exp((losses[too_few] - target) / slope)))


def _between(losses: Mapping[int, float], target: float, too_few: int, enough: int) -> int:
    """The same between a size that is not enough and one that is; 0 if there is none of the first kind."""
    if too_few not in losses:
        return 0
    share = (losses[too_few] - target) / (losses[too_few] - losses[enough])
    return int(too_few * (enough / too_few) ** share)


def fewest_that_reach(
    target: float,
    find: Callable[[Callable[[int], Made]], int],
    encode: Callable[[int, float | None, Mapping[int, Made]], Made],
    loss: Callable[[Made], float],
    *,
    polishes: bool,
) -> Made:
    """Make the encoder of the fewest nonzeros found that reaches a target.

    Quick encoders tell which number is enough. The effort of the fit then tries to do with fewer still.

    Parameters
    ----------
    target : float
        Largest loss allowed.
    find : callable
        Finds a number of nonzeros whose quick encoder, which it is given a function for, is good enough.
    encode : callable
        Makes an encoder by its number of nonzeros, an effort in place of that of the fit, and the quick ones by theirs.
    loss : callable
        Loss of an encoder.
    polishes : bool
        True if an effort changes an encoder.

    Returns
    -------
    Made
        The encoder.
    """
    known: dict[int, Made] = {}

    def quick(r: int) -> Made:
        known[r] = encode(r, 0.0, known)
        return known[r]

    r = find(quick)
    best = encode(r, None, known)
    while polishes and r > 1:
        fewer = encode(r - 1, None, known)
        if loss(fewer) > target:
            break
        best, r = fewer, r - 1
    return best


FRAGILE = 4.0
"""An encoder is fragile if rounding may move its loss by this many times as much as it may move that of any PCA."""


@dataclass(frozen=True, eq=False)
class FittedEncoder:
    """An encoder, its decoder and its certificate.

    Attributes
    ----------
    H : ndarray (d, k)
        Encoder; columns of unit length, or zero where the data have no more to give.
    G : ndarray (k, d)
        Optimal decoder.
    center : ndarray (2, d)
        Subtracted from X, in two floats.
    scale : ndarray (d,)
        Codes of x are ``(x - mean) / scale @ H``.
    selected : ndarray of int
        Features any component uses, ascending.
    chosen : ndarray of int
        Columns of the shared support, in the order chosen.
    explained_ratio : ndarray (k,)
        Share of the total that each component explains beyond those before it; sums to ``1 - loss / total``.
    spectrum : ndarray
        Singular values of X, descending.
    constant : ndarray of int
        Features without variance.
    fill : ndarray (d,) or None
        Values that stand for NaN; None if NaN is refused.
    n_samples : float
        Rows seen, or the sum of their weights.
    certificate : Certificate
        The loss.
    rounding : Rounding
        Errors of the numbers that the loss was computed from.
    explained : Explained or None
        Part of the data that covariates explain; the encoder is of the rest.
    """

    H: Floats
    G: Floats
    center: Floats
    scale: Floats
    selected: npt.NDArray[np.intp]
    chosen: npt.NDArray[np.intp]
    explained_ratio: Floats
    spectrum: Floats
    constant: npt.NDArray[np.intp]
    fill: Floats | None
    n_samples: float
    certificate: Certificate
    rounding: Rounding
    explained: Explained | None = None

    @property
    def mean(self) -> Floats:
        """Subtracted from X ``(d,)``: the nearest float64 numbers."""
        mean: Floats = self.center[0]
        return mean

    @property
    def is_fragile(self) -> bool:
        """True if rounding of the core leaves this encoder's loss uncertain, and more so than PCA's."""
        found = self.certificate
        error = self.rounding.loss_error(found.loss, self.H, self.G)
        pca_error = self.rounding.pca_error(found.pca_loss, found.n_components)
        return error > max(EXACT * found.pca_loss, FRAGILE * pca_error)


def encode_core(
    params: FitParameters,
    summary: CoreSummary,
    *,
    passes: int,
    bytes_read: int,
    start: Floats | None = None,
    effort: float | None = None,
    report: Report | None = None,
) -> FittedEncoder:
    """Build the encoder by the fit's method and certify it, all on a core; see :func:`encode_alone`."""
    encoded = _encoded(params, summary, start=start, effort=effort, report=report)
    return certified_encoder(params, summary, encoded, passes=passes, bytes_read=bytes_read)


def encode_alone(
    params: FitParameters,
    summary: CoreSummary,
    *,
    start: Floats | None = None,
    effort: float | None = None,
    report: Report | None = None,
) -> Encoded:
    """Build the encoder by the fit's method on a core, without a certificate; no data are read.

    ``start`` is an encoder (d, k') of no more columns and nonzeros that is known already; methods that search start
    from it if it is better than their own start. ``effort`` is that of ``Search``, for a given number of nonzeros.
    ``report`` is called with the progress of the search.
    """
    encoded = _encoded(params, summary, start=start, effort=effort, report=report)
    return _filled(summary.core, encoded, params.n_components)


def _encoded(
    params: FitParameters,
    summary: CoreSummary,
    *,
    start: Floats | None,
    effort: float | None,
    report: Report | None,
) -> Encoded:
    core, k = summary.core, params.n_components
    best = pca_loss(summary.spectrum(k), k)
    search = Search(effort, start, summary.rank_tol(k), report, best, functools.partial(summary.leading, k))
    search = ruled(search, params, core)
    encoded = (
        _smallest(params, core, search)
        if params.sizes is None
        else METHODS[params.method](params, core, params.sizes, search)
    )
    if not params.orthonormal:
        return encoded
    H, G = orthonormalize(core, encoded.H)
    return replace(encoded, H=H, G=G, prefix_losses=None, prefix_bounds=None)  # its prefixes differ


def _filled(core: Floats, encoded: Encoded, k: int) -> Encoded:
    """The encoder with its columns filled up to k with zero ones, and the better of its decoders."""
    H = padded(encoded.H.T, k).T
    return replace(encoded, H=H, G=better_decoder(core, H, padded(encoded.G, k)))


def certified_encoder(
    params: FitParameters, summary: CoreSummary, encoded: Encoded, *, passes: int, bytes_read: int
) -> FittedEncoder:
    """Certify an encoder on a core, its columns filled up to k with zero ones."""
    core, k = summary.core, params.n_components
    filled = _filled(core, encoded, k)
    H, G = filled.H, filled.G
    explained = sequential_explained(core, H)
    certificate = certify(
        summary,
        H,
        G=G,
        bound=encoded.bound,
        theorem=encoded.theorem,
        passes=passes,
        bytes_read=bytes_read,
        target=target_of(params),
    )
    symmetric_lower, symmetric_upper = symmetric_bounds(certificate, H, G)
    certificate = replace(
        certificate,
        symmetric_lower=symmetric_lower,
        symmetric_upper=symmetric_upper,
        prefix_losses=encoded.prefix_losses,
        prefix_bounds=encoded.prefix_bounds,
    )
    return FittedEncoder(
        H=H,
        G=G,
        center=summary.center,
        scale=summary.scale,
        selected=np.flatnonzero(H.any(axis=1)),
        chosen=encoded.chosen,
        explained_ratio=explained / certificate.total if certificate.total > 0 else np.zeros(k),
        spectrum=summary.spectrum(k),
        constant=summary.constant,
        fill=summary.fill,
        n_samples=summary.n_samples,
        certificate=certificate,
        rounding=summary.rounding,
        explained=summary.explained,
    )


def measured_if_fragile(fitted: FittedEncoder, run_pass: RunPass, design: Design | None = None) -> FittedEncoder:
    """Measure the loss on the rows if rounding of the core leaves the loss uncertain.

    If nearly equal columns enter with opposite signs, the core does not hold the digits of the loss. One more read then
    sums the residuals of the rows, and the decoder becomes the best one for the rows. Passes: 1; none if the core is
    accurate enough, as it nearly always is.

    Parameters
    ----------
    fitted : FittedEncoder
        Encoder fitted on a core.
    run_pass : callable
        Reads the data.
    design : Design or None
        Covariates.
    """
    if not fitted.is_fragile:
        return fitted
    used, found, rounding = np.flatnonzero(fitted.H.any(axis=1)), fitted.certificate, fitted.rounding
    recipe: Accumulator[ResidualSums] = Residual(used, fitted.H[used], fitted.G, fitted.center, fitted.scale)
    if design is not None and fitted.explained is not None:
        recipe = Adjusted(recipe, design, fitted.explained.effects)
    sums: ResidualSums = run_pass(recipe if fitted.fill is None else Imputed(recipe, fitted.fill), "residual")
    measured, G = measured_on_rows(sums, rounding, fitted.H, fitted.G)
    pca_error = rounding.pca_error(found.pca_loss, found.n_components)
    return replace(fitted, G=G, certificate=remeasured(found, measured, pca_error))


def _smallest(params: FitParameters, core: Floats, search: Search) -> Encoded:
    """Encoder of the fewest nonzeros found that reaches the fit's target; each starts from the largest smaller one."""
    k, polishes = params.n_components, params.method == "polished"
    target = loss_target(core, params, search.pca_loss)

    def encode(r: int, effort: float | None, known: Mapping[int, Encoded]) -> Encoded:
        smaller = max((each for each in known if each <= r), default=None)
        start = known[smaller].H if polishes and smaller is not None else None
        again = replace(search, effort=effort, start=start, climbed=r in known)
        return METHODS[params.method](params, core, r, again)

    def find(quick: Callable[[int], Encoded]) -> int:
        return smallest_r(core, k, target, lambda r: quick(r).H, k if params.method in SHARED else 1)

    return fewest_that_reach(target, find, encode, lambda made: encoder_loss(core, made.H), polishes=polishes)


def padded(rows: Floats, k: int) -> Floats:
    """Rows (k' <= k, d) with zero rows below, so that there are always k components."""
    padded = np.zeros((k, rows.shape[1]))
    padded[: rows.shape[0]] = rows
    return padded + 0.0  # removes negative zeros
