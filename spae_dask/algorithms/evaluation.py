"""Exact loss of a given encoder on given data, in one pass."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from spae_dask.accumulators import Accumulator, Gram, Imputed, NonFinite, Residual, Together, Triangular
from spae_dask.algorithms.certificate import Certificate
from spae_dask.algorithms.certify import certify
from spae_dask.algorithms.core import Floats, RunPass, refuse_non_finite, summary_about


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
    """Recipe of the pass: the core of the data, and the residual of the encoder on the rows themselves."""
    d = codec.mean.size
    core: Accumulator[Any] = Gram(d) if strategy == "gram" else Triangular(d)
    return codec.filled(Together({"nonfinite": NonFinite(d), "core": core, "residual": codec.residual()}))


def evaluate_encoder(run_pass: RunPass, codec: Codec, *, strategy: str) -> Certificate:
    """Loss of an encoder on data that need not be those it was fitted on.

    X is taken about the encoder's mean and scale, as ``transform`` does. ``loss`` allows the decoder that is best for
    these data; ``decoder_loss`` uses the encoder's own and is summed over the rows, with no algebra in between. On the
    data of the fit the two agree. ``metrics`` are of the encoder on these data as well.

    Passes: 1.

    Parameters
    ----------
    run_pass : callable
        Sweeps the data.
    codec : Codec
        The encoder.
    strategy : {"gram", "tsqr"}
        How the core of the data is made.
    """
    found = run_pass(evaluation_recipe(strategy, codec), "evaluate")
    refuse_non_finite(found["nonfinite"])
    return certify(
        summary_about(found["core"], codec.mean, codec.scale),
        codec.H,
        bound=None,
        theorem="measured on the data given; no theorem is involved",
        passes=1,
        bytes_read=0,
        decoder_loss=found["residual"],
        keep_metrics=True,
    )
