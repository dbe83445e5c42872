"""From a core to a certified encoder: always k components, never NaN, ties and ranks of any kind."""

import json
from typing import Any

import numpy as np
import pytest

from spae_dask.datasets.lower_bound import lower_bound_loss, lower_bound_matrix
from spae_dask.maths.selection import SELECTIONS
from spae_dask.strategies.certificate import Certificate
from spae_dask.strategies.parameters import FitParameters
from spae_dask.strategies.sparse_encoder import FittedEncoder, encode_core
from tests import oracles
from tests.matrices import awkward
from tests.strategies.passes import core_of

AWKWARD = awkward(np.random.default_rng(0))


@pytest.mark.parametrize("selection", sorted(SELECTIONS))
@pytest.mark.parametrize("name", sorted(AWKWARD))
@pytest.mark.parametrize("center", [True, False])
def test_awkward_matrices_are_encoded(selection: str, name: str, center: bool) -> None:
    X = AWKWARD[name]
    k, r = min(2, X.shape[1]), min(3, X.shape[1])
    fitted = encode_core(
        FitParameters(k, r, method="batch", selection=selection), core_of(X, center=center), passes=1, bytes_read=0
    )
    d = X.shape[1]
    assert fitted.H.shape == (d, k)
    assert fitted.G.shape == (k, d)
    for array in (fitted.H, fitted.G, fitted.explained_ratio, fitted.spectrum):
        assert np.isfinite(array).all()
    certificate = fitted.certificate
    assert certificate.ratio >= 1
    assert 0 <= certificate.loss <= certificate.total * (1 + 1e-9)
    assert 0 <= certificate.explained <= 1
    assert certificate.combined_nonzero == fitted.selected.size <= r
    assert len(set(fitted.chosen.tolist())) == fitted.chosen.size
    live = fitted.H.any(axis=0)
    np.testing.assert_allclose(fitted.H.T @ fitted.H, np.diag(live.astype(float)), atol=1e-10)
    assert fitted.explained_ratio.sum() == pytest.approx(certificate.explained, abs=1e-9)
    assert not np.signbit(fitted.H[fitted.H == 0]).any()


@pytest.mark.parametrize("selection", ["dual-set", "greedy", "exchange"])
def test_the_closed_form_of_the_worst_case_is_reached(selection: str) -> None:
    X = lower_bound_matrix(3, 8, 0.3)
    fitted = encode_core(
        FitParameters(3, 9, method="batch", selection=selection), core_of(X, center=False), passes=1, bytes_read=0
    )
    counts = [int(np.count_nonzero((fitted.chosen >= 8 * i) & (fitted.chosen < 8 * (i + 1)))) for i in range(3)]
    assert fitted.certificate.loss == pytest.approx(lower_bound_loss(counts, 8, 0.3), rel=1e-9)
    assert fitted.certificate.pca_loss == pytest.approx(3 * 7 * 0.09, rel=1e-9)
    if selection == "exchange":
        assert counts == [3, 3, 3]


def test_all_features_give_pca() -> None:
    X = AWKWARD["wide"].T
    fitted = encode_core(FitParameters(2, 4, method="batch"), core_of(X), passes=1, bytes_read=0)
    assert fitted.certificate.ratio == pytest.approx(1, abs=1e-9)
    assert fitted.certificate.symmetric_ratio == pytest.approx(1, abs=1e-9)
    centered = X - X.mean(axis=0)
    V = np.linalg.svd(centered, full_matrices=False)[2][:2].T
    np.testing.assert_allclose(fitted.H @ fitted.H.T, V @ V.T, atol=1e-9)


@pytest.mark.parametrize("k", [3, 4, 6])
def test_more_components_than_ranks_are_padded_with_zeros(k: int) -> None:
    X = AWKWARD["rank two"]
    fitted = encode_core(FitParameters(k, 6, method="batch"), core_of(X, center=False), passes=1, bytes_read=0)
    assert fitted.H.any(axis=0).tolist() == [True, True] + [False] * (k - 2)
    assert not fitted.G[2:].any()
    assert fitted.certificate.ratio == 1.0
    assert fitted.certificate.loss <= 1e-12 * fitted.certificate.total
    assert fitted.certificate.n_components == k


def test_seeds_decide_what_is_drawn_and_nothing_else_does() -> None:
    core = core_of(np.random.default_rng(1).standard_normal((60, 30)))

    def chosen(seed: int, selection: str) -> list[int]:
        params = FitParameters(2, 8, method="batch", selection=selection, seed=seed)
        return encode_core(params, core, passes=1, bytes_read=0).chosen.tolist()

    assert chosen(1, "adaptive") == chosen(1, "adaptive")
    assert len({tuple(chosen(seed, "adaptive")) for seed in range(5)}) > 1
    assert chosen(1, "dual-set") == chosen(2, "dual-set")


