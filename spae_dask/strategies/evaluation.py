"""Loss of a given encoder on given data, in one pass, from the residuals of the rows."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, TypeAlias

import numpy as np

from spae_dask.maths.linalg.candidates import candidate_core
from spae_dask.maths.linalg.loss import information_loss
from spae_dask.passes.accumulators import (
    Accumulator,
    CrossProducts,
    Cut,
    FrequentDirections,
    FrequentSketch,
    Imputed,
    NonFinite,
    Parted,
    Products,
    Residual,
    ResidualSums,
    Together,
)
from spae_dask.passes.accumulators.base import RunPass
from spae_dask.passes.accumulators.nonfinite import refuse_non_finite
from spae_dask.passes.accumulators.shift import in_two_floats
from spae_dask.strategies.certificate import Certificate
from spae_dask.strategies.certify import certify, certify_between, measured_on_rows
from spae_dask.strategies.core import core_named
from spae_dask.strategies.core_summary import Floats, summary_about
from spae_dask.strategies.drift import PartLoss, drifting
from spae_dask.strategies.rounding import Rounding

MEASURED = "measured on the given data; no theorem is involved"


@dataclass(frozen=True, eq=False)
class Autoencoder:
    """An encoder with all that applying it takes.

    Attributes
    ----------
    H, G : ndarray (d, k), (k, d)
        Encoder and decoder.
    mean, scale : ndarray (d,)
        Rows are encoded as ``(x - mean) / scale @ H``.
    fill : ndarray (d,) or None
        Values for NaN entries; None refuses them.
    """

    recipe_kind: ClassVar[str] = "spae_dask.algorithms.evaluation.Autoencoder"

    H: Floats
    G: Floats
    mean: Floats
    scale: Floats
    fill: Floats | None = None

    def residual(self) -> Residual:
        """Recipe for the residual of encoding and decoding."""
        columns = np.flatnonzero(self.H.any(axis=1))
        return Residual(columns, self.H[columns], self.G, self.mean, self.scale)

    def filled(self, recipe: Accumulator[Any]) -> Accumulator[Any]:
        """The recipe on data whose NaN entries are filled, if they are to be."""
        return recipe if self.fill is None else Imputed(recipe, self.fill)


Adjust: TypeAlias = Callable[[Accumulator[Any]], Accumulator[Any]]
"""Makes a recipe on rows one on rows less what covariates explain."""


def of_rows(
    nonfinite: Accumulator[Any], parts: Mapping[str, Accumulator[Any]], adjust: Adjust | None
) -> Accumulator[Any]:
    """Recipes on rows, which covariates may adjust, beside one on the rows as they are.

    Adjusted ones have their results under ``rows``, since they are of other numbers.
    """
    if adjust is None:
        return Together({"nonfinite": nonfinite, **parts})
    return Together({"nonfinite": nonfinite, "rows": adjust(Together(parts))})


def evaluation_recipe(
    strategy: str,
    autoencoder: Autoencoder,
    adjust: Adjust | None = None,
    cut: Cut | None = None,
    *,
    own_pca: bool = False,
) -> Accumulator[Any]:
    """Recipe of the pass, with the core of the data that a strategy makes, or without one.

    The residual of the encoder on the rows themselves; and the core of the data, or, where d x d is too large, products
    of the encoder's own columns and a Frequent Directions sketch. Where rows are cut into parts, the residual is that
    of each; with ``own_pca`` each has a core too.
    """
    d, k = autoencoder.mean.size, autoencoder.H.shape[1]
    parts: dict[str, Accumulator[Any]] = {"residual": autoencoder.residual()}
    core = core_named(strategy, d)
    if core is None:
        parts["products"] = CrossProducts(
            np.flatnonzero(autoencoder.H.any(axis=1)), autoencoder.mean, autoencoder.scale
        )
        parts["frequent"] = FrequentDirections(
            d, min(d, max(4 * k, k + 20)), scaled=not np.all(autoencoder.scale == 1.0)
        )
    else:
        parts["core"] = core
    if cut is not None and own_pca:
        parts = {"parted": Parted(Together(parts), cut)}
    elif cut is not None:
        no_columns = np.zeros(0, dtype=np.intp)
        of_part = {
            "residual": parts.pop("residual"),
            "total": CrossProducts(no_columns, autoencoder.mean, autoencoder.scale),
        }
        parts["parted"] = Parted(Together(of_part), cut)
    return autoencoder.filled(of_rows(NonFinite(d), parts, adjust))


def evaluate_encoder(
    run_pass: RunPass, autoencoder: Autoencoder, *, strategy: str, adjust: Adjust | None = None
) -> Certificate:
    """Loss of an encoder on data that need not be those it was fitted on.

    X is taken about the encoder's mean and scale, as ``transform`` does. ``decoder_loss`` is the sum of the squared
    residuals of the rows with the encoder's own decoder. ``loss`` allows the decoder that is best for these data, and
    is that sum less what the best decoder takes off it. Neither comes from the core of the data, which decides PCA's
    loss only. On the data of the fit the two agree. ``metrics`` are of the encoder on these data as well, but not with
    a sketch.

    Passes: 1.

    Parameters
    ----------
    run_pass : callable
        Reads the data.
    autoencoder : Autoencoder
        The encoder.
    strategy : {"gram", "tsqr", "sketch"}
        Strategy that makes the core of the data. ``"sketch"`` makes none, and PCA's loss is a certified lower bound.
    adjust : callable, optional
        Takes what covariates explain from the rows.
    """
    return _certified(autoencoder, read_evaluation(run_pass, evaluation_recipe(strategy, autoencoder, adjust)))


def read_evaluation(run_pass: RunPass, recipe: Accumulator[Any]) -> dict[str, Any]:
    """Results of a recipe of :func:`evaluation_recipe`, by name; those of all rows too if it cuts them into parts."""
    found: dict[str, Any] = run_pass(recipe, "evaluate")
    refuse_non_finite(found["nonfinite"])
    found = found | found.get("rows", {})
    return found | (found["parted"].whole if "parted" in found else {})


def evaluate_parts(
    run_pass: RunPass,
    autoencoder: Autoencoder,
    cut: Cut,
    names: Sequence[str],
    *,
    strategy: str,
    own_pca: bool,
    adjust: Adjust | None = None,
) -> tuple[Certificate, tuple[PartLoss, ...]]:
    """Loss of an encoder on all rows, and on each part of them, by one read.

    Parameters
    ----------
    run_pass, autoencoder, strategy, adjust
        As for `evaluate_encoder`.
    cut : Cut
        The parts.
    names : sequence of str
        Their names.
    own_pca : bool
        True to compare each part with PCA of its own rows. Else with PCA of all rows, whose loss is shared out by rows.
    """
    found = read_evaluation(run_pass, evaluation_recipe(strategy, autoencoder, adjust, cut, own_pca=own_pca))
    whole, counts, parts = _certified(autoencoder, found), cut.counts, list[PartLoss]()
    lost: Floats = found["residual"].norms
    for name, n_rows, of_part in zip(names, counts.tolist(), found["parted"], strict=True):
        sums: ResidualSums = of_part["residual"]
        if own_pca:
            known = _certified(autoencoder, of_part)
            loss, pca_loss, ratio, total = known.loss, known.pca_loss, known.ratio, known.total
        else:
            products: Products = of_part["total"]
            rounding = Rounding(np.sqrt(products.column_norms), products=products.error)
            measured, _ = measured_on_rows(sums, rounding, autoencoder.H, autoencoder.G)
            loss, total, pca_loss = measured.loss, rounding.total, whole.pca_loss * n_rows / cut.n_rows
            ratio = information_loss(loss, pca_loss, total, error=measured.error)
        parts.append(PartLoss(name, n_rows, loss, sums.loss, pca_loss, ratio, total, drifting(sums.norms, lost)))
    return whole, tuple(parts)


def _certified(autoencoder: Autoencoder, found: Mapping[str, Any]) -> Certificate:
    """Certificate by the results of a read."""
    if "core" not in found:
        return _certify_products(autoencoder, found["products"], found["frequent"], found["residual"])
    sums: ResidualSums = found["residual"]
    summary = summary_about(found["core"], in_two_floats(autoencoder.mean), autoencoder.scale)
    measured, G = measured_on_rows(sums, summary.rounding, autoencoder.H, autoencoder.G)
    certificate = certify(
        summary,
        autoencoder.H,
        G=G,
        bound=None,
        theorem=MEASURED,
        passes=1,
        bytes_read=0,
        decoder_loss=sums.loss,
        keep_metrics=True,
        measured=measured,
    )
    return replace(certificate, summed_over_rows=True)


def _certify_products(
    autoencoder: Autoencoder, products: Products, frequent: FrequentSketch, sums: ResidualSums
) -> Certificate:
    """Certificate from the residual, the products of the encoder's columns, and a sketch for PCA's loss."""
    k, d = autoencoder.H.shape[1], autoencoder.mean.size
    rounding = Rounding(np.sqrt(products.column_norms), products=products.error)
    measured, _ = measured_on_rows(sums, rounding, autoencoder.H, autoencoder.G)
    core = candidate_core(products.gram, products.cross, products.noise)[0] if products.gram.size else np.zeros((1, d))
    lower, upper = frequent.optimum_interval(k, autoencoder.mean, autoencoder.scale)
    upper = min(upper, measured.loss + measured.error)
    certificate = certify_between(
        core,
        autoencoder.H,
        measured.loss,
        (min(lower, upper), upper),
        total=rounding.total,
        error=measured.error + rounding.pca_error(0.0, 0),
        certified=True,
        bound=None,
        theorem=MEASURED,
        passes=1,
        decoder_loss=sums.loss,
    )
    return replace(certificate, summed_over_rows=True)
