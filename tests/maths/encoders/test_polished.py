import functools
from importlib.resources import files
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spae_dask.errors import InvalidInput, NonFiniteInput
from spae_dask.maths.encoders import candidates
from spae_dask.maths.encoders.batch import encode_batch
from spae_dask.maths.encoders.candidates import propose_candidates
from spae_dask.maths.encoders.column_cycle import ColumnCycle
from spae_dask.maths.encoders.iterative import encode_iterative
from spae_dask.maths.encoders.polished import SearchStage, encode_polished
from spae_dask.maths.encoders.pool import kicked, pool_of
from spae_dask.maths.encoders.pursuit import pursue
from spae_dask.maths.encoders.reduced_core import reduce_core
from spae_dask.maths.encoders.single_column import best_on_support
from spae_dask.maths.encoders.support_exchange import best_swap, exchange
from spae_dask.maths.linalg.loss import sequential_explained
from tests import oracles, reference_data
from tests.matrices import awkward, factor_model, power_law, with_spectrum

# Information loss of TPower at k = 2, r = 5 on these matrices is 1.13, 1.58, 1.65 and 2.48. X is the matrix itself.
MARKS = {
    ("pitprops", 1, 5): 1.001656,  # the optimum
    ("pitprops", 2, 5): 1.003068,
    ("colon", 1, 5): 1.001719,
    ("colon", 2, 5): 1.002504,
    ("colon", 2, 10): 1.000472,
    ("colon", 5, 10): 1.002895,
    ("colon", 10, 12): 1.005063,
    ("lymphoma", 1, 5): 1.001591,
    ("lymphoma", 2, 5): 1.006288,
    ("lymphoma", 2, 10): 1.001333,
    ("lymphoma", 5, 10): 1.002824,
    ("lymphoma", 10, 12): 1.004175,
    ("eisen", 1, 5): 1.001452,
    ("eisen", 2, 5): 1.002727,
    ("eisen", 2, 10): 1.000856,
    ("eisen", 5, 10): 1.003032,
    ("eisen", 10, 12): 1.008102,
    ("pines", 1, 5): 1.004616,
    ("pines", 2, 5): 1.025549,
    ("pines", 2, 10): 1.006643,
    ("pines", 5, 10): 1.016525,
    ("pines", 10, 12): 1.013522,
}
QUICK = sorted(key for key in MARKS if key[0] != "pines")


@functools.cache
def matrix(name):
    if name == "pines":
        pytest.importorskip("tensorly", reason="its data folder holds the Indian Pines image")
        pixels = np.load(str(files("tensorly").joinpath("datasets", "data", "Indian_pines_corrected.npy")))
        pixels = pixels.reshape(-1, pixels.shape[-1]).astype(np.float64)
        return np.linalg.qr(pixels - pixels.mean(axis=0), mode="r")
    return getattr(reference_data, name)()


@functools.cache
def polished(name, k, r, effort=0.25):
    return encode_polished(matrix(name), k, r, effort=effort)


def information_loss(X, H, k):
    return oracles.encoder_loss(X, H) / oracles.pca_loss(X, k)


@pytest.mark.parametrize(("name", "k", "r"), QUICK)
def test_a_quarter_of_the_usual_effort_reaches_the_marks(name, k, r):
    found = polished(name, k, r)

    assert found.H.shape == (matrix(name).shape[1], k)
    assert information_loss(matrix(name), found.H, k) <= MARKS[name, k, r] + 5e-7


@pytest.mark.slow
@pytest.mark.parametrize(("name", "k", "r"), sorted(MARKS))
def test_the_usual_effort_reaches_the_marks(name, k, r):
    found = polished(name, k, r, 1.0)

    assert information_loss(matrix(name), found.H, k) <= MARKS[name, k, r] + 5e-7


