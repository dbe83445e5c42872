import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spae_dask.errors import InvalidInput
from spae_dask.maths.encoders import encode_batch, encoder_from_columns, theorem_bound
from spae_dask.maths.linalg.loss import encoder_loss, information_loss, sequential_explained, total_variance
from spae_dask.maths.linalg.spectral import pca_loss, right_singular
from spae_dask.maths.selection import SELECTIONS
from tests import oracles, reference_data
from tests.matrices import awkward, factor_model, heavy_tailed, low_rank, orthonormal, power_law


def matrices():
    rng = np.random.default_rng(0)
    return {
        "pitprops": reference_data.pitprops(),
        "pitprops factor": reference_data.pitprops_factor(),
        "eisen": reference_data.eisen(),
        "colon": reference_data.colon(),
        "lymphoma": reference_data.lymphoma(),
        "power law": power_law(rng, 50, 20),
        "factors": factor_model(rng, 60, 30, 4, 0.5),
        "heavy tails": heavy_tailed(rng, 40, 25),
        "wide": power_law(rng, 10, 40, decay=0.5),
    }


def test_the_papers_batch_encoder_of_pitprops():
    P = reference_data.pitprops()
    columns = np.array(reference_data.pitprops_columns("length testsg bowmax diaknot"))

    H, G = encoder_from_columns(P, columns, 2)

    printed = reference_data.pitprops_paper_encoder("batch")
    signs = np.sign(np.sum(H * printed, axis=0))
    np.testing.assert_allclose(np.round(H * signs, 1), printed, atol=1e-12)
    assert encoder_loss(P, H) / oracles.pca_loss(P, 2) == pytest.approx(1.120780, abs=5e-7)
    assert np.sum((P - P @ H @ G) ** 2) == pytest.approx(encoder_loss(P, H), rel=1e-12)


@pytest.mark.parametrize("name", sorted(matrices()))
@pytest.mark.parametrize(
    ("k", "r", "selection"), [(1, 5, "dual-set"), (2, 5, "greedy"), (5, 9, "adaptive"), (4, 4, "greedy")]
)
def test_the_encoder_reaches_the_best_rank_k_approximation_from_its_columns(name, k, r, selection):
    X = matrices()[name]

    found = encode_batch(X, k, r, selection=selection, rng=np.random.default_rng(0))

    H, G, S = found.H, found.G, found.selected
    assert H.shape == (X.shape[1], k)
    assert np.flatnonzero(np.any(H != 0.0, axis=1)).tolist() == sorted(S.tolist())
    np.testing.assert_allclose(H.T @ H, np.eye(k), atol=1e-12)
    loss = oracles.columns_loss(X, S, k)
    assert found.loss == pytest.approx(loss, rel=1e-9)
    assert encoder_loss(X, H) == pytest.approx(loss, rel=1e-9)
    assert oracles.encoder_loss(X, H) == pytest.approx(loss, rel=1e-9)
    assert np.sum((X - X @ H @ G) ** 2) == pytest.approx(loss, rel=1e-9)
    assert found.split.projection == pytest.approx(oracles.columns_loss(X, S, r), rel=1e-9)
    assert information_loss(found.loss, pca_loss(right_singular(X)[0], k), total_variance(X)) >= 1.0


def test_columns_come_by_what_they_add_and_their_largest_entry_is_positive():
    X = matrices()["factors"]

    H = encode_batch(X, 4, 10, selection="greedy", rng=np.random.default_rng(0)).H

    explained = sequential_explained(X, H)
    assert explained[0] == pytest.approx(max(sequential_explained(X, H[:, [j]])[0] for j in range(4)), rel=1e-12)
    assert np.all(np.diff(explained) <= 0.0)
    assert np.all(H[np.argmax(np.abs(H), axis=0), np.arange(4)] > 0.0)


