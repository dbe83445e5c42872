"""Every method: certified by a dense SVD, never better than PCA, the same bits again, and what its name promises."""

import warnings
from typing import Any

import numpy as np
import pytest
from zarr.storage import MemoryStore

from spae_dask import SparseEncoder, evaluate, plan
from spae_dask.errors import InvalidInput, RankDeficientWarning, WantedExcessWarning
from spae_dask.passes.events import Searching
from tests import oracles
from tests.estimators.sources import Unreadable, Watched, spread, zarr_array
from tests.matrices import awkward, factor_model

X = spread(np.random.default_rng(0), 300, 16, rank=5)
CENTERED = X - X.mean(axis=0)
AWKWARD = {name: rows for name, rows in awkward(np.random.default_rng(1)).items() if rows.shape[0] > 1}

METHODS: dict[str, dict[str, Any]] = {
    "polished": {"method": "polished"},
    "shared support": {"method": "polished", "shared_support": True},
    "orthonormal": {"method": "polished", "orthonormal": True},
    "batch": {"method": "batch"},
    "iterative": {"method": "iterative"},
    "doubly sparse": {"method": "doubly-sparse"},
    "paper": {"method": "batch", "strategy": "paper"},
}


def made(name: str, k: int = 3, r: Any = 4, **parameters: Any) -> SparseEncoder:
    return SparseEncoder(k, n_nonzero=r, **(METHODS[name] | parameters))


@pytest.fixture(scope="module")
def fits() -> dict[str, SparseEncoder]:
    return {name: made(name).fit(zarr_array(MemoryStore(), X, (70, 6))) for name in METHODS}


@pytest.mark.parametrize("name", METHODS)
def test_the_certificate_is_that_of_a_dense_svd(fits: dict[str, SparseEncoder], name: str) -> None:
    encoder = fits[name]
    certificate = encoder.certificate_
    loss, best = oracles.encoder_loss(CENTERED, encoder.components_.T), oracles.pca_loss(CENTERED, 3)
    assert certificate.loss == pytest.approx(loss, rel=1e-9)
    assert certificate.total == pytest.approx(float(np.sum(CENTERED**2)), rel=1e-9)
    if name == "paper":
        assert certificate.pca_loss_kind == "certified lower bound"
        assert certificate.pca_loss <= best * (1 + 1e-9)
        assert certificate.pca_loss_upper >= best * (1 - 1e-9)
    else:
        assert certificate.pca_loss == pytest.approx(best, rel=1e-9)
        assert certificate.ratio == pytest.approx(loss / best, rel=1e-9)
    assert certificate.ratio >= 1
    assert certificate.bound is None or certificate.ratio <= certificate.bound or "expectation" in certificate.theorem
    assert encoder.explained_variance_ratio_.sum() == pytest.approx(certificate.explained, rel=1e-8)


@pytest.mark.parametrize("name", METHODS)
def test_the_decoder_loses_what_is_said(fits: dict[str, SparseEncoder], name: str) -> None:
    encoder = fits[name]
    left = float(np.sum((CENTERED - CENTERED @ encoder.components_.T @ encoder.decoder_) ** 2))
    said = encoder.certificate_.decoder_loss
    assert left == pytest.approx(encoder.certificate_.loss if said is None else said, rel=1e-9)
    assert evaluate(X, encoder).decoder_loss == pytest.approx(left, rel=1e-9)
    assert encoder.score(X) == pytest.approx(1 - left / encoder.certificate_.total, rel=1e-9)


@pytest.mark.parametrize("name", METHODS)
def test_components_are_unit_vectors_of_at_most_r_nonzeros_with_fixed_signs(
    fits: dict[str, SparseEncoder], name: str
) -> None:
    encoder = fits[name]
    np.testing.assert_allclose(np.linalg.norm(encoder.components_, axis=1), 1, rtol=1e-12)
    counts = np.count_nonzero(encoder.components_, axis=1)
    assert counts.max() == encoder.certificate_.n_nonzero
    if name == "orthonormal":
        np.testing.assert_allclose(encoder.components_ @ encoder.components_.T, np.eye(3), atol=1e-10)
    else:
        assert counts.tolist() == [4, 4, 4]
    largest = np.abs(encoder.components_).argmax(axis=1)
    assert (encoder.components_[np.arange(3), largest] > 0).all()
    assert np.flatnonzero(encoder.components_.any(axis=0)).tolist() == encoder.selected_features_.tolist()
    assert encoder.certificate_.combined_nonzero == encoder.selected_features_.size


