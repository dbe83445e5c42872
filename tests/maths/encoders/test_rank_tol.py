"""A core made from a Gram matrix carries noise: near-copies of columns must not be used against each other on it."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spae_dask.maths.encoders.batch import encode_batch, encoder_from_columns
from spae_dask.maths.encoders.iterative import encode_iterative
from spae_dask.maths.encoders.polished import encode_polished
from spae_dask.maths.linalg.project import column_basis
from spae_dask.maths.selection import SELECTIONS

TOL = 1e-4
NEAR = 1e-6
NOISE = 1e-13
METHODS = [f"{kind} {name}" for kind in ("batch", "iterative") for name in SELECTIONS] + ["iterative", "polished"]
KINDS = ["two copies", "sum of three", "two pairs", "difference of differences", "three copies"]


def encode(method, core, k, r, rank_tol=TOL):
    kind, _, selection = method.partition(" ")
    rng = np.random.default_rng(0)
    if kind == "polished":
        return encode_polished(core, k, r, rng=rng, rank_tol=rank_tol)
    if kind == "iterative":
        return encode_iterative(core, k, r, selection=selection or None, rng=rng, rank_tol=rank_tol)
    return encode_batch(core, k, r, selection=selection, rng=rng, rank_tol=rank_tol)


def copies(rng, kind):
    """Columns of which some nearly depend on others, of lengths that differ a hundredfold."""
    Z = rng.standard_normal((40, 6))
    a, b, z, y = rng.standard_normal((4, 40))
    # the difference of the near-copies is a direction of much variance
    near = {
        "two copies": [a, a + NEAR * z],
        "sum of three": [a, b, a + b + NEAR * z],
        "two pairs": [a, a + NEAR * z, b, b - NEAR * z],
        "difference of differences": [a, a + 3 * TOL * z, z + 3 * TOL * y],
        "three copies": [a, a + NEAR * z, a - NEAR * y],
    }[kind]
    far = Z + 3.0 * np.outer(z, rng.standard_normal(6)) + 3.0 * np.outer(y, rng.standard_normal(6))
    X = np.column_stack([*near, far]) * 10.0 ** rng.uniform(-1, 1, len(near) + 6)
    return X[:, rng.permutation(X.shape[1])]


def noisy_core(rng, X):
    """Square root of the Gram matrix of X, each entry off by some NOISE of what the lengths allow."""
    lengths = np.linalg.norm(X, axis=0)
    unit = X / lengths
    E = rng.uniform(-NOISE, NOISE, (X.shape[1], X.shape[1]))
    values, vectors = np.linalg.eigh(unit.T @ unit + 0.5 * (E + E.T))
    return np.sqrt(np.clip(values, 0.0, None))[:, None] * vectors.T * lengths


def loss_of(X, H):
    codes = X @ H
    Q = np.linalg.qr(codes / np.linalg.norm(codes, axis=0))[0]
    return np.linalg.norm(X - Q @ (Q.T @ X)) ** 2


def largest_coefficient(X, H):
    """Largest coefficient of a unit column in orthonormal codes that span those of H."""
    lengths = np.linalg.norm(X, axis=0)
    weights = H * lengths[:, None]
    codes = (X / lengths) @ weights
    scale = np.linalg.norm(codes, axis=0)
    R = np.linalg.qr(codes / scale, mode="r")
    return np.abs(np.linalg.solve(R.T, (weights / scale).T)).max()


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("k", "r"), [(1, 2), (2, 1), (2, 3), (3, 2)])
def test_near_copies_are_not_used_against_each_other(method, kind, k, r):
    for seed in range(1 if method == "polished" else 2):
        rng = np.random.default_rng(seed)
        X = copies(rng, kind)
        found = encode(method, noisy_core(rng, X), k, r)

        assert largest_coefficient(X, found.H) < 10 / TOL
        assert found.loss == pytest.approx(loss_of(X, found.H), rel=1e-5, abs=1e-6 * np.sum(X**2))


@pytest.mark.parametrize("method", ["batch exchange", "iterative exchange", "polished"])
def test_without_the_tolerance_noise_would_pass_for_variance(method):
    rng = np.random.default_rng(0)
    a, z = rng.standard_normal((2, 40))
    X = np.column_stack([a, a + NEAR * z, z[:, None] + 2.0 * rng.standard_normal((40, 12))])
    core = noisy_core(rng, X)
    loose, strict = (encode(method, core, 1, 2, rank_tol=tol) for tol in (1e-12, TOL))

    assert largest_coefficient(X, loose.H) > 1e5
    assert abs(loose.loss - loss_of(X, loose.H)) > 1e-3 * loose.loss
    assert largest_coefficient(X, strict.H) < 10.0
    assert strict.loss == pytest.approx(loss_of(X, strict.H), rel=1e-9)


def test_of_near_copies_alone_one_is_used():
    a, z = np.random.default_rng(0).standard_normal((2, 40))
    X = np.column_stack([a, a + NEAR * z])
    for method in METHODS:
        found = encode(method, X, 2, 1)

        assert np.count_nonzero(found.H) == 1, method
        assert found.loss == pytest.approx(np.linalg.norm(X - np.outer(a, a @ X) / (a @ a)) ** 2, rel=2.0)


@given(seed=st.integers(0, 10_000), steps=st.integers(2, 4))
@settings(deadline=None, max_examples=50)
def test_columns_with_tolerances_of_their_own_are_kept_where_they_stand_above_them(seed, steps):
    rng = np.random.default_rng(seed)
    Q = np.linalg.qr(rng.standard_normal((12, 2 * steps)))[0]
    apart = 10.0 ** rng.uniform(-7, -1, steps)
    C = np.column_stack([Q[:, :steps], Q[:, :steps] + apart * Q[:, steps:]])
    tolerances = np.full(2 * steps, 1e-4)

    kept = column_basis(C, rank_tol=tolerances).kept

    assert kept.size == steps + np.count_nonzero(apart / np.hypot(1.0, apart) > 1e-4)
    assert np.array_equal(np.unique(kept % steps), np.arange(steps))
    tolerances[steps:] = 0.5
    one_of_each = column_basis(C, rank_tol=tolerances).kept
    assert sorted(one_of_each % steps) == list(range(steps))


def test_a_small_difference_of_a_long_and_a_short_column_is_judged_by_the_short_one():
    rng = np.random.default_rng(0)
    Q = np.linalg.qr(rng.standard_normal((12, 2)))[0]
    C = np.column_stack([Q[:, 0], Q[:, 0] + 1e-2 * Q[:, 1]])

    assert column_basis(C, rank_tol=np.array([1e-4, 1e-4])).kept.size == 2
    assert column_basis(C, rank_tol=np.array([1e-1, 1e-4])).kept.tolist() == [1]
    assert column_basis(np.zeros((3, 0)), rank_tol=np.zeros(0)).kept.size == 0
    assert column_basis(np.zeros((3, 2)), rank_tol=np.full(2, 1e-4)).kept.size == 0


def test_the_encoder_on_given_columns_gives_no_weight_to_a_near_copy():
    a, b, z = np.random.default_rng(0).standard_normal((3, 40))
    X = np.column_stack([a, a + NEAR * z, b, z])

    assert np.count_nonzero(encoder_from_columns(X, np.arange(3), 2, rank_tol=TOL)[0].any(axis=1)) == 2
    assert np.count_nonzero(encoder_from_columns(X, np.arange(3), 2)[0].any(axis=1)) == 3
