"""Bounds on an encoder's loss that a sketch proves: true of every matrix it may have come from, and attained by one."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spae_dask.maths.linalg.encoder_interval import encoder_interval, largest_trace
from spae_dask.passes.accumulators import FrequentDirections
from tests.maths.linalg.test_frequent import random_tree
from tests.matrices import factor_model, heavy_tailed, orthonormal, power_law
from tests.oracles import encoder_loss

MAKERS = {
    "power law": lambda rng, n, d: power_law(rng, n, d, decay=0.7)[rng.permutation(n)],
    "factors": lambda rng, n, d: factor_model(rng, n, d, 3, 0.5),
    "heavy tails": heavy_tailed,
    "t": lambda rng, n, d: rng.standard_t(1.5, (n, d)),
    "drift": lambda rng, n, d: rng.standard_normal((n, d)) + np.arange(n)[:, None] * rng.standard_normal(d),
}


def sparse_encoder(rng, d, k, r):
    H = np.zeros((d, k))
    for j in range(k):
        H[rng.choice(d, r, replace=False), j] = rng.standard_normal(r)
    return H


@given(
    seed=st.integers(0, 10**6),
    maker=st.sampled_from(sorted(MAKERS)),
    size=st.integers(1, 12),
    k=st.integers(1, 4),
    scaled=st.booleans(),
    centered=st.booleans(),
)
def test_the_interval_covers_the_loss_under_any_merge_tree(seed, maker, size, k, scaled, centered):
    rng = np.random.default_rng(seed)
    n, d = 60, 10
    X = MAKERS[maker](rng, n, d) + 3.0
    found = random_tree(FrequentDirections(d, size), X, rng)
    origin = X.mean(axis=0) if centered else np.zeros(d)
    scale = X.std(axis=0, ddof=1) if scaled else np.ones(d)
    Xs = (X - origin) / scale
    H = sparse_encoder(rng, d, k, int(rng.integers(1, d + 1)))
    G = np.linalg.pinv(Xs @ H) @ Xs if rng.random() < 0.7 else rng.standard_normal((k, d))
    sketch, left = found.about(origin, scale)
    lower, upper = encoder_interval(sketch, left, found.shrunk, scale, H, G)
    total = np.sum(Xs**2)
    rounding = 1e-10 * total
    assert lower - rounding <= encoder_loss(Xs, H) <= upper + rounding
    assert min(np.sum((Xs - Xs @ H @ G) ** 2), total) <= upper + rounding
    assert left.sum() + np.sum(sketch**2) == pytest.approx(total, rel=1e-10)
    pca_lower, pca_upper = found.optimum_interval(k, origin, scale)
    best = np.sum(np.linalg.svd(Xs, compute_uv=False)[k:] ** 2)
    assert pca_lower - rounding <= best <= pca_upper + rounding
    assert pca_lower <= lower + rounding


def test_nothing_shrunk_leaves_no_doubt():
    rng = np.random.default_rng(1)
    X = rng.standard_normal((40, 6))
    X -= X.mean(axis=0)
    accumulator = FrequentDirections(6, 6)
    found = accumulator.result(accumulator.update(accumulator.zero(), X, 0))
    H = sparse_encoder(rng, 6, 2, 3)
    sketch, left = found.about(np.zeros(6), np.ones(6))
    bounds = encoder_interval(sketch, left, found.shrunk, np.ones(6), H, np.linalg.pinv(X @ H) @ X)
    assert bounds == pytest.approx((encoder_loss(X, H),) * 2, rel=1e-10)


def test_some_matrix_with_this_sketch_loses_as_much_as_the_upper_bound():
    rng = np.random.default_rng(2)
    d, k, shrunk = 8, 2, 0.5
    B, H = rng.standard_normal((3, d)), sparse_encoder(rng, d, k, 3)
    G = np.linalg.pinv(B @ H) @ B
    N = np.eye(d) - H @ G
    # what is missing, spent on the directions that cost most; its diagonal is what a sketch would know
    _, vectors = np.linalg.eigh(N @ N.T)
    spent = np.array([0, 0, 0, 0, 0, 0.2, 0.5, 0.5])
    E = (vectors * spent) @ vectors.T
    _, upper = encoder_interval(B, np.diag(E), shrunk, np.ones(d), H, G)
    total = np.sum(B**2) + spent.sum()
    assert upper == pytest.approx(min(np.trace(N.T @ (B.T @ B + E) @ N), total), rel=1e-10)


@given(seed=st.integers(0, 10**6), ceiling=st.floats(0.1, 2.0))
def test_no_matrix_within_the_ceiling_has_a_larger_trace(seed, ceiling):
    rng = np.random.default_rng(seed)
    M = rng.standard_normal((5, 5))
    M += M.T
    Q = orthonormal(rng, 5, 5)
    E = (Q * (ceiling * rng.random(5))) @ Q.T
    assert np.trace(E @ M) <= largest_trace(np.linalg.eigvalsh(M), ceiling, float(np.trace(E))) + 1e-10
