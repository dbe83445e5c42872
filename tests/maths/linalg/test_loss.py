import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spae_dask.maths.linalg.loss import (
    LossSplit,
    columns_loss,
    encoder_loss,
    explained_order,
    information_loss,
    prefix_losses,
    rounding_error,
    sequential_explained,
    symmetric_explained,
    total_variance,
)
from spae_dask.maths.linalg.project import optimal_decoder
from spae_dask.maths.linalg.spectral import pca_loss, right_singular
from tests import oracles
from tests.matrices import awkward, low_rank, orthonormal, power_law, with_spectrum
from tests.reference_data import pitprops


def sparse_encoder(rng, d, k, r):
    H = np.zeros((d, k))
    for j in range(k):
        H[rng.choice(d, size=min(r, d), replace=False), j] = rng.standard_normal(min(r, d))
    return H


@given(st.integers(0, 10**6), st.integers(2, 12), st.integers(2, 9), st.integers(1, 4))
def test_loss_of_any_encoder_agrees_with_a_dense_projection(seed, m, d, k):
    rng = np.random.default_rng(seed)
    X, H = rng.standard_normal((m, d)), sparse_encoder(rng, d, k, 3)

    assert encoder_loss(X, H) == pytest.approx(oracles.encoder_loss(X, H), rel=1e-9, abs=1e-12)


@given(st.integers(0, 10**6), st.integers(1, 9), st.integers(1, 4))
def test_loss_of_columns_is_that_of_the_best_rank_k_approximation_from_them(seed, r, k):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((12, 9))
    S = rng.choice(9, size=r, replace=False)

    split = columns_loss(X, S, k)

    assert split.loss == pytest.approx(oracles.columns_loss(X, S, k), rel=1e-10, abs=1e-12)
    assert split.projection == pytest.approx(oracles.columns_loss(X, S, 9), rel=1e-10, abs=1e-12)


def test_a_split_adds_up():
    assert LossSplit(1.5, 0.25).loss == 1.75


def test_no_encoder_beats_its_columns_and_no_columns_beat_pca():
    rng = np.random.default_rng(0)
    X = power_law(rng, 30, 10)
    S = np.array([1, 4, 7, 8])
    best_of_columns = columns_loss(X, S, 2).loss
    for _ in range(50):
        H = np.zeros((10, 2))
        H[S] = rng.standard_normal((4, 2))
        assert encoder_loss(X, H) >= best_of_columns * (1 - 1e-12)
    assert best_of_columns >= oracles.pca_loss(X, 2)


def test_a_tiny_loss_keeps_its_digits():
    rng = np.random.default_rng(1)
    X = with_spectrum(rng, 20, 6, [1.0, 1.0, 1e-7, 1e-7])
    V = right_singular(X, 2)[1]

    assert encoder_loss(X, V) == pytest.approx(2e-14, rel=1e-5)
    assert columns_loss(X, np.arange(6), 2).loss == pytest.approx(2e-14, rel=1e-5)


def test_dependent_and_zero_codes_change_nothing():
    rng = np.random.default_rng(2)
    X, h = rng.standard_normal((9, 5)), rng.standard_normal((5, 1))

    padded = np.hstack([h, np.zeros((5, 1)), -3.0 * h])

    assert encoder_loss(X, padded) == pytest.approx(encoder_loss(X, h), rel=1e-13)
    assert encoder_loss(X, np.zeros((5, 2))) == pytest.approx(total_variance(X), rel=1e-14)


@pytest.mark.parametrize("factor", [1e-100, 1e100])
def test_loss_scales_with_the_square_and_ignores_the_length_of_codes(factor):
    rng = np.random.default_rng(3)
    X, H = rng.standard_normal((9, 5)), rng.standard_normal((5, 2))

    loss = encoder_loss(X * factor, H * np.array([1e100, 1e-100]))

    assert loss / factor**2 == pytest.approx(encoder_loss(X, H), rel=1e-12)


@given(st.integers(0, 10**6), st.integers(1, 5))
def test_prefix_losses_are_the_losses_of_the_prefixes(seed, k):
    rng = np.random.default_rng(seed)
    X, H = rng.standard_normal((10, 7)), sparse_encoder(rng, 7, k, 2)

    losses = prefix_losses(X, H)

    expected = [oracles.encoder_loss(X, H[:, : j + 1]) for j in range(k)]
    np.testing.assert_allclose(losses, expected, rtol=1e-10)


def test_prefix_losses_keep_the_digits_of_the_last_ones():
    X = with_spectrum(np.random.default_rng(4), 20, 6, [1.0, 1e-4, 1e-8, 1e-12])
    V = right_singular(X, 3)[1]

    np.testing.assert_allclose(prefix_losses(X, V), [1e-8, 1e-16, 1e-24], rtol=1e-2)


@given(st.integers(0, 10**6), st.integers(1, 5))
def test_sequential_variances_and_the_loss_add_up_to_the_total(seed, k):
    rng = np.random.default_rng(seed)
    X, H = rng.standard_normal((8, 6)), sparse_encoder(rng, 6, k, 2)
    H[:, -1] = H[:, 0]

    explained = sequential_explained(X, H)

    assert np.all(explained >= 0.0)
    assert explained.sum() + encoder_loss(X, H) == pytest.approx(total_variance(X), rel=1e-12)
    if k > 1:
        assert explained[-1] == 0.0