@pytest.mark.parametrize(("name", "k", "r"), QUICK)
def test_the_loss_is_that_of_a_dense_projection(name, k, r):
    X = matrix(name)
    found = polished(name, k, r)

    loss = oracles.encoder_loss(X, found.H)
    assert found.loss == pytest.approx(loss, rel=1e-9)
    assert found.history[-1] == pytest.approx(loss, rel=1e-9)
    assert np.sum((X - X @ found.H @ found.G) ** 2) == pytest.approx(loss, rel=1e-9)


@pytest.mark.parametrize(("name", "k", "r"), QUICK)
def test_the_history_never_rises(name, k, r):
    history = polished(name, k, r).history

    assert len(history) > 1
    assert np.all(np.diff(history) <= 0.0)


@pytest.mark.parametrize(("name", "k", "r"), QUICK)
def test_columns_are_unit_with_at_most_r_nonzeros_and_their_largest_entry_positive(name, k, r):
    found = polished(name, k, r)

    np.testing.assert_allclose(np.linalg.norm(found.H, axis=0), 1.0, rtol=1e-14)
    for h, support in zip(found.H.T, found.supports, strict=True):
        assert support.size <= r
        assert np.flatnonzero(h).tolist() == support.tolist()
        assert h[np.argmax(np.abs(h))] > 0.0


@pytest.mark.parametrize("name", ["pitprops", "colon", "lymphoma", "eisen"])
def test_each_column_explains_the_most_of_those_left(name):
    X, H = matrix(name), polished(name, 2, 5).H

    alone = [oracles.encoder_loss(X, H[:, [j]]) for j in range(2)]
    assert alone[0] <= alone[1]
    assert np.all(np.diff(sequential_explained(X, H)) <= 0.0)


def test_one_column_of_pitprops_is_optimal():
    # with X the factor of the correlation matrix P, one column maximises h'P^2h / h'Ph on its support
    X = reference_data.pitprops_factor()
    P = reference_data.pitprops()
    for r in (1, 2, 3, 4, 5):
        best = max(
            np.linalg.eigvals(np.linalg.solve(P[np.ix_(S, S)], (P @ P)[np.ix_(S, S)])).real.max()
            for S in map(list, combinations(range(13), r))
        )
        assert encode_polished(X, 1, r).loss == pytest.approx(np.sum(X**2) - best, rel=1e-9)


@pytest.mark.parametrize(("k", "r"), [(2, 1), (2, 2), (3, 1)])
def test_small_encoders_are_optimal_over_all_supports(k, r):
    d = 5 if r > 1 else 8
    X = factor_model(np.random.default_rng(5), 20, d, 3, 0.4)
    # r = 1: enumerate columns; else enumerate pairs of supports and optimise the coefficients of one given the other
    if r == 1:
        best = min(oracles.encoder_loss(X, np.eye(d)[:, list(S)]) for S in combinations(range(d), k))
    else:
        pairs = list(combinations(range(d), r))
        best = min(_alternating_loss(X, S, T) for S, T in combinations(pairs, 2))

    assert encode_polished(X, k, r).loss == pytest.approx(best, rel=1e-5)


def _alternating_loss(X, S, T):
    """Loss of the best two columns on supports S and T, alternating from several first columns."""
    losses = []
    for angle in np.linspace(0.0, np.pi, 8, endpoint=False):
        Q = _unit(X[:, S] @ [np.cos(angle), np.sin(angle)])[:, None]
        for _ in range(15):
            for support in (T, S):
                left = X - Q[:, -1:] @ (Q[:, -1:].T @ X)
                basis = np.linalg.qr(left[:, support])[0]
                u = basis @ np.linalg.svd(basis.T @ X)[0][:, 0]
                code = X[:, support] @ np.linalg.lstsq(left[:, support], u, rcond=None)[0]
                Q = np.column_stack([Q[:, -1], _unit(code)])
        losses.append(np.sum((X - oracles.projected(X, Q)) ** 2))
    return min(losses)


