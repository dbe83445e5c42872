"""Two reads: candidates proposed on a sketch, everything reported about them exact."""

from dataclasses import replace

import numpy as np
import pytest

from spae_dask.blocks import ArrayBlocks
from spae_dask.errors import InvalidInput, NonFiniteInput
from spae_dask.maths.selection import SELECTIONS
from spae_dask.passes.accumulators import RowFolds
from spae_dask.passes.serial import SerialRunner
from spae_dask.strategies.core import read_core
from spae_dask.strategies.folds import FoldPlan
from spae_dask.strategies.parameters import FitParameters
from spae_dask.strategies.sketch import (
    SketchStrategy,
    beside_second_read,
    fit_two_reads,
    two_read_finish_nbytes,
    two_read_passes,
    two_read_sizes,
)
from spae_dask.strategies.sparse_encoder import encode_core
from spae_dask.strategies.table import check_strategy
from tests.matrices import power_law
from tests.oracles import encoder_loss, pca_loss
from tests.strategies.passes import Traced, wide_data


def fit(X, params, rows_per_block=61):
    runner = SerialRunner(ArrayBlocks(X, rows_per_block))
    fitted, refitted = fit_two_reads(params, runner.run_pass, X.shape)
    return fitted, refitted, runner.tally.passes


@pytest.fixture(scope="module")
def X():  # noqa: N802 - the data
    """Two thousand rows of eight sparse factors in noise, about a large mean."""
    rng = np.random.default_rng(3)
    loadings = rng.standard_normal((8, 80)) * (rng.random((8, 80)) < 0.2) * np.linspace(3, 1, 8)[:, None]
    return 50 + rng.standard_normal((1500, 8)) @ loadings + rng.standard_normal((1500, 80))


@pytest.mark.parametrize(("k", "r"), [(1, 4), (3, 5), (2, (9, 2))])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"center": False, "method": "batch"},
        {"scale": True, "method": "batch"},
        {"method": "iterative"},
        {"method": "batch", "certified": True},
        {"shared_support": True, "orthonormal": True, "effort": 0},
    ],
)
def test_the_loss_is_exact_and_pca_is_bracketed(X, k, r, options):
    if isinstance(r, tuple) and ("shared_support" in options or options.get("method") == "batch"):
        r = max(r)
    fitted, _, passes = fit(X, FitParameters(k, r, strategy="sketch", n_candidates=50, sketch_rows=100, **options))
    found = fitted.certificate
    Xc = (X - fitted.mean) / fitted.scale
    assert found.loss == pytest.approx(encoder_loss(Xc, fitted.H), rel=1e-9)
    assert np.sum((Xc - Xc @ fitted.H @ fitted.G) ** 2) == pytest.approx(found.loss, rel=1e-9)
    assert found.total == pytest.approx(np.sum(Xc**2), rel=1e-11)
    assert found.pca_loss_lower <= pca_loss(Xc, k) * (1 + 1e-10)
    assert pca_loss(Xc, k) <= found.pca_loss_upper * (1 + 1e-10)
    assert found.pca_loss_upper <= found.loss
    assert found.pca_loss == (found.pca_loss_lower if options.get("certified") else found.pca_loss_upper)
    assert fitted.explained_ratio.sum() == pytest.approx(found.explained, abs=1e-9)
    assert passes == 2
    if not options.get("orthonormal"):
        budgets = np.broadcast_to(r, k)
        assert np.all(np.count_nonzero(fitted.H, axis=0) <= budgets)


@pytest.mark.parametrize("precision", ["exact", "fast"])
def test_the_estimate_of_pca_is_within_a_thousandth(X, precision):
    fitted, _, _ = fit(X, FitParameters(3, 5, strategy="sketch", effort=0, precision=precision))
    assert fitted.certificate.pca_loss == pytest.approx(pca_loss(X - X.mean(axis=0), 3), rel=1e-3)


@pytest.mark.parametrize(("k", "r"), [(2, 5), (5, 8)])
def test_its_excess_is_near_that_of_the_exact_core(X, k, r):
    fitted, _, _ = fit(X, FitParameters(k, r, strategy="sketch", effort=0))
    run_pass = SerialRunner(ArrayBlocks(X, 500)).run_pass
    core = read_core(run_pass, X.shape[1], strategy="tsqr", center=True, scale=False, missing="error")
    exact = encode_core(FitParameters(k, r, effort=0), core, passes=1, bytes_read=0).certificate
    ratio = fitted.certificate.loss / exact.pca_loss
    assert ratio - 1 <= 1.25 * (exact.ratio - 1)


@pytest.mark.parametrize("rows_per_block", [1, 7, 2000])
def test_the_same_columns_whatever_the_blocks(X, rows_per_block):
    params = FitParameters(3, 5, strategy="sketch", n_candidates=40, effort=0)
    here, there = fit(X, params)[0], fit(X, params, rows_per_block)[0]
    assert np.array_equal(here.selected, there.selected)
    assert np.array_equal(here.H != 0, there.H != 0)
    assert here.certificate.loss == pytest.approx(there.certificate.loss, rel=1e-10)