@settings(max_examples=25)
@given(seed=st.integers(0, 10**6), k=st.integers(1, 3))
def test_a_rotation_of_the_data_changes_nothing(seed, k):
    rng = np.random.default_rng(seed)
    X = power_law(rng, 12, 8)
    columns = rng.choice(8, size=5, replace=False)

    H, G = encoder_from_columns(X, columns, k)
    H_rotated, G_rotated = encoder_from_columns(orthonormal(rng, 12, 12) @ X, columns, k)

    np.testing.assert_allclose(H_rotated @ G_rotated, H @ G, atol=1e-7)
    np.testing.assert_allclose(H_rotated @ H_rotated.T, H @ H.T, atol=1e-7)


@pytest.mark.parametrize("factor", [1e-100, 1e100])
def test_magnitude_changes_the_loss_only(factor):
    X = power_law(np.random.default_rng(1), 12, 8)
    plain = encode_batch(X, 2, 4, selection="greedy", rng=np.random.default_rng(0))

    scaled = encode_batch(X * factor, 2, 4, selection="greedy", rng=np.random.default_rng(0))

    np.testing.assert_allclose(scaled.H, plain.H, atol=1e-12)
    np.testing.assert_allclose(scaled.G, plain.G, atol=1e-12)
    assert scaled.loss / factor**2 == pytest.approx(plain.loss, rel=1e-12)


def test_zero_columns_get_no_weight_and_dependent_ones_share_theirs():
    rng = np.random.default_rng(2)
    X = rng.standard_normal((20, 6))
    X[:, 3], X[:, 4] = 2.0 * X[:, 0], 0.0

    H, G = encoder_from_columns(X, np.array([0, 1, 3, 4]), 2)

    assert H.shape == (6, 2)
    assert not H[4].any()
    # column 3 is twice column 0: of all coefficients of the same codes, those of least norm are in proportion 1 : 2
    np.testing.assert_allclose(H[3], 2.0 * H[0], rtol=1e-9)
    assert np.sum((X - X @ H @ G) ** 2) == pytest.approx(oracles.columns_loss(X, [0, 1], 2), rel=1e-12)


@pytest.mark.parametrize(("k", "columns", "width"), [(5, [0, 1], 2), (3, [0, 1, 2, 3, 4], 2), (1, [0, 1, 2], 1)])
def test_no_more_codes_than_independent_columns(k, columns, width):
    X = low_rank(np.random.default_rng(3), 20, 6, 2)

    H, G = encoder_from_columns(X, np.array(columns), k)

    assert H.shape == (6, width)
    assert G.shape == (width, 6)
    np.testing.assert_allclose(H.T @ H, np.eye(width), atol=1e-12)


def test_zero_columns_alone_make_an_empty_encoder():
    H, G = encoder_from_columns(np.zeros((4, 3)), np.array([0, 2]), 2)

    assert H.shape == (3, 0)
    assert G.shape == (0, 3)


def test_a_code_that_is_the_tiny_difference_of_twins_reports_the_loss_it_has():
    # Columns 0 and 1 agree to 3e-12; their difference is the direction of the large column 2.
    rng = np.random.default_rng(4)
    Q = orthonormal(rng, 30, 4)
    X = np.stack([Q[:, 0], Q[:, 0] + 3e-12 * Q[:, 1], 5.0 * Q[:, 1], 3.0 * Q[:, 2]], axis=1)

    found = encode_batch(X, 1, 2, selection=lambda core, k, r, rng: np.array([0, 1]), rng=rng)

    assert found.loss == pytest.approx(encoder_loss(X, found.H), rel=1e-12)
    assert found.loss == pytest.approx(1.0 + 9.0, rel=0.2)


def test_awkward_matrices_give_finite_orthonormal_encoders_with_honest_losses():
    rng = np.random.default_rng(5)
    for name, X in awkward(rng).items():
        total = total_variance(X)
        sigma = right_singular(X)[0]
        for k, r in ((1, 1), (2, 3), (3, 2), (8, 20)):
            found = encode_batch(X, k, r, selection="dual-set", rng=rng)
            assert np.all(np.isfinite(found.H)), name
            assert np.all(np.isfinite(found.G)), name
            np.testing.assert_allclose(found.H.T @ found.H, np.eye(found.H.shape[1]), atol=1e-12)
            assert found.loss == pytest.approx(encoder_loss(X, found.H), rel=1e-9, abs=1e-24 * total), name
            assert information_loss(found.loss, pca_loss(sigma, k), total) >= 1.0, name


