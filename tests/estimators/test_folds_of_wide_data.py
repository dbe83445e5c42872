"""Folds of strategy ``sketch`` against encoders of the rows of all other folds, and losses row by row."""

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import scipy.sparse as sp

from spae_dask import SparseEncoder
from spae_dask.blocks import ArrayBlocks
from spae_dask.errors import InvalidInput
from spae_dask.passes.accumulators import RowFolds
from spae_dask.passes.serial import SerialRunner
from spae_dask.strategies.folds import FoldPlan
from spae_dask.strategies.parameters import FitParameters
from spae_dask.strategies.refit import Refit
from spae_dask.strategies.sketch import fit_two_reads
from tests.estimators.sources import spread

Floats = npt.NDArray[np.float64]

N, D, K, R, FOLDS = 240, 9, 2, 3, 3
X = spread(np.random.default_rng(3), N, D)
GAPPY = np.where(np.random.default_rng(1).random((N, D)) < 0.05, np.nan, X)
FEW = np.where(np.random.default_rng(8).random((N, D)) < 0.6, 0.0, X)
OF_ROW = np.arange(N) // 6 % FOLDS
"""Groups of as many rows, so that group and fold have the same number."""

GIVEN = {"n_nonzero": R, "strategy": "sketch", "folds": FOLDS, "fold_groups": OF_ROW, "effort": 0}


def factors(n: int, d: int, seed: int = 0) -> Floats:
    """Six factors, each of eight columns of its own, in noise."""
    rng = np.random.default_rng(seed)
    loadings = np.zeros((6, d))
    for j in range(6):
        loadings[j, 8 * j : 8 * j + 8] = (rng.random(8) + 0.5) * (7 - j)
    made: Floats = rng.normal(size=(n, 6)) @ loadings + rng.normal(size=(n, d))
    return made


CASES: dict[str, tuple[Any, dict[str, Any]]] = {
    "scaled": (X, {"scale": True}),
    "not centered": (X, {"center": False}),
    "far from zero": (X + 1e6, {}),
    "means for gaps": (GAPPY, {"missing": "mean", "effort": 1}),
    "sparse": (sp.csr_array(FEW), {}),
    "float32 products": (X, {"precision": "fast"}),
    "a column that is constant but in one fold": (np.column_stack([X, OF_ROW == 2]), {"scale": True}),
}


@pytest.mark.parametrize("name", CASES)
def test_where_all_columns_are_candidates_the_folds_are_those_of_a_core(name: str) -> None:
    given, how = CASES[name]
    wide = SparseEncoder(K, **(GIVEN | how)).fit(given)
    core = SparseEncoder(K, **(GIVEN | how | {"strategy": "gram"})).fit(given)
    found, known = wide.certificate_.held_out, core.certificate_.held_out
    tol = 1e-5 if "float32" in name else 1e-7
    for part in ("losses", "pca_losses", "totals"):
        np.testing.assert_allclose(getattr(found, part), getattr(known, part), rtol=tol, err_msg=part)
    assert found.supports == known.supports
    assert (found.n_rows, found.folds) == (known.n_rows, known.folds)
    np.testing.assert_allclose([each.ratio for each in found.sizes], [each.ratio for each in known.sizes], rtol=0.01)
    assert [each.n_nonzero for each in found.sizes] == [each.n_nonzero for each in known.sizes]
    np.testing.assert_array_equal(wide.selection_frequency_, core.selection_frequency_)


@pytest.mark.parametrize("how", [{}, {"scale": True}, {"certified": True}, {"n_nonzero": None, "eps": 0.05}], ids=str)
def test_the_encoder_is_that_of_a_fit_without_folds(how: dict[str, Any]) -> None:
    rows = factors(1000, 150)
    wide = {"n_nonzero": 4, "strategy": "sketch", "effort": 0, "n_candidates": 40} | how
    with_folds, plain = SparseEncoder(4, folds=FOLDS, **wide).fit(rows), SparseEncoder(4, **wide).fit(rows)
    np.testing.assert_allclose(with_folds.components_, plain.components_, atol=1e-8)
    found, known = with_folds.certificate_, plain.certificate_
    assert found.loss == pytest.approx(known.loss, rel=1e-10)
    assert found.pca_loss == pytest.approx(known.pca_loss, rel=1e-5)
    assert (found.passes, found.bytes_read) == (known.passes, known.bytes_read)


