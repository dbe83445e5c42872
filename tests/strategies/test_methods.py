"""Every method gives one answer on all cores of the same data, and of copies uses the lowest."""

import numpy as np
import pytest

from spae_dask.maths.linalg.spectral import core_from_gram
from spae_dask.strategies.methods import METHODS, Search
from spae_dask.strategies.parameters import FitParameters
from tests import oracles
from tests.matrices import orthonormal


def encode(method, core, k, r, seed=0, selection="dual-set"):
    return METHODS[method](FitParameters(k, r, method=method, selection=selection, seed=seed), core, r, Search())


@pytest.mark.parametrize("seed", [1, 6, 9])  # a kick that bars a column brings its copy in
def test_the_search_ends_on_the_lowest_copies(seed):
    rng = np.random.default_rng(seed)
    Z = rng.standard_normal((60, 12))
    if seed % 2 == 0:
        rng = np.random.default_rng(seed)
        Z = rng.standard_normal((60, 3)) @ rng.standard_normal((3, 12)) + 0.5 * rng.standard_normal((60, 12))
    which = rng.permutation(np.repeat(np.arange(12), 2))
    X = Z[:, which] - Z[:, which].mean(axis=0)
    for core in (np.linalg.qr(X, mode="r"), core_from_gram(X.T @ X)):
        found = encode("polished", core, 1, 4, seed)

        support = np.flatnonzero(found.H[:, 0])
        assert support.tolist() == sorted(int(np.flatnonzero(which == which[j])[0]) for j in support)
        assert found.chosen.tolist() == support.tolist()
        np.testing.assert_allclose(found.G, np.linalg.pinv(X @ found.H) @ X, atol=1e-9)


@pytest.mark.parametrize("selection", ["leverage", "exchange", "adaptive"])
def test_a_shared_support_moves_as_one(selection):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 8))[:, rng.permutation(np.repeat(np.arange(8), 3))]
    found = encode("batch", X, 3, 5, selection=selection)

    np.testing.assert_allclose(found.H.T @ found.H, np.eye(found.H.shape[1]), atol=1e-10)
    assert set(np.flatnonzero(found.H.any(axis=1))) <= set(found.chosen)
    assert np.unique(found.chosen).size == 5
    for j in found.chosen:
        copies = np.flatnonzero((X[:, [j]] == X).all(axis=0))
        used = copies[np.isin(copies, found.chosen)]
        assert used.tolist() == copies[: used.size].tolist()


@pytest.mark.parametrize("method", ["polished", "batch", "iterative"])
def test_rotations_of_a_core_change_nothing(method):
    for seed in range(1 if method == "polished" else 6):
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((50, 4)) @ rng.standard_normal((4, 20)) + rng.standard_normal((50, 20))
        core = np.linalg.qr(X, mode="r")
        cores = [
            core,
            core * rng.choice([-1.0, 1.0], (20, 1)),
            orthonormal(rng, 20, 20) @ core,
            core_from_gram(X.T @ X),
        ]
        found = [encode(method, each, 3, 3).H for each in cores]

        supports = {tuple(sorted(tuple(np.flatnonzero(h)) for h in H.T)) for H in found}
        losses = [oracles.encoder_loss(X, H) for H in found]
        assert len(supports) == 1 or max(losses) <= (1 + 1e-9) * min(losses)