def _unit(v):
    return v / np.linalg.norm(v)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("effort", [0.0, 0.1])
def test_the_result_is_never_worse_than_the_encoder_it_starts_from(seed, effort):
    rng = np.random.default_rng(seed)
    X = factor_model(rng, 30, 14, 4, 0.6)
    start = encode_iterative(X, 3, 3, selection="exchange")

    found = encode_polished(X, 3, 3, start_H=start.H, effort=effort)

    assert found.history[0] == pytest.approx(start.loss, rel=1e-12)
    assert oracles.encoder_loss(X, found.H) <= start.loss * (1.0 + 1e-14)


def test_a_start_that_cannot_be_improved_comes_back_with_its_loss():
    X = reference_data.pitprops()
    best = encode_polished(X, 2, 5)

    again = encode_polished(X, 2, 5, start_H=7.0 * best.H[:, ::-1], effort=0.0)

    assert again.loss <= best.loss * (1 + 1e-14)
    np.testing.assert_allclose(np.abs(again.H), np.abs(best.H), atol=1e-3)


def test_a_start_may_have_fewer_columns_and_hollow_ones():
    X = reference_data.eisen()
    start = np.zeros((118, 2))
    start[[3, 5], 0] = 1.0

    found = encode_polished(X, 3, 4, start_H=start, effort=0.0)

    assert found.H.shape == (118, 3)
    assert found.loss < oracles.encoder_loss(X, start)


def test_polishing_beats_the_papers_own_encoders_on_its_own_example():
    P = reference_data.pitprops()

    for method in ("batch", "iterative", "tpower"):
        printed = reference_data.pitprops_paper_encoder(method)
        budget = int(np.max(np.count_nonzero(printed, axis=0)))
        assert encode_polished(P, 2, budget, start_H=printed).loss < 0.98 * oracles.encoder_loss(P, printed)


def test_every_column_may_have_its_own_number_of_nonzeros():
    X = reference_data.eisen()

    found = encode_polished(X, 4, [7, 2, 5, 2], effort=0.2)

    assert [support.size for support in found.supports] == [7, 2, 5, 2]
    explained = sequential_explained(X, found.H[:, [1, 3]])
    assert explained[0] >= explained[1]


@pytest.mark.parametrize("effort", [0.0, 0.3])
def test_two_runs_agree_to_the_last_bit(effort):
    X = reference_data.eisen()

    one, two = (encode_polished(X, 3, 4, rng=np.random.default_rng(3), effort=effort) for _ in range(2))

    assert one.H.tobytes() == two.H.tobytes()
    assert one.history == two.history


@pytest.mark.parametrize("exponent", [-300, 300])
def test_the_scale_of_the_data_changes_nothing(exponent):
    X = factor_model(np.random.default_rng(0), 30, 12, 3, 0.5)

    plain, scaled = (encode_polished(matrix, 2, 3, effort=0.2) for matrix in (X, np.ldexp(X, exponent)))

    assert plain.H.tobytes() == scaled.H.tobytes()
    assert scaled.loss == np.ldexp(plain.loss, 2 * exponent)


def test_the_scale_of_a_column_changes_what_it_explains_but_not_whether_it_may_be_used():
    X = factor_model(np.random.default_rng(0), 30, 6, 2, 0.1)
    D = np.array([1.0, 1e-100, 1.0, 1e-100, 1.0, 1e-100])

    found = encode_polished(X * D, 1, 6)

    assert np.all(np.isfinite(found.H))
    assert found.loss == pytest.approx(oracles.pca_loss(X * D, 1), rel=1e-9)


