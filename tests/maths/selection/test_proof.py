"""Bounds on all sets of columns are true, and the best set is found, as a list of all sets says."""

from collections.abc import Sequence
from itertools import combinations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spae_dask.maths.selection import proof as house
from spae_dask.maths.selection.proof import Errors, SetProof, prove
from tests import oracles
from tests.reference_data import pitprops, pitprops_exact_losses

Floats = npt.NDArray[np.float64]


def best_of_all(X: Floats, k: int, r: int, start: Sequence[int] = (), allowed: Sequence[int] | None = None) -> float:
    """The least loss of a set, by a list of all sets."""
    others = [j for j in (range(X.shape[1]) if allowed is None else allowed) if j not in start]
    return min(oracles.columns_loss(X, [*start, *each], k) for each in combinations(others, min(r, len(others))))


@st.composite
def matrices(draw: st.DrawFn) -> Floats:
    """A matrix of few factors, with columns of all units, and some that are zero, copies or sums of others."""
    d, m = draw(st.integers(4, 9)), draw(st.integers(3, 13))
    rng = np.random.default_rng(draw(st.integers(0, 2**20)))
    X: Floats = rng.normal(size=(m, 3)) @ rng.normal(size=(3, d)) + rng.uniform(0, 1) * rng.normal(size=(m, d))
    X *= 10.0 ** rng.uniform(-3, 3, size=d)
    change = draw(st.integers(0, 4))
    if change == 1:
        X[:, -1] = -3 * X[:, 0]
    elif change == 2:
        X[:, -1] = X[:, 0] + X[:, 1]
    elif change == 3:
        X[:, 0] = 0
    return X * 10.0 ** draw(st.sampled_from([-120, 0, 120]))


@settings(max_examples=60)
@given(X=matrices(), k=st.integers(1, 4), r=st.integers(1, 5), seed=st.integers(0, 99), limit=st.integers(0, 4))
def test_no_set_loses_less_than_the_bound_wherever_the_search_ends(
    X: Floats, k: int, r: int, seed: int, limit: int
) -> None:
    rng, d, total = np.random.default_rng(seed), X.shape[1], float(np.sum(X**2))
    start = rng.choice(d, seed % 3, replace=False).tolist()
    allowed = np.setdiff1d(np.arange(d), rng.choice(d, 1)) if seed % 2 else None
    best = best_of_all(X, k, r, start, allowed)
    known = [*start, *np.setdiff1d(np.arange(d) if allowed is None else allowed, start)[:r]]

    early = prove(X, k, r, known, start=start, allowed=allowed, node_limit=limit)
    found = prove(X, k, r, known, start=start, allowed=allowed)

    assert early.n_nodes <= limit
    assert early.lower <= found.lower + 1e-8 * total  # up to sets that are as good as equal
    assert found.lower <= best + 1e-12 * total
    assert found.complete
    assert found.loss == pytest.approx(best, abs=1e-9 * total)
    assert found.lower == pytest.approx(best, abs=1e-8 * total)
    assert set(start) <= set(found.columns.tolist())
    assert found.columns.size <= r + len(start)


@pytest.mark.parametrize("k", [1, 2, 3])
def test_pitprops_sets_are_proved_to_be_the_best(k: int) -> None:
    P = pitprops()
    for r in range(1, 6):
        found = prove(P, k, r, known=range(r))
        assert found.complete
        assert found.loss == pytest.approx(best_of_all(P, k, r), rel=1e-9)
        assert found.lower == pytest.approx(found.loss, rel=1e-8)
        if (k, r) in pitprops_exact_losses():
            pca = oracles.pca_loss(P, k)
            assert found.lower / pca == pytest.approx(pitprops_exact_losses()[k, r][0], abs=1e-8)


def test_the_bound_rises_with_the_nodes_and_starts_at_pca() -> None:
    rng = np.random.default_rng(3)
    X = rng.normal(size=(60, 3)) @ rng.normal(size=(3, 18)) + rng.normal(size=(60, 18))

    def after(nodes: int | None) -> SetProof:
        return prove(X, 2, 5, known=range(5), node_limit=nodes)

    bounds = [after(nodes).lower for nodes in (0, 1, 3, 10, None)]
    assert bounds[0] == pytest.approx(oracles.pca_loss(X, 2), rel=1e-9)
    assert (np.diff(bounds) >= 0).all()
    assert bounds[1] < bounds[3] < bounds[4]
    assert after(10).lower == after(10).lower
    # a hundredth of all sets is looked into
    assert after(None).n_nodes < 8568 / 20


def test_bounds_prune_most_pairs_of_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(400, 3)) @ rng.normal(size=(3, 40)) + 0.5 * rng.normal(size=(400, 40))
    learned: list[list[int]] = []
    learn = house._Tree.learn

    def counted(tree: house._Tree, columns: list[int]) -> None:
        learned.append(columns)
        learn(tree, columns)

    monkeypatch.setattr(house._Tree, "learn", counted)
    found = prove(X, 3, 3, known=range(3))
    assert found.complete
    assert len(learned) < 40  # of 9,880 sets


def test_an_error_of_the_core_lowers_the_bound_by_as_much() -> None:
    rng = np.random.default_rng(2)
    X = rng.normal(size=(50, 8))
    exact = prove(X, 2, 3, known=[0, 1, 2])
    for rows in (1e-9, 1e-6):
        # any matrix whose columns differ by so much of their length
        other = X + rows * rng.normal(size=X.shape) * np.linalg.norm(X, axis=0) / np.sqrt(2 * X.shape[0])
        found = prove(X, 2, 3, known=[0, 1, 2], errors=Errors(rows=rows))
        assert found.lower < best_of_all(other, 2, 3)
        assert exact.loss - found.lower > 0.1 * rows * exact.loss
        products = prove(X, 2, 3, known=[0, 1, 2], errors=Errors(products=2 * rows))
        assert products.lower < best_of_all(other, 2, 3)


def test_a_stop_ends_the_search_before_the_next_node() -> None:
    X = np.random.default_rng(4).normal(size=(30, 14))
    answers = iter([False, False, True])
    found = prove(X, 2, 5, known=range(5), stop=lambda: next(answers))
    assert found.n_nodes == 2
    assert not found.complete
    assert found.lower < found.loss


def test_a_tree_that_would_not_fit_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    X = np.random.default_rng(4).normal(size=(30, 14))
    monkeypatch.setattr(house, "MOST_OPEN", 5)
    found = prove(X, 2, 5, known=range(5))
    assert not found.complete
    assert found.n_nodes == 1
    assert found.lower <= best_of_all(X, 2, 5)