def refitted(rows: Floats, run: int = 100, **how: Any) -> Refit:
    """Refit of a fit with folds of runs of so many rows, dealt in turn."""
    numbers = (np.arange(-(-len(rows) // run)) % FOLDS).astype(np.uint8)
    folds = FoldPlan(RowFolds(len(rows), FOLDS, run, numbers), "folds dealt in turn")
    params = FitParameters(4, **({"n_nonzero": 4, "strategy": "sketch", "method": "batch", "n_candidates": 40} | how))
    params = replace(params, folds=FOLDS, fold_groups=folds)
    return fit_two_reads(params, SerialRunner(ArrayBlocks(rows, 130)).run_pass, rows.shape)[1]


@pytest.mark.parametrize(
    ("run", "how"),
    [(1, {}), (100, {}), (1, {"scale": True}), (100, {"center": False}), (100, {"precision": "fast"})],
    ids=str,
)
def test_losses_of_candidates_are_those_of_the_rows(run: int, how: dict[str, Any]) -> None:
    rows = factors(800, 120) + np.linspace(-3, 3, 120)
    kept = refitted(rows, run, **how).folded
    assert kept is not None
    numbers = np.arange(len(rows)) // run % FOLDS
    params = FitParameters(4, 4, strategy="sketch", effort=0, **how)
    tol = 1e-5 if how.get("precision") == "fast" else 1e-9
    for fold, split in enumerate(kept.splits()):
        assert split.training.candidates.columns.size <= 40 < 120
        training = split.training.sketched
        train, test = ((rows[part] - training.mean) / training.scale for part in (numbers != fold, numbers == fold))
        pair = split.encode(params)
        assert np.sum((train - train @ pair.H @ pair.G) ** 2) == pytest.approx(pair.certificate.loss, rel=tol)
        assert split.loss(pair) == pytest.approx(np.sum((test - test @ pair.H @ pair.G) ** 2), rel=tol)
        assert split.total == pytest.approx(np.sum(test**2), rel=1e-10)
        V = np.linalg.svd(train, full_matrices=False)[2][:4].T
        assert split.pca_loss(4) == pytest.approx(np.sum((test - test @ V @ V.T) ** 2), rel=2e-3)
        explained = np.linalg.svd(train, compute_uv=False)[:4] ** 2
        np.testing.assert_allclose(split.training.basis.spectrum[:4] ** 2, explained, rtol=5e-3)


def test_an_encoder_of_the_others_does_not_see_the_fold() -> None:
    rows, other = factors(800, 120), factors(800, 120)
    fold = np.arange(800) // 100 % FOLDS == 1
    other[fold] = other[fold][:, ::-1] + 1.0  # the factors of this fold are of other columns
    found = []
    for given in (rows, other):
        kept = refitted(given).folded
        assert kept is not None
        split = list(kept.splits())[1]
        found.append(split.encode(FitParameters(4, 4, strategy="sketch", effort=0)))
    np.testing.assert_allclose(found[0].H, found[1].H, atol=1e-6)
    np.testing.assert_allclose(found[0].G, found[1].G, atol=1e-6)


def test_resamples_are_those_of_a_core() -> None:
    how = GIVEN | {"bootstraps": 8}
    wide, core = (SparseEncoder(K, **(how | {"strategy": each})).fit(X) for each in ("sketch", "gram"))
    found, known = wide.certificate_.held_out.bootstraps, core.certificate_.held_out.bootstraps
    np.testing.assert_allclose(found.ratios, known.ratios, rtol=5e-3)  # of quick searches from other starts
    assert np.mean(np.isclose(found.ratios, known.ratios, rtol=1e-7)) >= 0.8
    assert found.ratio == pytest.approx(known.ratio, rel=2e-3)
    np.testing.assert_allclose(wide.bootstrap_frequency_, core.bootstrap_frequency_, atol=0.15)


def test_folds_choose_the_planted_number_of_components_and_a_path_the_nonzeros() -> None:
    wide = SparseEncoder("cv", n_nonzero=8, folds=3, strategy="sketch", effort=0).fit(factors(600, 60))
    assert wide.n_components_ == 6
    path = wide.sparsity_path([5, 6], [4, 8])
    assert path.chosen == (6, 8)
    point = next(each for each in path.points if (each.n_components, each.n_nonzero) == (6, 8))
    assert point.held_out == pytest.approx(wide.certificate_.held_out.ratio, rel=1e-3)


def test_folds_choose_the_number_of_nonzeros_by_the_least_loss() -> None:
    wide = SparseEncoder(2, n_nonzero="cv", folds=3, strategy="sketch", effort=0).fit(factors(600, 60)[:, :20])
    sizes = {each.n_nonzero: each for each in wide.certificate_.held_out.sizes}
    (chosen,) = set((wide.components_ != 0).sum(axis=1).tolist())
    best = min(sizes.values(), key=lambda each: each.ratio)
    assert sizes[chosen].ratio <= best.ratio + best.ratio_error
    assert all(each.ratio > best.ratio + best.ratio_error for r, each in sizes.items() if r < chosen)


def test_a_path_of_more_components_than_the_fit_is_refused() -> None:
    wide = SparseEncoder(2, n_nonzero=3, folds=4, strategy="sketch", effort=0).fit(factors(400, 60))
    with pytest.raises(InvalidInput, match="n_components=3 is more than the 2 of the fit"):
        wide.sparsity_path([2, 3], [3])