@pytest.mark.parametrize("name", sorted(awkward(np.random.default_rng(0))))
@pytest.mark.parametrize("k", [1, 2, 5])
def test_awkward_matrices(name, k):
    X = awkward(np.random.default_rng(0))[name]
    unit = X / (np.max(np.abs(X)) or 1.0)
    least, total = oracles.pca_loss(unit, k), float(np.sum(unit**2))
    for r in (1, 2, 100):
        found = encode_polished(X, k, r, effort=0.2)

        assert np.all(np.isfinite(found.H))
        assert np.all(np.isfinite(found.G))
        assert found.H.shape[1] <= k
        assert np.all(np.any(found.H != 0.0, axis=0))
        assert np.all(np.count_nonzero(found.H, axis=0) <= r)
        if total:
            loss = oracles.encoder_loss(unit, found.H)
            assert loss >= least - 1e-13 * total
            if r == 100:
                assert loss == pytest.approx(least, rel=1e-9, abs=1e-13 * total)
            if found.H.shape[1] < k:
                assert loss <= 1e-13 * total


def test_columns_beyond_the_rank_are_left_out():
    X = np.random.default_rng(1).standard_normal((20, 3)) @ np.random.default_rng(2).standard_normal((3, 9))

    found = encode_polished(X, 5, 2)

    assert found.H.shape == (9, 3)
    assert found.G.shape == (3, 9)
    assert found.loss <= 1e-25 * np.sum(X**2)


def test_a_spectrum_of_many_magnitudes_is_followed_to_its_end():
    X = with_spectrum(np.random.default_rng(0), 8, 30, 10.0 ** -np.arange(8))
    # without the small singular values no search would come near: all losses would be rounding
    assert information_loss(X, encode_polished(X, 6, 3).H, 6) <= 1.001


def test_with_r_at_least_d_the_loss_is_that_of_pca():
    X = power_law(np.random.default_rng(0), 30, 8)
    for k in (1, 3, 8):
        assert encode_polished(X, k, 50, effort=0.0).loss == pytest.approx(oracles.pca_loss(X, k), rel=1e-10, abs=1e-25)


@pytest.mark.parametrize("start", [None, 7])
def test_a_wide_core_is_searched_on_candidates_that_hold_the_start(monkeypatch, start):
    rng = np.random.default_rng(0)
    X = factor_model(rng, 250, 400, 5, 0.5)
    H = None
    if start is not None:
        H = np.zeros((400, 3))
        H[start, 0] = 1.0
    monkeypatch.setattr(candidates, "SEARCH_ALL", 3600)

    columns = propose_candidates(X, (4,) * 3, H, np.random.default_rng(0))
    found = encode_polished(X, 3, 4, start_H=H, effort=0.2)

    assert 60 <= columns.size < 70
    assert np.all(np.diff(columns) > 0)
    assert start is None or start in columns
    assert found.loss == pytest.approx(oracles.encoder_loss(X, found.H), rel=1e-9)
    assert found.history[-1] == pytest.approx(found.loss, rel=1e-9)
    monkeypatch.undo()
    everything = encode_polished(X, 3, 4, effort=0.2)
    assert found.loss <= 1.02 * everything.loss


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"k": 0, "r": 2}, "k = 0"),
        ({"k": 2, "r": 0}, "at least one nonzero"),
        ({"k": 2, "r": [1, 2, 3]}, "3 entries for k = 2"),
        ({"k": 1, "r": 2, "effort": -1.0}, "effort = -1.0 is negative"),
        ({"k": 1, "r": 1, "start_H": np.ones((5, 1))}, "5 nonzeros, more than its r = 1"),
        ({"k": 1, "r": 1, "start_H": np.eye(5)}, "at most k = 1 columns"),
        ({"k": 1, "r": 1, "start_H": np.eye(4)[:, :1]}, "d = 5 rows"),
        ({"k": 1, "r": 1, "start_H": np.full((5, 1), np.nan)}, "NaN"),
    ],
)
def test_what_cannot_be_used_is_refused(arguments, message):
    with pytest.raises(InvalidInput, match=message):
        encode_polished(np.eye(5), **arguments)


