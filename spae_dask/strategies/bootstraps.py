"""Bootstraps of the folds of one read: encoders of folds that are drawn with replacement. No row is read again.

A resample draws K of the K folds with replacement, and merges their summaries, each as often as it was drawn (Efron &
Tibshirani 1993, chapter 8: blocks in place of rows, as rows of a run are alike). A quick encoder of each resample is
compared with PCA on the same resample. To check one: repeat the rows of each fold as often as it was drawn, and fit.
"""

import functools
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from spae_dask.strategies.held_out import Bootstraps, fold_ratios
from spae_dask.strategies.parameters import FitParameters
from spae_dask.strategies.sparse_encoder import FittedEncoder

if TYPE_CHECKING:
    from spae_dask.strategies.folds import FoldSummaries

STREAM = 1
"""Number that tells the draws of resamples from other draws of the same seed."""


def drawn_counts(n_folds: int, n_resamples: int, seed: int) -> npt.NDArray[np.int64]:
    """Numbers of times that each resample draws each fold, (n_resamples, n_folds): as many draws as folds."""
    rng = np.random.default_rng([seed, STREAM])
    return rng.multinomial(n_folds, np.full(n_folds, 1.0 / n_folds), size=n_resamples)


def bootstrap(
    params: FitParameters,
    fitted: FittedEncoder,
    folded: "FoldSummaries",
    quick: Callable[[FitParameters], FittedEncoder],
) -> Bootstraps:
    """Encoders of resamples of the folds, all of the size of the encoder of all rows.

    Parameters
    ----------
    params : FitParameters
        Parameters of that encoder, of which ``bootstraps`` is the number of resamples.
    fitted : FittedEncoder
        Encoder of all rows, whose size is taken if ``params`` have a target in place of one.
    folded : FoldSummaries
        Summaries of the folds.
    quick : callable
        Fits a quick encoder to all rows.
    """
    if params.sizes is None:
        size = max(1, fitted.certificate.n_nonzero - len(params.rules.include))
        params = replace(params, n_nonzero=size, eps=None, keep=None)

    @functools.cache  # resamples of few folds are often alike
    def drawn(counts: tuple[int, ...]) -> tuple[float, list[int]]:
        made = folded.resample(params, counts)
        return _ratio(made), made.selected.tolist()

    ratios, uses = [], Counter[int]()
    for counts in drawn_counts(folded.plan.rows.n_folds, params.bootstraps, params.seed).tolist():
        ratio, selected = drawn(tuple(counts))
        ratios.append(ratio)
        uses.update(selected)
    features = sorted(uses)
    return Bootstraps(
        folded.plan.rows.n_folds,
        _ratio(quick(params)),
        tuple(ratios),
        tuple(features),
        tuple(uses[feature] for feature in features),
    )


def _ratio(fitted: FittedEncoder) -> float:
    found = fitted.certificate
    return float(fold_ratios(found.loss, found.pca_loss, found.total))
