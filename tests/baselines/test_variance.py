import importlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spae_dask import baselines
from spae_dask.baselines.tpower import tpower
from spae_dask.baselines.variance import adjusted_variance
from spae_dask.errors import InvalidInput, NonFiniteInput
from tests.matrices import factor_model
from tests.reference_data import pitprops, pitprops_factor


@given(seed=st.integers(0, 2**32), k=st.integers(1, 6))
@settings(max_examples=40, deadline=None)
def test_it_is_the_squared_diagonal_of_the_qr_factor_of_the_scores(seed, k):
    rng = np.random.default_rng(seed)
    X = factor_model(rng, 30, 9, 3, 0.5)
    H = rng.standard_normal((9, k))
    H /= np.linalg.norm(H, axis=0)
    R = np.linalg.qr(X @ H)[1]
    expected = np.diag(R) ** 2
    np.testing.assert_allclose(adjusted_variance(H, X.T @ X), expected, rtol=1e-8, atol=1e-12 * np.sum(X**2))


def test_principal_components_are_credited_with_their_eigenvalues():
    values, vectors = np.linalg.eigh(pitprops())
    np.testing.assert_allclose(adjusted_variance(vectors[:, ::-1], pitprops()), values[::-1], rtol=1e-10)


def test_correlated_components_are_credited_less_than_their_variances_and_no_more_than_is_there():
    H = tpower(pitprops(), 5, 6, gram=True)
    own = np.diag(H.T @ pitprops() @ H)
    adjusted = adjusted_variance(H, pitprops())
    assert adjusted[0] == pytest.approx(own[0])
    assert (adjusted[1:] < own[1:]).all()
    # together: the part of X inside the span of the scores that H's own columns account for
    R = np.linalg.qr(pitprops_factor() @ H)[1]
    assert np.sum(adjusted) == pytest.approx(np.sum(np.diag(R) ** 2))


def test_the_order_of_the_components_matters():
    H = np.array([[1.0, 0.6], [0.0, 0.8]])
    A = np.diag([1.0, 4.0])
    np.testing.assert_allclose(adjusted_variance(H, A), [1.0, 2.56])
    np.testing.assert_allclose(adjusted_variance(H[:, ::-1], A), [2.92, 1.0 - 0.36 / 2.92])


def test_dependent_and_zero_components_get_nothing_and_cost_the_others_nothing():
    X = factor_model(np.random.default_rng(1), 20, 6, 2, 0.5)
    A = X.T @ X
    H = np.eye(6)[:, [0, 1, 2]]
    plain = adjusted_variance(H, A)
    twin = (H[:, 0] + H[:, 1]) / np.sqrt(2)
    padded = np.column_stack([H[:, 0], np.zeros(6), H[:, 1], twin, H[:, 2], H[:, 0]])
    result = adjusted_variance(padded, A)
    np.testing.assert_allclose(result[[0, 2, 4]], plain, rtol=1e-10)
    np.testing.assert_array_equal(result[[1, 3, 5]], 0.0)


@pytest.mark.parametrize("power", [-1000, -300, 300, 900])
def test_units_carry_through(power):
    H = tpower(pitprops(), 4, 3, gram=True)
    scaled = np.ldexp(pitprops(), power)
    np.testing.assert_array_equal(adjusted_variance(H, scaled), np.ldexp(adjusted_variance(H, pitprops()), power))


def test_nothing_to_explain_gives_zero():
    np.testing.assert_array_equal(adjusted_variance(np.eye(3), np.zeros((3, 3))), 0.0)


def test_misfits_are_refused():
    with pytest.raises(InvalidInput, match="one row for each column"):
        adjusted_variance(np.ones((2, 1)), np.eye(3))
    with pytest.raises(InvalidInput, match="not symmetric"):
        adjusted_variance(np.ones((2, 1)), [[1.0, 2.0], [0.0, 1.0]])
    with pytest.raises(NonFiniteInput):
        adjusted_variance(np.ones((2, 1)), np.diag([1.0, np.nan]))


def test_the_room_exports_its_functions_and_its_modules_are_found_under_their_names():
    core = np.random.default_rng(0).standard_normal((30, 6))
    assert np.array_equal(baselines.tpower(core, 2), tpower(core, 2))
    for name in ("tpower", "gpower"):
        module = importlib.import_module(f"spae_dask.baselines.{name}")
        assert getattr(module, name) is getattr(baselines, name)
