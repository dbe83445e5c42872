import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spae_dask.maths.linalg.copies import lowest_equal, on_lowest, on_lowest_places, on_one


@given(seed=st.integers(0, 10_000), noise=st.sampled_from([0.0, 1e-15, 1e-9]))
@settings(deadline=None, max_examples=60)
def test_copies_are_found_and_nothing_else(seed, noise):
    rng = np.random.default_rng(seed)
    distinct = rng.standard_normal((8, 6)) * 10.0 ** rng.uniform(-30, 30, 6)
    which = rng.integers(0, 6, 15)
    core = distinct[:, which] * (1.0 + noise * rng.standard_normal((8, 15)))
    core[:, rng.random(15) < 0.1] = 0.0
    live = core.any(axis=0)

    lowest = lowest_equal(core)

    expected = [min(i for i in range(15) if live[i] and which[i] == which[j]) if live[j] else j for j in range(15)]
    assert lowest.tolist() == expected


def test_scaled_and_opposite_and_near_columns_are_not_copies():
    x, z = np.random.default_rng(0).standard_normal((2, 8))

    assert lowest_equal(np.column_stack([x, -x, 2.0 * x, x * (1 + 1e-6), x + 1e-6 * z, x])).tolist() == [
        0,
        1,
        2,
        3,
        4,
        0,
    ]


def test_encoders_move_to_the_lowest_copies():
    lowest = np.array([0, 1, 0, 1, 0])
    H = np.array([[0.0, 0.0], [0.0, 0.0], [0.0, 2.0], [3.0, 0.0], [4.0, 5.0]])

    own = on_lowest(H, lowest, shared=False)
    together = on_lowest(H, lowest, shared=True)

    assert own.tolist() == [[4.0, 2.0], [3.0, 0.0], [0.0, 5.0], [0.0, 0.0], [0.0, 0.0]]
    assert together.tolist() == [[0.0, 2.0], [3.0, 0.0], [4.0, 5.0], [0.0, 0.0], [0.0, 0.0]]
    assert on_one(H, lowest).tolist() == [[4.0, 7.0], [3.0, 0.0], [0.0, 0.0], [0.0, 0.0], [0.0, 0.0]]
    assert on_lowest_places(np.array([4, 3, 2]), lowest).tolist() == [0, 1, 2]
    np.testing.assert_array_equal(on_lowest(H, np.arange(5), shared=False), H)


@pytest.mark.parametrize("shared", [True, False])
def test_the_codes_stay_what_they_were(shared):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((20, 4))[:, rng.integers(0, 4, 12)]
    H = np.where(rng.random((12, 3)) < 0.4, rng.standard_normal((12, 3)), 0.0)

    np.testing.assert_allclose(X @ on_lowest(H, lowest_equal(X), shared=shared), X @ H, atol=1e-12)
    np.testing.assert_allclose(X @ on_one(H, lowest_equal(X)), X @ H, atol=1e-12)