def test_data_that_are_not_finite_are_refused():
    with pytest.raises(NonFiniteInput):
        encode_polished(np.array([[1.0, np.nan]]), 1, 1)


def one_column_problem(seed, taken=2):
    rng = np.random.default_rng(seed)
    X = factor_model(rng, 15, 12, 4, 0.5)
    codes = [_unit(X @ rng.standard_normal(12)) for _ in range(taken)]
    reduced = reduce_core(X, np.arange(12))
    return X, codes, reduced.problem([np.linalg.lstsq(reduced.columns.T, _unit_columns(X).T @ c)[0] for c in codes])


def _unit_columns(X):
    return X / np.linalg.norm(X, axis=0)


def gain_by_eigenvalues(X, codes, support):
    """Largest h'K^2h / h'Kh over h on the support, K the Gram matrix of the residual."""
    D = X - oracles.projected(X, np.column_stack([X[:, :0], *codes])) if codes else X
    K = D.T @ D
    S = list(support)
    return np.linalg.eigvals(np.linalg.solve(K[np.ix_(S, S)], (K @ K)[np.ix_(S, S)])).real.max()


@given(seed=st.integers(0, 1000), taken=st.integers(0, 3), size=st.integers(1, 5))
@settings(deadline=None, max_examples=30)
def test_the_gain_on_a_support_is_the_generalised_eigenvalue(seed, taken, size):
    X, codes, problem = one_column_problem(seed, taken)
    support = np.random.default_rng(seed).choice(12, size, replace=False).tolist()

    solution = best_on_support(problem, support)

    assert solution is not None
    assert solution.gain == pytest.approx(gain_by_eigenvalues(X, codes, support), rel=1e-8)


@given(seed=st.integers(0, 1000), taken=st.integers(0, 2), size=st.integers(1, 4))
@settings(deadline=None, max_examples=30)
def test_the_best_swap_gains_what_it_says_and_exchange_ends_where_no_swap_gains(seed, taken, size):
    X, codes, problem = one_column_problem(seed, taken)
    start = best_on_support(problem, np.random.default_rng(seed).choice(12, size, replace=False).tolist())
    assert start is not None

    swapped, gain = best_swap(start)
    end = exchange(start)

    assert len(set(swapped) - set(start.selected)) == 1
    assert len(set(swapped)) == size
    assert gain == pytest.approx(gain_by_eigenvalues(X, codes, swapped), rel=1e-7)
    assert end.gain >= start.gain
    others = [
        gain_by_eigenvalues(X, codes, {*end.selected} - {i} | {j})
        for i in end.selected
        for j in set(range(12)) - set(end.selected)
    ]
    # swaps are ranked by lower bounds, so a little may be overlooked
    assert max(others) <= end.gain * 1.02


@given(seed=st.integers(0, 1000), size=st.integers(1, 5))
@settings(deadline=None, max_examples=30)
def test_the_supports_of_a_pool_gain_what_it_says_and_exchange_never_gains_less(seed, size):
    X, codes, problem = one_column_problem(seed)
    start = best_on_support(problem, pursue(problem, problem.products(problem.best_codes(1)[:, 0]), size))
    assert start is not None

    pool = pool_of(problem, np.flatnonzero(problem.live))
    base = pool.supports([start.selected], size)
    assert pool.gains(base)[0] == pytest.approx(start.gain, rel=1e-9)
    random = np.random.default_rng(seed).random((4, size + 1))
    again = kicked(random, base)
    assert np.all(again.filled.sum(axis=1) < len(start.selected) + (size == 0))
    full = pool.refilled(again, np.tile(pool.solved(base).powered, (4, 1)))
    ends, gains = pool.exchanged(full)
    assert np.all(gains >= pool.gains(full) * (1 - 1e-12))
    for places, gain in zip(ends.rows(), gains, strict=True):
        support = pool.columns[places].tolist()
        assert len(set(support)) == len(support)
        assert gain == pytest.approx(gain_by_eigenvalues(X, codes, support), rel=1e-7)