def test_a_wanted_excess_is_reached_and_more_candidates_are_read_if_they_must(X):
    for n_candidates, most_passes in ((80, 2), (3, 9)):
        params = FitParameters(3, None, eps=0.02, strategy="sketch", n_candidates=n_candidates, effort=0)
        fitted, _, passes = fit(X, params)
        assert fitted.certificate.loss <= 1.02 * fitted.certificate.pca_loss * (1 + 1e-9)
        assert passes <= most_passes
        assert fitted.certificate.eps == 0.02


@pytest.mark.parametrize("certified", [False, True])
def test_a_share_to_keep_is_reached_and_claimed_only_where_it_is_certain(X, certified):
    Xc = X - X.mean(axis=0)
    total, best = float(np.sum(Xc**2)), pca_loss(Xc, 3)
    claimed = set()
    for keep in (0.8, 0.95):
        found = fit(X, FitParameters(3, keep=keep, strategy="sketch", n_candidates=40, certified=certified, effort=0))[
            0
        ].certificate
        assert found.keep == keep
        assert found.loss <= total - keep * (total - found.pca_loss) + found.loss_error
        claimed.add(found.target_met)
        if found.target_met:
            assert total - found.loss >= keep * (total - best) * (1 - 1e-9)
        else:
            assert found.loss > total - keep * (total - found.pca_loss_lower)
            assert "met by the estimate, not for certain" in str(found)
    assert not certified or claimed == {True}


def test_further_encoders_on_the_candidates_cost_no_read_and_lose_no_more_than_known_ones(X):
    _, refitted, _ = fit(X, FitParameters(3, 8, strategy="sketch", effort=0))
    few = refitted.fit(FitParameters(2, 4, effort=0))
    more = refitted.fit(FitParameters(3, 4, effort=0), [few.H])
    assert few.certificate.loss == pytest.approx(encoder_loss(X - X.mean(axis=0), few.H), rel=1e-9)
    assert more.certificate.loss <= few.certificate.loss * (1 + 1e-12)


@pytest.mark.parametrize(("missing", "passes"), [("zero", 2), ("mean", 3)])
def test_gaps_are_filled_as_they_are_told(missing, passes):
    rng = np.random.default_rng(0)
    X = power_law(rng, 300, 30) + 2
    X[rng.random(X.shape) < 0.05] = np.nan
    params = FitParameters(2, 4, strategy="sketch", missing=missing, effort=0)
    fitted, _, made = fit(X, params)
    fill = np.nanmean(X, axis=0) if missing == "mean" else np.zeros(30)
    filled = np.where(np.isnan(X), fill, X)
    assert fitted.certificate.loss == pytest.approx(encoder_loss(filled - filled.mean(axis=0), fitted.H), rel=1e-9)
    assert made == passes == len(two_read_passes(params, *X.shape))
    with pytest.raises(NonFiniteInput, match="missing="):
        fit(X, FitParameters(2, 4, strategy="sketch"))


def test_constant_low_rank_and_duplicated_columns_give_what_there_is():
    constant, _, _ = fit(np.full((50, 6), 3.0), FitParameters(2, 2, strategy="sketch"))
    assert constant.certificate.loss == 0
    assert not constant.H.any()
    rng = np.random.default_rng(1)
    low = rng.standard_normal((400, 2)) @ rng.standard_normal((2, 20))
    X = np.hstack([low, low[:, :5], np.zeros((400, 3))])
    fitted, _, _ = fit(X, FitParameters(4, 3, strategy="sketch"))
    assert fitted.certificate.loss <= 1e-9 * fitted.certificate.total
    assert fitted.certificate.ratio == 1.0
    assert np.all(np.isfinite(fitted.H))
    assert not fitted.H[25:].any()


@pytest.mark.parametrize("scale", [1e-100, 1e100])
def test_the_unit_of_measurement_changes_nothing_but_the_loss(X, scale):
    params = FitParameters(3, 5, strategy="sketch", effort=0)
    plain, scaled = fit(X, params)[0], fit(X * scale, params)[0]
    assert np.array_equal(plain.selected, scaled.selected)
    assert scaled.certificate.ratio == pytest.approx(plain.certificate.ratio, rel=1e-9)


def test_what_candidates_cannot_do_is_refused_with_what_they_can():
    for wrong in ({"method": "doubly-sparse", "n_nonzero": 3}, {"method": "batch"}, {"shared_support": True}):
        with pytest.raises(InvalidInput, match="method 'polished', 'batch' or 'iterative'"):
            check_strategy(FitParameters(2, strategy="sketch", **wrong))


