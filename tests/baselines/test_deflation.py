from typing import get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spae_dask.baselines.deflation import (
    Deflation,
    clear_exhausted,
    deflate,
    new_direction,
    project_out,
    schur_complement,
    variances,
)
from spae_dask.errors import InvalidInput
from tests.matrices import factor_model, orthonormal, with_spectrum
from tests.reference_data import pitprops

DEFLATIONS = get_args(Deflation)
ON_CORES = [method for method in DEFLATIONS if method != "hotelling"]
NONE = np.zeros((8, 0))


def core_and_directions(seed):
    """A core (15, 8) and three sparse unit vectors that are not orthogonal."""
    rng = np.random.default_rng(seed)
    L = factor_model(rng, 15, 8, 3, 0.5)
    x = rng.standard_normal((8, 3)) * (rng.random((8, 3)) < 0.5)
    x[0] += 1.0
    return L, x / np.linalg.norm(x, axis=0)


seeds = given(seed=st.integers(0, 2**32))
quick = settings(max_examples=25, deadline=None)


@seeds
@quick
def test_all_five_agree_on_a_true_eigenvector(seed):
    rng = np.random.default_rng(seed)
    L = with_spectrum(rng, 12, 8, [5.0, 3.0, 2.0, 1.0])
    A = L.T @ L
    x = np.linalg.eigh(A)[1][:, -1]
    expected = A - 25.0 * np.outer(x, x)
    for method in DEFLATIONS:
        np.testing.assert_allclose(deflate(A, x, NONE, method=method, gram=True)[0], expected, atol=1e-12 * 25)


@seeds
@quick
@pytest.mark.parametrize("method", ON_CORES)
def test_deflating_a_core_and_its_gram_matrix_is_the_same(method, seed):
    L, directions = core_and_directions(seed)
    A, Q_core, Q_gram = L.T @ L, NONE, NONE
    for x in directions.T:
        L, Q_core = deflate(L, x, Q_core, method=method)
        A, Q_gram = deflate(A, x, Q_gram, method=method, gram=True)
        np.testing.assert_allclose(L.T @ L, A, atol=1e-11)
        np.testing.assert_allclose(Q_core, Q_gram, atol=1e-15)


@seeds
@quick
def test_projection_and_schur_complement_stay_positive_semidefinite_and_lose_x(seed):
    L, directions = core_and_directions(seed)
    for method in ON_CORES:
        A, Q = L.T @ L, NONE
        for x in directions.T:
            before = np.trace(A)
            A, Q = deflate(A, x, Q, method=method, gram=True)
            np.testing.assert_array_equal(A, A.T)
            assert np.linalg.eigvalsh(A)[0] >= -1e-12 * before
            np.testing.assert_allclose(A @ x, 0.0, atol=1e-11 * before)


def test_hotelling_can_lose_positive_semidefiniteness_where_projection_keeps_it():
    x = np.zeros(13)
    x[[0, 3]] = np.sqrt(0.5)
    hotelling = deflate(pitprops(), x, np.zeros((13, 0)), method="hotelling", gram=True)[0]
    projection = deflate(pitprops(), x, np.zeros((13, 0)), method="projection", gram=True)[0]
    assert x @ hotelling @ x == pytest.approx(0.0, abs=1e-15)
    assert np.linalg.eigvalsh(hotelling)[0] < -0.1
    assert np.linalg.eigvalsh(projection)[0] > -1e-14


@seeds
@quick
def test_the_schur_complement_is_the_core_with_the_scores_regressed_out(seed):
    L, directions = core_and_directions(seed)
    x = directions[:, 0]
    scores = L @ x
    slope = np.linalg.lstsq(scores[:, np.newaxis], L, rcond=None)[0]
    left = schur_complement(L, x)
    np.testing.assert_allclose(left, L - np.outer(scores, slope), atol=1e-12)
    # and so every later component has scores uncorrelated with these
    np.testing.assert_allclose(scores @ left, 0.0, atol=1e-11)