def test_all_columns_lose_no_more_than_pca():
    X = factor_model(np.random.default_rng(6), 30, 8, 3, 0.5)

    found = encode_batch(X, 3, 100, selection="greedy", rng=np.random.default_rng(0))

    assert found.loss == pytest.approx(oracles.pca_loss(X, 3), rel=1e-12)
    np.testing.assert_allclose(found.H @ found.H.T, _projector(X, 3), atol=1e-10)


def _projector(X, k):
    V = np.linalg.svd(X)[2][:k].T
    return V @ V.T


def test_what_cannot_be_is_refused():
    rng = np.random.default_rng(7)
    with pytest.raises(InvalidInput, match="n_components"):
        encoder_from_columns(np.eye(3), np.array([0]), 0)
    with pytest.raises(InvalidInput, match="'best' is not known"):
        encode_batch(np.eye(3), 1, 1, selection="best", rng=rng)
    with pytest.raises(InvalidInput, match="'best' is not known"):
        theorem_bound("best", 1, 1)


def test_bounds_are_those_of_the_theorems():
    assert theorem_bound("dual-set", 5, 20).bound == pytest.approx(1 + 1 / 0.25)
    assert theorem_bound("dual-set", 5, 5).bound == 6.0
    assert theorem_bound("dual-set", 1, 7).bound == 2.0
    assert theorem_bound("barrier", 1, 4).bound == pytest.approx(1 + 1 / 0.25)
    assert theorem_bound("barrier", 5, 20) == theorem_bound("dual-set", 5, 20)
    assert theorem_bound("adaptive-paper", 2, 30).bound <= 1 + 10 / 20
    assert theorem_bound("adaptive-paper", 2, 30).in_expectation
    assert theorem_bound("adaptive-paper", 2, 10) == theorem_bound("barrier", 2, 10)
    assert theorem_bound("exchange", 5, 20).bound == theorem_bound("dual-set", 5, 20).bound
    assert theorem_bound("adaptive", 2, 20).bound <= 1 + 10 / 10
    assert theorem_bound("adaptive", 2, 20).in_expectation
    assert not theorem_bound("adaptive-derandomized", 2, 20).in_expectation
    assert theorem_bound("adaptive", 3, 4) == theorem_bound("adaptive-derandomized", 3, 4)
    assert theorem_bound("dual-set", 3, 2).bound is None
    for name in ("greedy", "full-greedy", "leverage", "pivoted-qr"):
        bound, theorem, _ = theorem_bound(name, 2, 20)
        assert bound is None
        assert name in theorem


@given(st.sampled_from(sorted(SELECTIONS)), st.integers(1, 20), st.integers(1, 300))
def test_bounds_are_finite_above_one_and_fall_with_more_columns(name, k, r):
    bound = theorem_bound(name, k, r).bound
    more = theorem_bound(name, k, r + 1).bound

    if bound is not None:
        assert 1.0 < bound < math.inf
        assert more is not None
        if r > k:
            assert more <= bound + 1e-12


@settings(max_examples=40)
@given(
    name=st.sampled_from(["dual-set", "barrier", "exchange", "adaptive-derandomized"]),
    seed=st.integers(0, 10**6),
    k=st.integers(1, 3),
    extra=st.integers(0, 6),
)
def test_deterministic_bounds_hold(name, seed, k, extra):
    X = (power_law, heavy_tailed)[seed % 2](np.random.default_rng(seed), 15, 11)

    found = encode_batch(X, k, k + extra, selection=name, rng=np.random.default_rng(0))

    bound = theorem_bound(name, k, k + extra).bound
    assert bound is not None
    assert found.loss <= bound * oracles.pca_loss(X, k) * (1 + 1e-9)