def test_sizes_grow_with_what_is_asked_and_are_the_users_to_set():
    small, large = (two_read_sizes(FitParameters(k, r), 10**6, 20_000) for k, r in ((2, 5), (10, 30)))
    assert small.sketch.rows < large.sketch.rows
    assert small.n_candidates < large.n_candidates
    asked = two_read_sizes(FitParameters(2, 5, n_candidates=77, sketch_rows=55), 10**6, 20_000)
    assert (asked.n_candidates, asked.sketch.rows) == (77, 55)
    assert two_read_sizes(FitParameters(2, 5), 300, 20_000).sketch.group == 1
    assert two_read_sizes(FitParameters(2, 5), 300, 12).n_candidates == 12


@pytest.mark.parametrize(
    "options",
    [
        {"n_nonzero": 12},
        {"n_nonzero": 12, "method": "batch"},
        {"n_nonzero": 12, "method": "iterative"},
        {"n_nonzero": 12, "shared_support": True, "include": (3, 5)},
        {"n_nonzero": None, "eps": 0.2},
        {"n_nonzero": None, "eps": 0.2, "include": (3, 5)},
        {"n_nonzero": None, "eps": 1e-9, "method": "batch"},
    ],
    ids=str,
)
@pytest.mark.parametrize("given", [None, 20])
def test_a_read_takes_no_more_candidates_than_planned(options, given):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 100)) + rng.standard_normal((300, 12)) @ rng.standard_normal((12, 100))
    params = FitParameters(6, strategy="sketch", effort=0, n_candidates=given, **options)
    sizes, taken = two_read_sizes(params, *X.shape), []

    def run_pass(recipe, name="pass"):
        if name == "candidates":
            taken.append(recipe.columns.size)
        return SerialRunner(ArrayBlocks(X, 100)).run_pass(recipe, name)

    _, refitted = fit_two_reads(params, run_pass, X.shape)
    planned = [min(sizes.n_candidates << times, sizes.most_candidates) for times in range(len(taken))]
    assert taken == planned
    if params.n_nonzero is None:
        # it stops at the first set that is enough, and all candidates lose least
        assert refitted.is_within_reach(params) or taken[-1] == sizes.most_candidates


@pytest.mark.parametrize(
    ("given", "told"), [(None, []), (40, ["up to 2 more passes"]), (80, ["1 more pass"]), (100, [])]
)
def test_a_plan_announces_the_passes_that_a_target_may_take(given, told):
    source = ArrayBlocks(np.zeros((50, 100), dtype=np.float32), 50)
    strategy, params = SketchStrategy(), FitParameters(2, strategy="sketch", n_candidates=given, eps=0.1)
    if given is None:
        params = replace(params, eps=None, n_nonzero=3)
    notes = strategy.notes(params, source)
    assert [note.split(" with ")[0] for note in notes] == told


THREE = FoldPlan(RowFolds.of_runs(300, 3, 0), "three")


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"precision": "fast"},
        {"method": "polished"},
        {"method": "polished", "shared_support": True},
        {"method": "iterative"},
        *({"selection": each} for each in SELECTIONS if each != "exchange"),  # shared supports are chosen by exchange
        {"folds": 3, "fold_groups": THREE},
        {"n_nonzero": None, "eps": 1e-9, "method": "polished", "n_candidates": 80},
        pytest.param(
            {"n_nonzero": None, "eps": 1e-9, "n_candidates": 80, "folds": 3, "fold_groups": THREE},
            marks=pytest.mark.slow,
        ),
    ],
    ids=lambda options: " ".join(str(each) for each in options.values() if not isinstance(each, FoldPlan)),
)
def test_the_algebra_of_wide_data_takes_no_more_memory_than_planned_and_at_least_half(monkeypatch, options):
    # few columns are searched, so that what is as wide as the data counts
    monkeypatch.setattr("spae_dask.strategies.sketch.POOL", 300)
    monkeypatch.setattr("spae_dask.strategies.candidate_set.POOL", 300)
    monkeypatch.setattr("spae_dask.strategies.candidate_set.MOST_DOUBLINGS", 1)
    params = FitParameters(2, strategy="sketch", **({"n_nonzero": 3, "method": "batch", "effort": 0} | options))
    source = wide_data(300)
    with Traced(source) as traced:
        _, refitted = fit_two_reads(params, traced.run_pass, source.shape)
    planned = two_read_finish_nbytes(params, *source.shape)
    assert max(traced.peaks) <= planned <= 2 * max(traced.peaks)
    assert max(held for _, held in traced.held[1:]) <= beside_second_read(params, *source.shape)
    # what an estimator keeps is the products, not the sketch they were proposed on
    folds = 0 if refitted.folded is None else sum(each["cross"].nbytes for each in refitted.folded.products.states)
    assert traced.left <= 1.3 * (refitted.cross.nbytes + 1.5 * folds)
