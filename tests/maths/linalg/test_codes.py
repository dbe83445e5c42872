import numpy as np
import pytest

from spae_dask.maths.linalg.codes import code_correlation, sequential_variances, unit_codes
from tests.matrices import factor_model, orthonormal


def test_the_length_of_a_column_does_not_reach_its_code():
    rng = np.random.default_rng(0)
    core, H = rng.standard_normal((6, 5)), rng.standard_normal((5, 3))
    wanted = core @ (H / np.linalg.norm(H, axis=0))
    np.testing.assert_allclose(unit_codes(core, H * [1e200, 1.0, 1e-200]), wanted, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("twist", [1.0, 1e-13, 1e-7])
def test_only_what_rounding_leaves_of_a_code_is_zero(twist):
    core = factor_model(np.random.default_rng(1), 20, 4, 2, 0.5)
    core[:, 1] = core[:, 0] / 3 + twist * core[:, 2]
    Z = unit_codes(core, np.array([[1.0], [-3.0], [0.0], [0.0]]))
    assert Z.any() == (twist > 1e-12)


def test_correlations_are_symmetric_to_the_bit_and_at_most_one():
    Z = np.random.default_rng(2).standard_normal((30, 4)) * [1e-170, 1.0, 1e150, 0.0]
    Z[:, 2] = Z[:, 1] * -1e150
    found = code_correlation(Z)
    np.testing.assert_array_equal(found, found.T)
    np.testing.assert_array_equal(np.diag(found), [1, 1, 1, 0])
    assert found[1, 2] == pytest.approx(-1)
    assert np.abs(found).max() <= 1


def test_orthogonal_codes_keep_all_their_variance_in_any_order():
    Z = orthonormal(np.random.default_rng(3), 10, 4) * [3.0, 0.0, 1e-9, 5.0]
    for order in ([0, 1, 2, 3], [3, 2, 1, 0]):
        np.testing.assert_allclose(
            sequential_variances(Z[:, order].T @ Z[:, order]), np.array([9, 0, 1e-18, 25])[order], rtol=1e-8
        )
