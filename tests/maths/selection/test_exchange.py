from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spae_dask.maths.linalg.loss import columns_loss
from spae_dask.maths.selection import SELECTIONS
from spae_dask.maths.selection import exchange as exchange_module
from spae_dask.maths.selection.dual_set import dual_set
from spae_dask.maths.selection.exchange import exchange, search
from spae_dask.maths.selection.problem import pose
from spae_dask.maths.selection.supports import Supports
from tests import oracles
from tests.matrices import factor_model, heavy_tailed, power_law
from tests.reference_data import (
    colon,
    eisen,
    lymphoma,
    pitprops,
    pitprops_columns,
    pitprops_exact_losses,
    pitprops_factor,
)


@pytest.mark.parametrize("k", [1, 2])
def test_pitprops_supports_are_the_exact_optima(k):
    P = pitprops()
    pca = oracles.pca_loss(P, k)
    for r in range(k, 9):
        best, support = pitprops_exact_losses()[k, r]
        selected = exchange(P, k, r)
        # the table's values have ten decimals
        assert columns_loss(P, selected, k).loss / pca == pytest.approx(best, abs=1e-9), (k, r)
        if (k, r) not in {(1, 1), (2, 2)}:
            assert set(selected.tolist()) == set(pitprops_columns(support)), (k, r)


def test_climbing_alone_finds_the_exact_optima_of_pitprops_too():
    for X in (pitprops(), pitprops_factor()):
        for k, r in ((1, 3), (2, 4), (3, 5)):
            problem = pose(X, k, r)
            supports = Supports(problem.core, problem.k)
            best = max(map(supports.explained, combinations(range(13), r)))
            assert supports.explained(search(problem, supports)) == pytest.approx(best, rel=1e-12)


@pytest.mark.parametrize(("X", "k", "r"), [(colon, 5, 20), (lymphoma, 2, 10), (eisen, 5, 10)])
def test_it_is_never_worse_than_its_starts(X, k, r):
    loss = columns_loss(X(), exchange(X(), k, r), k).loss

    for name in ("greedy", "dual-set", "full-greedy"):
        start = SELECTIONS[name](X(), k, r, np.random.default_rng(0))
        assert loss < columns_loss(X(), start, k).loss


def test_one_start_is_the_dual_set_so_its_theorem_is_inherited():
    starts = [start.tolist() for start in exchange_module._starts(pose(eisen(), 2, 5))]

    assert starts[1] == dual_set(eisen(), 2, 5).tolist() != starts[0]


@settings(max_examples=25)
@given(seed=st.integers(0, 10**6), k=st.integers(1, 4), r=st.integers(1, 6))
def test_explained_variance_of_a_support_is_what_its_loss_leaves(seed, k, r):
    rng = np.random.default_rng(seed)
    X = heavy_tailed(rng, 10, 9)
    S = rng.choice(9, size=r, replace=False)

    explained = Supports(X, k).explained(S)

    assert np.sum(X**2) - explained == pytest.approx(oracles.columns_loss(X, S, k), abs=1e-10 * np.sum(X**2))


@settings(max_examples=25)
@given(seed=st.integers(0, 10**6), k=st.integers(1, 4), r=st.integers(1, 6))
def test_the_best_addition_is_the_best_and_its_value_is_exact(seed, k, r):
    rng = np.random.default_rng(seed)
    X = power_law(rng, 12, 10, decay=0.4)
    S = rng.choice(10, size=r, replace=False).tolist()
    supports = Supports(X, k)

    j, value = supports.best_addition(S, np.arange(10))

    assert j not in S
    assert value == pytest.approx(supports.explained([*S, j]), rel=1e-12)
    # additions are ranked by a lower bound and four are tried: enough in every one of thousands of random cases
    best = max(supports.explained([*S, i]) for i in range(10) if i not in S)
    assert value == pytest.approx(best, rel=1e-12)


def test_candidates_that_depend_on_the_support_gain_nothing():
    X = np.random.default_rng(0).standard_normal((8, 3)) @ np.array([[1, 0, 1, 1], [0, 1, 1, 0], [0, 0, 0, 0.0]])

    _, value = Supports(X, 2).best_addition([0, 1], np.array([2, 3]))

    assert value == pytest.approx(np.sum(X**2), rel=1e-12)


def test_a_pool_of_candidates_is_enough_when_there_are_many_columns(monkeypatch):
    X = factor_model(np.random.default_rng(1), 12, 40, 3, 0.3)
    everything = columns_loss(X, exchange(X, 3, 5), 3).loss
    monkeypatch.setattr(exchange_module, "POOL", 14)

    pooled = columns_loss(X, exchange(X, 3, 5), 3).loss

    assert pooled <= columns_loss(X, SELECTIONS["greedy"](X, 3, 5, np.random.default_rng(0)), 3).loss
    assert pooled <= 1.05 * everything


def test_two_columns_are_exchanged_where_one_does_not_help(monkeypatch):
    improved = []
    original = exchange_module._better_pair

    def watch(*arguments):
        improved.append(original(*arguments))
        return improved[-1]

    monkeypatch.setattr(exchange_module, "_better_pair", watch)
    monkeypatch.setattr(exchange_module, "ENUMERATE", 0)
    exchange(pitprops_factor(), 1, 4)

    assert any(result is not None for result in improved)