def test_order_takes_the_most_explaining_code_first_and_empty_ones_last():
    rng = np.random.default_rng(5)
    X = power_law(rng, 20, 8)
    H = rng.standard_normal((8, 4))
    H[:, 1] = 0.0

    order = explained_order(X, H)

    assert sorted(order) == [0, 1, 2, 3]
    assert order[-1] == 1
    for step in range(3):
        gains = [sequential_explained(X, H[:, [*order[:step], j]])[-1] for j in order[step:]]
        assert gains[0] == pytest.approx(max(gains), rel=1e-10)


def test_order_of_twins_is_by_index():
    X = np.random.default_rng(6).standard_normal((9, 4))
    h = np.ones((4, 1))

    np.testing.assert_array_equal(explained_order(X, np.hstack([h, h, h])), [0, 1, 2])


def test_symmetric_variance_is_that_inside_the_span_of_the_encoder():
    rng = np.random.default_rng(7)
    X, H = rng.standard_normal((12, 6)), sparse_encoder(rng, 6, 3, 2)

    expected = np.sum((X @ H @ np.linalg.pinv(H)) ** 2)

    assert symmetric_explained(X, H) == pytest.approx(expected, rel=1e-12)
    assert symmetric_explained(X, np.hstack([H, H])) == pytest.approx(expected, rel=1e-12)


@given(st.integers(0, 10**6))
def test_symmetric_encoding_never_loses_less_than_the_optimal_decoder(seed):
    rng = np.random.default_rng(seed)
    X, H = rng.standard_normal((8, 6)), sparse_encoder(rng, 6, 2, 3)

    symmetric_loss = np.sum((X - X @ H @ np.linalg.pinv(H)) ** 2)

    assert symmetric_loss >= encoder_loss(X, H) * (1 - 1e-12)


def test_the_optimal_decoder_reaches_the_loss():
    rng = np.random.default_rng(8)
    X, H = rng.standard_normal((15, 7)), sparse_encoder(rng, 7, 3, 3)

    assert np.sum((X - X @ H @ optimal_decoder(X, H)) ** 2) == pytest.approx(encoder_loss(X, H), rel=1e-12)


def test_information_loss_of_pitprops_single_variables():
    # Every variable alone explains one unit of the correlation matrix's 13, and more through its correlations.
    P = pitprops()
    sigma = right_singular(P)[0]
    ratios = [information_loss(encoder_loss(P, h[:, None]), pca_loss(sigma, 1), total_variance(P)) for h in np.eye(13)]

    assert min(ratios) == pytest.approx(1.1453591670, abs=1e-9)
    assert int(np.argmin(ratios)) == 1


def test_information_loss_is_one_where_only_rounding_says_less():
    assert information_loss(1.0 - 1e-15, 1.0, 10.0) == 1.0
    assert information_loss(1.0 + 1e-15, 1.0, 10.0) > 1.0
    assert information_loss(0.99, 1.0, 10.0, error=0.02) == 1.0


def test_information_loss_does_not_hide_losses_that_cannot_belong_together():
    assert information_loss(0.99, 1.0, 10.0) == 0.99


def test_information_loss_against_a_perfect_pca():
    assert information_loss(0.0, 0.0, 5.0) == 1.0
    assert information_loss(1e-30, 0.0, 5.0) == 1.0
    assert information_loss(1e-12, 0.0, 5.0) == math.inf
    assert information_loss(1e-12, 0.0, 5.0, error=1e-11) == 1.0
    assert information_loss(0.0, 0.0, 0.0) == 1.0


def test_rounding_error_bounds_what_a_rotation_changes():
    rng = np.random.default_rng(10)
    for exponent in (0, -4, -8):
        X = with_spectrum(rng, 30, 8, np.concatenate([np.ones(3), 10.0**exponent * np.ones(5)]))
        H = right_singular(X, 3)[1]
        loss = encoder_loss(X, H)
        moved = encoder_loss(orthonormal(rng, 30, 30) @ X, H)
        assert abs(moved - loss) <= rounding_error(loss, total_variance(X))


def test_spanning_a_low_rank_matrix_loses_nothing():
    X = low_rank(np.random.default_rng(11), 40, 12, 3)

    loss = columns_loss(X, np.array([0, 5, 9]), 3).loss

    assert information_loss(loss, pca_loss(right_singular(X)[0], 3), total_variance(X)) == 1.0


def test_losses_of_awkward_matrices_are_finite_and_consistent():
    rng = np.random.default_rng(12)
    for name, X in awkward(rng).items():
        d = X.shape[1]
        H = sparse_encoder(rng, d, 2, 2)
        total = total_variance(X)
        losses = prefix_losses(X, H)
        assert np.all(np.isfinite(losses)), name
        assert np.all(losses <= total * (1 + 1e-12)), name
        assert losses[-1] == pytest.approx(encoder_loss(X, H), rel=1e-9, abs=1e-20 * total), name
        assert np.all(np.isfinite(optimal_decoder(X, H))), name
        assert 0.0 <= symmetric_explained(X, H) <= total * (1 + 1e-12), name