@pytest.mark.parametrize("name", METHODS)
def test_the_same_fit_has_the_same_bits(fits: dict[str, SparseEncoder], name: str) -> None:
    again = made(name).fit(zarr_array(MemoryStore(), X, (70, 6)))
    assert again.components_.tobytes() == fits[name].components_.tobytes()
    assert again.decoder_.tobytes() == fits[name].decoder_.tobytes()
    assert again.certificate_ == fits[name].certificate_


@pytest.mark.parametrize("name", METHODS)
def test_rows_are_read_as_often_as_planned(name: str) -> None:
    source = Watched(X, rows_per_block=50)
    encoder = made(name).fit(source)
    passes = {"paper": 5, "doubly sparse": 2}.get(name, 1)
    assert len(source.reads) == 6 * passes
    assert encoder.certificate_.passes == len(encoder.plan_.passes) == passes
    assert encoder.certificate_.bytes_read == encoder.plan_.bytes_read == passes * X.nbytes


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("rows", sorted(AWKWARD))
@pytest.mark.parametrize("center", [True, False])
def test_awkward_matrices_are_fitted(name: str, rows: str, center: bool) -> None:
    given = AWKWARD[rows]
    k, r = min(2, given.shape[1]), min(3, given.shape[1])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RankDeficientWarning)
        encoder = made(name, k, r, center=center, effort=0).fit(given)
    for array in (encoder.components_, encoder.decoder_, encoder.explained_variance_ratio_, encoder.singular_values_):
        assert np.isfinite(array).all()
    assert encoder.components_.shape == encoder.decoder_.shape == (k, given.shape[1])
    assert encoder.certificate_.ratio >= 1
    assert evaluate(given, encoder).loss == pytest.approx(
        encoder.certificate_.loss, rel=1e-6, abs=1e-9 * encoder.certificate_.total
    )


def test_polishing_never_raises_the_loss_of_the_paper(fits: dict[str, SparseEncoder]) -> None:
    losses = {name: encoder.certificate_.loss for name, encoder in fits.items()}
    assert losses["polished"] <= losses["batch"]
    assert losses["shared support"] <= losses["batch"]
    assert losses["orthonormal"] == pytest.approx(losses["polished"], rel=1e-9)
    assert fits["shared support"].certificate_.combined_nonzero == 4
    assert fits["polished"].certificate_.bound == fits["batch"].certificate_.bound


@pytest.mark.parametrize("method", ["polished", "iterative"])
def test_every_component_may_have_a_number_of_its_own(method: str) -> None:
    encoder = SparseEncoder(3, n_nonzero=[5, 2, 3], method=method).fit(X)
    assert (np.count_nonzero(encoder.components_, axis=1) <= [5, 5, 5]).all()
    assert sorted(np.count_nonzero(encoder.components_, axis=1).tolist()) == [2, 3, 5]


@pytest.mark.parametrize("name", ["polished", "batch", "iterative"])
@pytest.mark.parametrize("eps", [0.5, 0.05])
def test_a_wanted_excess_is_kept(name: str, eps: float) -> None:
    encoder = made(name, 2, None, eps=eps).fit(X)
    assert encoder.certificate_.ratio <= 1 + eps
    assert encoder.certificate_.eps == eps
    if encoder.certificate_.n_nonzero > 2:
        fewer = made(name, 2, encoder.certificate_.n_nonzero - 1).fit(X)
        assert fewer.certificate_.ratio > 1 + eps or name == "iterative"


@pytest.mark.parametrize("name", ["polished", "batch", "iterative"])
@pytest.mark.parametrize("keep", [0.5, 0.9, 0.99])
def test_a_share_of_what_pca_explains_is_kept(name: str, keep: float) -> None:
    encoder = made(name, 2, None, keep=keep).fit(X)
    sigma = np.linalg.svd(CENTERED, compute_uv=False)
    codes = np.linalg.qr(CENTERED @ encoder.components_.T)[0]

    def explained(Q: np.ndarray) -> float:
        return float(np.sum((Q.T @ CENTERED) ** 2))

    assert explained(codes) >= keep * float(np.sum(sigma[:2] ** 2)) * (1 - 1e-9)
    assert (encoder.certificate_.keep, encoder.certificate_.target_met) == (keep, True)
    if encoder.certificate_.n_nonzero > 2:
        fewer = made(name, 2, encoder.certificate_.n_nonzero - 1).fit(X)
        codes = np.linalg.qr(CENTERED @ fewer.components_.T)[0]
        assert explained(codes) < keep * float(np.sum(sigma[:2] ** 2)) or name == "iterative"


def test_where_pca_explains_little_the_default_keeps_most_of_it() -> None:
    noise = np.random.default_rng(5).standard_normal((300, 25))
    by_loss, by_share = SparseEncoder(2, eps=0.1).fit(noise), SparseEncoder(2).fit(noise)
    assert by_loss.certificate_.n_nonzero == 1, "10 % of the loss is most of what is explained"
    found = by_share.certificate_
    assert found.explained >= 0.95 * (1 - found.pca_loss / found.total)
    assert found.n_nonzero > 3


