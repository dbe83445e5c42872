"""From a core to a certified encoder: always k components, never NaN, ties and ranks of any kind."""

import numpy as np
import pytest

from spae_dask.algorithms.problem import Problem
from spae_dask.algorithms.sparse_encoder import encode_core
from spae_dask.datasets.lower_bound import lower_bound_loss, lower_bound_matrix
from spae_dask.selection import SELECTIONS
from tests import oracles
from tests.algorithms.passes import core_of
from tests.matrices import awkward

AWKWARD = awkward(np.random.default_rng(0))


@pytest.mark.parametrize("selection", sorted(SELECTIONS))
@pytest.mark.parametrize("name", sorted(AWKWARD))
@pytest.mark.parametrize("center", [True, False])
def test_awkward_matrices_are_encoded(selection: str, name: str, center: bool) -> None:
    X = AWKWARD[name]
    k, r = min(2, X.shape[1]), min(3, X.shape[1])
    fitted = encode_core(
        Problem(k, r, method="batch", selection=selection), core_of(X, center=center), passes=1, bytes_read=0
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
        Problem(3, 9, method="batch", selection=selection), core_of(X, center=False), passes=1, bytes_read=0
    )
    counts = [int(np.count_nonzero((fitted.chosen >= 8 * i) & (fitted.chosen < 8 * (i + 1)))) for i in range(3)]
    assert fitted.certificate.loss == pytest.approx(lower_bound_loss(counts, 8, 0.3), rel=1e-9)
    assert fitted.certificate.pca_loss == pytest.approx(3 * 7 * 0.09, rel=1e-9)
    if selection == "exchange":
        assert counts == [3, 3, 3]


def test_all_features_give_pca() -> None:
    X = AWKWARD["wide"].T
    fitted = encode_core(Problem(2, 4, method="batch"), core_of(X), passes=1, bytes_read=0)
    assert fitted.certificate.ratio == pytest.approx(1, abs=1e-9)
    assert fitted.certificate.symmetric_ratio == pytest.approx(1, abs=1e-9)
    centered = X - X.mean(axis=0)
    V = np.linalg.svd(centered, full_matrices=False)[2][:2].T
    np.testing.assert_allclose(fitted.H @ fitted.H.T, V @ V.T, atol=1e-9)


@pytest.mark.parametrize("k", [3, 4, 6])
def test_more_components_than_ranks_are_padded_with_zeros(k: int) -> None:
    X = AWKWARD["rank two"]
    fitted = encode_core(Problem(k, 6, method="batch"), core_of(X, center=False), passes=1, bytes_read=0)
    assert fitted.H.any(axis=0).tolist() == [True, True] + [False] * (k - 2)
    assert not fitted.G[2:].any()
    assert fitted.certificate.ratio == 1.0
    assert fitted.certificate.loss <= 1e-12 * fitted.certificate.total
    assert fitted.certificate.n_components == k


def test_seeds_decide_what_is_drawn_and_nothing_else_does() -> None:
    core = core_of(np.random.default_rng(1).standard_normal((60, 30)))

    def chosen(seed: int, selection: str) -> list[int]:
        problem = Problem(2, 8, method="batch", selection=selection, seed=seed)
        return encode_core(problem, core, passes=1, bytes_read=0).chosen.tolist()

    assert chosen(1, "adaptive") == chosen(1, "adaptive")
    assert len({tuple(chosen(seed, "adaptive")) for seed in range(5)}) > 1
    assert chosen(1, "dual-set") == chosen(2, "dual-set")


def test_the_first_component_explains_the_most() -> None:
    X = np.random.default_rng(2).standard_normal((100, 12)) * np.arange(1, 13)
    fitted = encode_core(Problem(4, 8, method="batch"), core_of(X), passes=1, bytes_read=0)
    centered = X - X.mean(axis=0)
    single = [oracles.encoder_loss(centered, fitted.H[:, [j]]) for j in range(4)]
    assert int(np.argmin(single)) == 0