def test_the_first_component_explains_the_most() -> None:
    X = np.random.default_rng(2).standard_normal((100, 12)) * np.arange(1, 13)
    fitted = encode_core(FitParameters(4, 8, method="batch"), core_of(X), passes=1, bytes_read=0)
    centered = X - X.mean(axis=0)
    single = [oracles.encoder_loss(centered, fitted.H[:, [j]]) for j in range(4)]
    assert int(np.argmin(single)) == 0


@pytest.mark.parametrize("method", ["batch", "iterative", "polished"])
def test_repeats_take_the_best_of_independent_draws(method: str) -> None:
    core = core_of(np.random.default_rng(3).standard_normal((80, 40)))

    def fitted(seed: int, n: int, selection: str = "adaptive") -> FittedEncoder:
        params = FitParameters(2, 9, method=method, selection=selection, seed=seed, n_repeats=n)
        return encode_core(params, core, passes=1, bytes_read=0)

    if method != "polished":  # whose search may end lower from a worse start
        losses = np.array([[fitted(seed, n).certificate.loss for n in (1, 2, 8)] for seed in range(4)])
        assert np.all(np.diff(losses, axis=1) <= 0)
        assert np.all(losses[:, 0] > losses[:, 2])
    found = fitted(0, 8).certificate
    prefixes = found.prefix_bounds
    bound = found.bound if prefixes is None else prefixes[-1] / found.pca_loss
    assert bound is not None
    assert f"1 - 2^-8 at most {2 * bound - 1:.4g} x PCA's" in found.theorem
    assert "probability" not in fitted(0, 1).certificate.theorem
    assert "probability" not in fitted(0, 8, "dual-set").certificate.theorem


@pytest.mark.parametrize(
    ("selection", "expected"),
    [
        ("dual-set", False),
        ("barrier", False),
        ("adaptive-derandomized", False),
        ("adaptive", True),
        ("adaptive-paper", True),
    ],
)
def test_an_iterative_encoder_prints_the_loss_and_the_bound_of_every_prefix(selection: str, expected: bool) -> None:
    X = np.random.default_rng(4).standard_normal((60, 20)) * np.linspace(3, 1, 20)
    fitted = encode_core(
        FitParameters(3, 8, method="iterative", selection=selection), core_of(X), passes=1, bytes_read=0
    )
    found, centered = fitted.certificate, X - X.mean(axis=0)
    assert found.prefix_losses is not None
    assert found.prefix_bounds is not None
    for j in range(3):
        assert found.prefix_losses[j] == pytest.approx(oracles.encoder_loss(centered, fitted.H[:, : j + 1]))
        assert oracles.pca_loss(centered, j + 1) <= found.prefix_losses[j] <= found.prefix_bounds[j]
    assert found.theorem.startswith("in expectation") == expected
    assert f"3: {found.loss:.6g} (at most {found.prefix_bounds[2]:.6g})" in str(found)
    assert Certificate.from_dict(json.loads(json.dumps(found.as_dict()))) == found


@pytest.mark.parametrize("parameters", [{"selection": "greedy"}, {"orthonormal": True}])
def test_no_prefix_bounds_without_a_theorem_or_of_other_prefixes(parameters: dict[str, Any]) -> None:
    params = FitParameters(3, 8, method="iterative", **parameters)
    found = encode_core(params, core_of(AWKWARD["wide"].T), passes=1, bytes_read=0).certificate
    assert found.prefix_bounds is None
    assert "prefixes" not in str(found)


@pytest.mark.parametrize("method", ["batch", "iterative", "polished"])
def test_symmetric_variance_lies_between_what_the_loss_allows(method: str) -> None:
    for seed in range(5):  # of any encoder, so none is searched for
        X = np.random.default_rng(seed).standard_normal((50, 4)) @ np.random.default_rng(9).standard_normal((4, 15))
        X += 0.5 * np.random.default_rng(seed + 50).standard_normal(X.shape)
        params = FitParameters(3, 4, method=method, effort=0)
        found = encode_core(params, core_of(X), passes=1, bytes_read=0).certificate
        assert found.symmetric_lower is not None
        assert found.symmetric_upper is not None
        assert 0 < found.symmetric_lower <= found.symmetric_ratio * (1 + 1e-9)
        assert found.symmetric_ratio <= found.symmetric_upper * (1 + 1e-9)
        assert found.symmetric_upper <= 1 + 1e-9


def test_r_of_d_equal_features_lose_nothing_and_have_r_of_d_of_the_symmetric_variance() -> None:
    params = FitParameters(1, 3, method="batch", center=False)
    found = encode_core(params, core_of(np.ones((20, 12)), center=False), passes=1, bytes_read=0).certificate
    assert found.loss <= 1e-20
    assert found.symmetric_ratio == pytest.approx(3 / 12)
    assert found.symmetric_lower == pytest.approx(3 / 12)
    assert found.symmetric_upper == pytest.approx(1)