def test_a_doubly_sparse_decoder_is_made_of_the_rows_it_names(fits: dict[str, SparseEncoder]) -> None:
    encoder = fits["doubly sparse"]
    rows = encoder.selected_rows_
    assert rows.size == len(set(rows.tolist())) <= 12
    chosen = CENTERED[rows]
    np.testing.assert_allclose(encoder.decoder_ @ np.linalg.pinv(chosen) @ chosen, encoder.decoder_, atol=1e-8)
    assert not hasattr(SparseEncoder(**encoder.get_params()).set_params(method="batch").fit(X), "selected_rows_")


def test_an_excess_that_few_rows_cannot_reach_is_warned_of() -> None:
    with pytest.warns(WantedExcessWarning, match=r"did not reach keep=0\.999.* the encoder keeps \d\d\."):
        SparseEncoder(2, keep=0.999, method="doubly-sparse", n_rows=2).fit(X)
    encoder = SparseEncoder(2, eps=1e-4, method="doubly-sparse", n_rows=2)
    with pytest.warns(WantedExcessWarning, match=r"did not reach eps=0\.0001.* Give a larger n_rows") as caught:
        encoder.fit(X)
    assert caught[0].filename == __file__


def test_the_papers_pipeline_fits_where_a_matrix_of_all_pairs_would_not() -> None:
    wide = Unreadable((10**6, 100_000), 100)
    asked = {"n_nonzero": 60, "method": "batch", "strategy": "paper", "memory_limit": "4GiB"}
    planned = plan(wide, 5, **asked, calibrate=False)
    assert planned.worker_nbytes < 2**32  # a matrix of all pairs has 80 GB


@pytest.mark.parametrize("parameters", [{"method": "iterative"}, {"method": "batch", "n_nonzero": None}])
def test_the_papers_pipeline_refuses_what_it_does_not_cover(parameters: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match="strategy='paper'"):
        SparseEncoder(**({"n_components": 2, "n_nonzero": 4, "strategy": "paper"} | parameters)).fit(X)


@pytest.mark.parametrize("strategy", ["gram", "tsqr", "sketch", "paper"])
def test_repeats_of_a_random_selection_find_better_columns_on_every_strategy(strategy: str) -> None:
    rows = factor_model(np.random.default_rng(5), 1000, 60, 4, 0.5)

    def loss(seed: int, n: int) -> float:
        asked = {"method": "batch", "selection": "adaptive", "strategy": strategy, "n_repeats": n}
        return float(SparseEncoder(2, n_nonzero=8, random_state=seed, **asked).fit(rows).certificate_.loss)

    once, often = (np.array([loss(seed, n) for seed in range(5)]) for n in (1, 8))
    assert often.mean() < once.mean()
    if strategy != "sketch":  # which compares draws on the sketch
        assert np.all(often <= once * (1 + 1e-12))


@pytest.mark.parametrize(
    "asked",
    [
        {"n_nonzero": 3},
        {"keep": 0.9, "effort": 0},
        {"n_nonzero": 3, "strategy": "sketch"},
        {"keep": 0.9, "strategy": "sketch", "effort": 0},
        {"n_nonzero": 3, "strategy": "stream", "effort": 0},
        {"n_nonzero": 3, "strategy": "sample", "effort": 0},
    ],
    ids=str,
)
def test_a_watcher_is_told_of_the_search_and_changes_no_bit(asked: dict[str, Any]) -> None:
    events: list[Any] = []
    watched, alone = SparseEncoder(2, **asked, progress=events.append).fit(X), SparseEncoder(2, **asked).fit(X)
    assert watched.components_.tobytes() == alone.components_.tobytes()
    assert watched.certificate_ == alone.certificate_
    searched = [each for each in events if isinstance(each, Searching)]
    ratios = [each.ratio for each in searched if each.ratio is not None]
    assert ratios[-1] == pytest.approx(alone.certificate_.ratio, rel=2e-2)
    assert all(0 <= each.n_done <= each.n_rounds for each in searched)
    assert {each.n_nonzero for each in searched} >= {alone.certificate_.n_nonzero}


def test_a_path_tells_of_its_searches_and_has_the_same_losses() -> None:
    events: list[Any] = []
    watched, alone = (SparseEncoder(2, n_nonzero=4, effort=0, progress=watch).fit(X) for watch in (events.append, None))
    del events[:]
    assert watched.sparsity_path([1, 2], [2, 5]).points == alone.sparsity_path([1, 2], [2, 5]).points
    assert {each.n_nonzero for each in events if isinstance(each, Searching)} == {2, 5}
