import numpy as np
import pytest

from spae_dask.errors import InvalidInput, NonFiniteInput
from spae_dask.maths.linalg.scaling import unit_columns, unit_scaled


@pytest.mark.parametrize("factor", [1e-150, 1.0, 3.0, 1e150])
def test_scaling_is_exact_and_brings_the_largest_entry_below_one(factor):
    X = factor * np.random.default_rng(0).standard_normal((5, 4))

    scaled, scale = unit_scaled(X)

    assert 0.5 <= np.max(np.abs(scaled)) < 1.0
    np.testing.assert_array_equal(scaled * scale, X)


def test_a_zero_matrix_is_left_alone():
    scaled, scale = unit_scaled(np.zeros((3, 2)))

    assert scale == 1.0
    assert not scaled.any()


def test_a_matrix_that_is_scaled_already_is_not_copied():
    X = np.array([[0.25, -0.75]])
    assert unit_scaled(X)[0] is X
    assert unit_scaled(X)[1] == 1.0


def test_integers_become_floats():
    assert unit_scaled(np.arange(6).reshape(2, 3))[0].dtype == np.float64


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_non_finite_entries_are_refused(bad):
    with pytest.raises(NonFiniteInput, match="NaN or infinite"):
        unit_scaled(np.array([[1.0, bad]]))


def test_a_vector_is_refused():
    with pytest.raises(InvalidInput, match="1 dimensions"):
        unit_scaled(np.ones(3))


def test_unit_columns_of_any_magnitude_have_unit_length_and_keep_their_direction():
    directions = np.random.default_rng(1).standard_normal((6, 5))
    factors = np.array([1e-200, 1.0, 0.0, 1e200, 1e-3])

    unit, norms = unit_columns(directions * factors)

    np.testing.assert_allclose(np.linalg.norm(unit, axis=0), [1, 1, 0, 1, 1], rtol=1e-14)
    np.testing.assert_allclose(norms, factors * np.linalg.norm(directions, axis=0), rtol=1e-14)
    np.testing.assert_allclose(unit[:, 0], directions[:, 0] / np.linalg.norm(directions[:, 0]), rtol=1e-13)