def test_pursuit_finds_the_columns_a_code_was_made_of():
    X = np.random.default_rng(0).standard_normal((40, 30))
    problem = reduce_core(X, np.arange(30)).problem([])
    target = problem.products(problem.columns([3, 8, 21]) @ [1.0, -2.0, 1.5])

    assert set(pursue(problem, target, 3)) == {3, 8, 21}
    assert pursue(problem, target, 3, kept=[8, 21]) == (8, 21, 3)
    assert 8 not in pursue(problem, target, 3, barred=[8])


def test_dependent_columns_of_a_support_are_dropped():
    plain = np.random.default_rng(0).standard_normal((10, 3))
    X = np.column_stack([plain, plain[:, 0] + plain[:, 1], plain[:, 2]])
    problem = reduce_core(X, np.arange(5)).problem([])

    solution = best_on_support(problem, range(5))

    assert solution is not None
    assert len(solution.selected) == 3
    assert solution.gain == pytest.approx(np.linalg.svd(X)[1][0] ** 2, rel=1e-12)
    assert best_on_support(problem, []) is None


@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("given", [False, True])
def test_a_search_that_is_watched_is_the_same_and_its_least_loss_never_rises(k: int, given: bool) -> None:
    core = factor_model(np.random.default_rng(4), 30, 14, 4, 0.5)
    start = np.eye(14, k) if given else None
    seen: list[SearchStage] = []
    alone = encode_polished(core, k, 4, start_H=start)
    watched = encode_polished(core, k, 4, start_H=start, watch=seen.append)
    assert watched.H.tobytes() == alone.H.tobytes()
    assert watched.history == alone.history
    losses, done = [each.loss for each in seen if np.isfinite(each.loss)], [each.n_done for each in seen]
    assert losses == sorted(losses, reverse=True)
    assert losses[-1] == pytest.approx(alone.loss, rel=1e-3)
    assert done == sorted(done)
    assert done[-1] == seen[0].n_rounds
    assert set(range(3 + given)) <= set(done)  # a climb each, then a round or as many as are needed


def perturbed(X, seed):
    return X * (1.0 + 1e-14 * np.random.default_rng(seed).standard_normal(X.shape))


def supports_and_loss(X, H):
    return sorted(np.flatnonzero(h).tolist() for h in H.T), oracles.encoder_loss(X, H)


def assert_stable(X, k, r, n_perturbations, tol=1e-6):
    expected, loss = supports_and_loss(X, encode_polished(X, k, r).H)
    found = [supports_and_loss(X, encode_polished(perturbed(X, seed), k, r).H) for seed in range(n_perturbations)]
    assert sum(supports == expected for supports, _ in found) >= 0.95 * n_perturbations
    assert max(abs(each / loss - 1.0) for _, each in found) <= tol


@pytest.mark.parametrize(
    ("name", "k", "r"), [("pitprops", 2, 5), ("pitprops", 3, 3), ("pitprops", 5, 8), ("pitprops", 6, 7)]
)
def test_noise_of_the_last_digit_changes_no_choice(name, k, r):
    assert_stable(matrix(name), k, r, 3, tol=1e-12)  # codes that nearly depend on each other are settled too


def test_a_column_chosen_when_its_target_is_spanned_is_no_matter_of_rounding():
    assert_stable(matrix("eisen"), 10, 12, 2)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "k", "r"),
    [
        *(("pitprops", *size) for size in ((2, 5), (5, 8), (6, 4))),
        *((name, *size) for name in ("colon", "lymphoma", "eisen") for size in ((2, 5), (5, 10), (10, 12))),
    ],
)
def test_noise_of_the_last_digit_changes_no_choice_on_the_marks(name, k, r):
    assert_stable(matrix(name), k, r, 100)


