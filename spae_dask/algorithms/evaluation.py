"""Exact loss of a given encoder on given data, in one pass."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from spae_dask.accumulators import (
    Accumulator,
    CrossProducts,
    FrequentDirections,
    FrequentSketch,
    Gram,
    Imputed,
    NonFinite,
    Products,
    Residual,
    Together,
    Triangular,
)
from spae_dask.algorithms.certificate import Certificate
from spae_dask.algorithms.certify import certify, certify_between
from spae_dask.algorithms.core import RunPass
from spae_dask.algorithms.core_summary import Floats, summary_about
from spae_dask.algorithms.non_finite import refuse_non_finite
from spae_dask.linalg.candidates import candidate_core
from spae_dask.linalg.loss import encoder_loss, total_variance

MEASURED = "measured on the data given; no theorem is involved"


@dataclass(frozen=True, eq=False)
class Codec:
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

    H: Floats
    G: Floats
    mean: Floats
    scale: Floats
    fill: Floats | None = None

    def residual(self) -> Residual:
        """Recipe for the squared norm of what encoding and decoding loses."""
        columns = np.flatnonzero(self.H.any(axis=1))
        return Residual(columns, self.H[columns], self.G, self.mean, self.scale)

    def filled(self, recipe: Accumulator[Any]) -> Accumulator[Any]:
        """The recipe on data whose NaN entries are filled, if they are to be."""
        return recipe if self.fill is None else Imputed(recipe, self.fill)


def evaluation_recipe(strategy: str, codec: Codec) -> Accumulator[Any]:
    """Recipe of the pass.

    The residual of the encoder on the rows themselves; and the core of the data, or, where d x d is too large, products
    of the encoder's own columns and a Frequent Directions sketch.
    """
    d, k = codec.mean.size, codec.H.shape[1]
    parts: dict[str, Accumulator[Any]] = {"nonfinite": NonFinite(d), "residual": codec.residual()}
    if strategy == "sketch":
        parts["products"] = CrossProducts(np.flatnonzero(codec.H.any(axis=1)), codec.mean, codec.scale)
        parts["frequent"] = FrequentDirections(d, min(d, max(4 * k, k + 20)))
    else:
        parts["core"] = Gram(d) if strategy == "gram" else Triangular(d)
    return codec.filled(Together(parts))


def evaluate_encoder(run_pass: RunPass, codec: Codec, *, strategy: str) -> Certificate:
    """Loss of an encoder on data that need not be those it was fitted on.

    X is taken about the encoder's mean and scale, as ``transform`` does. ``loss`` allows the decoder that is best for
    these data; ``decoder_loss`` uses the encoder's own and is summed over the rows, with no algebra in between. On the
    data of the fit the two agree. ``metrics`` are of the encoder on these data as well, but not with a sketch.

    Passes: 1.

    Parameters
    ----------
    run_pass : callable
        Sweeps the data.
    codec : Codec
        The encoder.
    strategy : {"gram", "tsqr", "sketch"}
        How the core of the data is made. With ``"sketch"`` there is none: the loss is exact all the same, and PCA's a
        certified lower bound.
    """
    found = run_pass(evaluation_recipe(strategy, codec), "evaluate")
    refuse_non_finite(found["nonfinite"])
    if strategy == "sketch":
        return _certify_products(codec, found["products"], found["frequent"], found["residual"])
    return certify(
        summary_about(found["core"], codec.mean, codec.scale),
        codec.H,
        bound=None,
        theorem=MEASURED,
        passes=1,
        bytes_read=0,
        decoder_loss=found["residual"],
        keep_metrics=True,
    )


def _certify_products(codec: Codec, products: Products, frequent: FrequentSketch, decoder_loss: float) -> Certificate:
    """Certificate from the products of the encoder's columns, on whose core ``Q_C'X`` its loss is exact."""
    k, total = codec.H.shape[1], float(np.sum(products.column_norms))
    core = candidate_core(products.gram, products.cross) if products.gram.size else np.zeros((1, codec.mean.size))
    outside = max(total - total_variance(core), 0.0)
    loss = outside + encoder_loss(core, codec.H)
    lower, upper = frequent.optimum_interval(k, codec.mean, codec.scale)
    return certify_between(
        core,
        codec.H,
        loss,
        (lower, min(upper, loss)),
        total=total,
        error=100 * math.sqrt(codec.mean.size) * float(np.finfo(np.float64).eps) * total,
        certified=True,
        bound=None,
        theorem=MEASURED,
        passes=1,
        decoder_loss=decoder_loss,
    )
