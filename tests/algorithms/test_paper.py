"""The paper's own pipeline: thin passes, exact losses, its bound in expectation."""

import numpy as np
import pytest

from spae_dask.algorithms.paper import PaperOptions, fit_paper, paper_passes
from spae_dask.algorithms.problem import Problem
from spae_dask.blocks import ArrayBlocks
from spae_dask.engine.serial import SerialRunner
from tests.matrices import power_law


def fit(X, problem, options=PaperOptions(), rows_per_block=97):  # noqa: B008 - frozen
    runner = SerialRunner(ArrayBlocks(X, rows_per_block))
    fitted = fit_paper(problem, runner.run_pass, X.shape[1], options)
    return fitted, runner.tally.passes


def dense(X, fitted):
    """The centered and scaled data, the loss of H on them, and PCA's losses for all k."""
    Xc = (X - fitted.mean) / fitted.scale
    Z = Xc @ fitted.H
    loss = np.sum((Xc - Z @ np.linalg.lstsq(Z, Xc, rcond=None)[0]) ** 2)
    squares = np.linalg.svd(Xc, compute_uv=False) ** 2
    return Xc, loss, [squares[k:].sum() for k in range(len(squares))]


@pytest.fixture(scope="module")
def X():  # noqa: N802 - the data
    return 20 + power_law(np.random.default_rng(0), 800, 40, decay=0.8) * np.linspace(1, 3, 40)


@pytest.mark.parametrize(("k", "r"), [(1, 1), (1, 6), (2, 14), (3, 3), (3, 20), (4, 2)])
@pytest.mark.parametrize("options", [{}, {"center": False}, {"scale": True}])
def test_the_loss_is_exact_and_pca_is_bracketed(X, k, r, options):
    fitted, _ = fit(X, Problem(k, r, **options))
    certificate = fitted.certificate
    Xc, loss, best = dense(X, fitted)
    assert certificate.loss == pytest.approx(loss, rel=1e-8)
    assert certificate.pca_loss <= best[k] * (1 + 1e-10)
    assert best[k] <= certificate.pca_loss_upper * (1 + 1e-10)
    assert certificate.total == pytest.approx(np.sum(Xc**2), rel=1e-10)
    assert np.sum((Xc - Xc @ fitted.H @ fitted.G) ** 2) == pytest.approx(loss, rel=1e-8)
    assert np.count_nonzero(fitted.H.any(axis=1)) <= r
    assert fitted.explained_ratio.sum() == pytest.approx(certificate.explained, abs=1e-9)


@pytest.mark.parametrize(
    ("options", "missing", "passes"),
    [
        (PaperOptions(), "error", 5),
        (PaperOptions(power_iterations=2), "error", 7),
        (PaperOptions(n_repeats=4), "zero", 5),
        (PaperOptions(), "mean", 6),
    ],
)
def test_passes_are_as_many_as_it_says(X, options, missing, passes):
    problem = Problem(2, 15, missing=missing)
    _, made = fit(X, problem, options)
    assert made == passes == len(paper_passes(problem, X.shape[1], options))


def test_columns_do_not_depend_on_the_row_blocks(X):
    problem = Problem(2, 15)
    chosen = [fit(X, problem, rows_per_block=rows)[0].chosen.tolist() for rows in (800, 97, 13)]
    assert chosen[0] == chosen[1] == chosen[2]


def test_missing_entries_are_filled_as_by_hand(X):
    holed = X.copy()
    holed[::7, 3] = np.nan
    by_hand = holed.copy()
    by_hand[::7, 3] = np.nanmean(holed[:, 3])
    problem = Problem(2, 15, missing="mean")
    a, b = fit(holed, problem)[0], fit(by_hand, problem)[0]
    assert a.chosen.tolist() == b.chosen.tolist()
    np.testing.assert_allclose(a.H, b.H, atol=1e-9)


def test_the_mean_loss_over_seeds_keeps_the_bound_of_the_theorem():
    rng = np.random.default_rng(1)
    X = power_law(rng, 150, 40, decay=0.3)
    Xc = X - X.mean(axis=0)
    best = np.sum(np.linalg.svd(Xc, compute_uv=False)[2:] ** 2)
    fits = [fit(X, Problem(2, 20, seed=seed), PaperOptions(split="paper"), 150)[0] for seed in range(60)]
    bound = fits[0].certificate.bound
    assert bound is not None
    assert np.mean([f.certificate.loss for f in fits]) <= bound * best
    # and it is far from tight: the measured loss is what to go by
    assert np.mean([f.certificate.loss for f in fits]) <= 1.3 * best


def test_repeats_never_lose_more(X):
    once = [fit(X, Problem(2, 15, seed=s))[0].certificate.loss for s in range(4)]
    often = [fit(X, Problem(2, 15, seed=s), PaperOptions(n_repeats=6))[0].certificate.loss for s in range(4)]
    assert all(b <= a * (1 + 1e-9) for a, b in zip(once, often, strict=True))
    assert sum(often) < sum(once)


def test_rank_deficient_and_constant_columns_are_no_trouble():
    rng = np.random.default_rng(2)
    X = rng.standard_normal((60, 2)) @ rng.standard_normal((2, 12))
    X[:, 5] = 4.0
    fitted, _ = fit(X, Problem(4, 6))
    assert np.isfinite(fitted.H).all()
    assert fitted.certificate.loss <= 1e-10 * fitted.certificate.total
    assert 5 in fitted.constant
    assert not fitted.H[5].any()