@pytest.mark.parametrize("seed", [None, 0, 1])
@pytest.mark.parametrize("start", [False, True])
def test_of_exact_sparse_factors_a_component_is_one_column_of_each(seed, start):
    X = np.random.default_rng(0).normal(size=(60, 3)) @ np.kron(np.eye(3), np.ones((1, 6)))
    X = X if seed is None else perturbed(X, seed)
    shared = np.zeros((18, 3))
    shared[[0, 1, 6, 12]] = np.random.default_rng(1).normal(size=(4, 3))
    found = encode_polished(X, 3, 4, start_H=shared if start else None)
    assert sorted(np.flatnonzero(h).tolist() for h in found.H.T) == [[0], [6], [12]]
    assert found.loss <= 1e-24 * np.sum(X**2)


@pytest.mark.parametrize("k", [2, 3])
def test_the_search_stops_where_pca_shows_that_next_to_nothing_is_left(k):
    X = reference_data.pitprops_factor()
    least = oracles.pca_loss(X, k)
    rough, usual = (encode_polished(X, k, 8, search_tol=tol) for tol in (0.5, 1e-6))

    assert rough.loss <= 1.5 * least
    assert rough.sweeps < usual.sweeps
    assert usual.loss <= rough.loss
    again = encode_polished(X, k, 8, effort=0.0)
    assert rough.H.tobytes() == again.H.tobytes()


def test_a_search_goes_on_from_the_answer_of_a_quick_one():
    X = matrix("colon")
    quick = encode_polished(X, 5, 10, effort=0)
    whole, rest = (encode_polished(X, 5, 10, start_H=quick.H, climbed=climbed) for climbed in (False, True))

    assert rest.loss <= quick.loss
    assert rest.loss <= 1.002 * whole.loss
    again = encode_polished(X, 5, 10, start_H=quick.H, climbed=True, effort=0)
    assert again.loss <= quick.loss * (1 + 1e-9)
    assert again.sweeps <= 2


def test_more_effort_searches_more_and_never_loses_more():
    X = reference_data.pitprops_factor()
    found = [encode_polished(X, 4, 6, effort=effort, search_tol=1e-9) for effort in (0, 0.5, 1.5)]

    assert found[0].sweeps < found[1].sweeps <= found[2].sweeps
    assert found[1].loss <= found[0].loss


def test_rotated_components_of_sparse_factors_are_their_factors():
    rng = np.random.default_rng(0)
    codes = np.linalg.qr(rng.standard_normal((60, 4)))[0] * [4.0, 3.0, 2.5, 2.0]
    X = codes @ np.kron(np.eye(4), np.full((1, 5), 1.0)) @ np.diag(rng.uniform(0.8, 1.2, 20))
    X += 1e-3 * rng.standard_normal((60, 20))
    state = ColumnCycle(reduce_core(X, np.arange(20)), (5,) * 4, rng).rotated()

    found = sorted(sorted({j // 5 for j in column.selected}) for column in state.made())
    assert found == [[0], [1], [2], [3]]


@pytest.mark.parametrize(("shape", "seed"), [((60, 20, 3, 4), 10), ((40, 8, 3, 4), 15), ((60, 20, 4, 6), 14)])
def test_supports_of_one_span_are_told_apart_by_index_and_not_by_the_last_bit(shape, seed):
    """Beside codes of the same columns other supports allow the very same code; a shared start has such codes alone."""
    m, d, k, r = shape
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((m, 4)) @ rng.standard_normal((4, d)) + rng.standard_normal((m, d))

    def found(core):
        start = encode_batch(core, k, r, selection="greedy", rng=np.random.default_rng(0))
        return encode_polished(core, k, r, start_H=start.H, effort=0)

    first = found(X)
    for number in range(8):
        noisy = found(perturbed(X, number))
        assert [s.tolist() for s in noisy.supports] == [s.tolist() for s in first.supports]
        assert noisy.loss == pytest.approx(first.loss, rel=1e-10)
