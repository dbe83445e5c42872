"""Ties: of equal columns the lowest index, and the same supports of the same data however they are held and cut."""

import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp

from spae_dask import SparseEncoder
from spae_dask.maths.selection import SELECTIONS
from tests import oracles

STRATEGIES = ["gram", "tsqr", "sketch", "stream"]


def doubled(seed):
    """Columns each of which is there twice, and which they are."""
    rng = np.random.default_rng(seed)
    Z = rng.standard_normal((60, 3)) @ rng.standard_normal((3, 12)) + rng.uniform(0.3, 2.0) * rng.standard_normal(
        (60, 12)
    )
    which = rng.permutation(np.repeat(np.arange(12), 2))
    return Z[:, which], which


def assert_lowest(support, which):
    for column in np.unique(which[support]):
        used = support[which[support] == column]
        assert used.tolist() == np.flatnonzero(which == column)[: used.size].tolist()


@pytest.mark.filterwarnings("ignore::spae_dask.errors.RankDeficientWarning")
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("method", ["polished", "batch", "iterative"])
def test_of_equal_columns_the_lowest_index_is_used(method, strategy):
    for seed in range(3 if method == "polished" else 8):
        X, which = doubled(seed)
        k, r = [(1, 4), (2, 3), (3, 4)][seed % 3]
        found = SparseEncoder(k, n_nonzero=r, method=method, strategy=strategy, random_state=seed).fit(X)

        assert found.certificate_.loss == pytest.approx(
            oracles.encoder_loss(X - X.mean(axis=0), found.components_.T), rel=1e-6 if strategy != "stream" else 0.1
        )
        for h in found.components_:
            assert_lowest(np.flatnonzero(h), which)


@pytest.mark.parametrize("strategy", ["gram", "tsqr"])
@pytest.mark.parametrize("selection", SELECTIONS)
def test_of_equal_columns_every_selection_takes_the_lowest(selection, strategy):
    for seed in range(2):
        X, which = doubled(seed)
        found = SparseEncoder(
            3, n_nonzero=5, method="batch", selection=selection, strategy=strategy, random_state=seed
        ).fit(X)

        assert_lowest(np.flatnonzero(found.components_.any(axis=0)), which)


def forms(X):
    """The same data, held and cut in other ways."""
    yield X
    yield np.asfortranarray(X)
    yield sp.csr_array(X)
    for rows in (37, 100, 251):
        yield da.from_array(X, chunks=(rows, -1))


def plain(seed):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((400, 30))
    return X if seed % 2 else X + rng.standard_normal((400, 4)) @ rng.standard_normal((4, 30))


@pytest.mark.parametrize(
    ("method", "k", "r", "seeds"), [("polished", 2, 4, 1), ("batch", 3, 5, 6), ("iterative", 3, 3, 6)]
)
def test_supports_do_not_depend_on_how_the_data_are_held_or_cut(method, k, r, seeds):
    for seed in range(seeds):
        X = plain(seed)
        fits = [SparseEncoder(k, n_nonzero=r, method=method, random_state=seed).fit(form) for form in forms(X)]
        supports = {tuple(sorted(tuple(np.flatnonzero(h)) for h in fit.components_)) for fit in fits}
        losses = [oracles.encoder_loss(X - X.mean(axis=0), fit.components_.T) for fit in fits]

        assert len(supports) == 1 or max(losses) <= (1 + 1e-9) * min(losses)