def test_plain_projection_lets_an_earlier_component_back_in_and_the_orthogonalised_one_does_not():
    L, directions = core_and_directions(1)
    after = {}
    for method in ON_CORES:
        A, Q = L.T @ L, NONE
        for x in directions.T:
            A, Q = deflate(A, x, Q, method=method, gram=True)
        after[method] = np.linalg.norm(A @ directions, axis=0)
    assert after["projection"][0] > 1e-2
    for method in ("schur", "orthogonalised", "generalised"):
        np.testing.assert_allclose(after[method], 0.0, atol=1e-10)


@seeds
@quick
def test_the_directions_taken_away_are_gram_schmidt_of_the_components(seed):
    L, directions = core_and_directions(seed)
    for method in ("orthogonalised", "generalised"):
        core, Q = L, NONE
        for x in directions.T:
            core, Q = deflate(core, x, Q, method=method)
        expected = np.linalg.qr(directions)[0]
        np.testing.assert_allclose(np.abs(np.sum(Q * expected, axis=0)), 1.0, atol=1e-10)
        np.testing.assert_allclose(Q.T @ Q, np.eye(3), atol=1e-14)
        np.testing.assert_allclose(core, L - L @ expected @ expected.T, atol=1e-11)


def test_a_direction_already_taken_changes_nothing():
    Q = orthonormal(np.random.default_rng(2), 8, 3)
    L = factor_model(np.random.default_rng(3), 15, 8, 3, 0.5)
    x = Q @ np.array([0.6, 0.0, 0.8])
    assert new_direction(Q, x) is None
    same, still = deflate(L, x, Q, method="orthogonalised")
    np.testing.assert_array_equal(same, L)
    np.testing.assert_array_equal(still, Q)


def test_a_nearly_dependent_component_still_gives_an_orthogonal_direction():
    Q = orthonormal(np.random.default_rng(4), 8, 4)
    x = Q[:, 0] + 1e-10 * np.arange(8.0)
    q = new_direction(Q, x / np.linalg.norm(x))
    assert q is not None
    np.testing.assert_allclose(Q.T @ q, 0.0, atol=1e-15)
    assert np.linalg.norm(q) == pytest.approx(1.0, abs=1e-15)


def test_a_vector_without_variance_leaves_the_schur_complement_alone():
    L = np.diag([1.0, 2.0, 0.0])
    x = np.array([0.0, 0.0, 1.0])
    np.testing.assert_array_equal(schur_complement(L, x), L)
    np.testing.assert_array_equal(schur_complement(L.T @ L, x, gram=True), L.T @ L)


@pytest.mark.parametrize("method", DEFLATIONS)
def test_the_input_is_not_written_to(method):
    A = pitprops().copy()
    x = np.eye(13)[0]
    A.flags.writeable = False
    for Q in (np.zeros((13, 0)), x[:, np.newaxis]):
        assert deflate(A, x, Q, method=method, gram=True)[0] is not A


def test_projection_leaves_no_row_with_a_part_along_q():
    L, directions = core_and_directions(5)
    q = directions[:, 1]
    np.testing.assert_allclose(project_out(L, q) @ q, 0.0, atol=1e-13)
    np.testing.assert_allclose(project_out(L, q), L @ (np.eye(8) - np.outer(q, q)), atol=1e-13)


def test_columns_used_up_are_cleared_and_small_ones_of_their_own_are_not():
    L = np.diag([1.0, 1e-30, 1e-5])
    before = variances(L)
    left = project_out(L, np.array([1.0, 0.0, 0.0])) + 1e-17 * np.array([[1, 0, 0]] * 3)
    now = clear_exhausted(left, before)
    np.testing.assert_array_equal(left[:, 0], 0.0)
    np.testing.assert_allclose(now, [0.0, 1e-60, 1e-10])
    A = np.diag([1e-16, 1.0])
    np.testing.assert_array_equal(clear_exhausted(A, np.ones(2), gram=True), [0.0, 1.0])
    np.testing.assert_array_equal(A, np.diag([0.0, 1.0]))


def test_an_unknown_deflation_is_refused_and_so_is_hotelling_on_a_core():
    with pytest.raises(InvalidInput, match="Choose one of hotelling, projection"):
        deflate(np.eye(8), np.eye(8)[0], NONE, method="best")
    with pytest.raises(InvalidInput, match="gram=True"):
        deflate(np.eye(8), np.eye(8)[0], NONE, method="hotelling")
