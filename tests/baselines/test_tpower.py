from typing import get_args

import numpy as np
import pytest
import scipy.linalg
from hypothesis import given, settings
from hypothesis import strategies as st

from spae_dask.baselines.deflation import Deflation
from spae_dask.baselines.tpower import tpower, truncate
from spae_dask.errors import InvalidInput, NonFiniteInput
from tests.baselines.oracles import information_loss, obeys_the_rules, supports, symmetric_variance
from tests.matrices import awkward, factor_model, with_spectrum
from tests.reference_data import (
    colon,
    eisen,
    lymphoma,
    pitprops,
    pitprops_columns,
    pitprops_factor,
    pitprops_paper_encoder,
    pitprops_sparse_eigenvalues,
    variance_paths,
)

DEFLATIONS = get_args(Deflation)
ON_CORES = [method for method in DEFLATIONS if method != "hotelling"]


def test_pitprops_gives_the_encoder_printed_in_the_paper():
    H = tpower(pitprops(), 5, 2, gram=True)
    assert supports(H) == [[0, 1, 6, 8, 9], [2, 3, 5, 9, 11]]
    np.testing.assert_allclose(H, pitprops_paper_encoder("tpower"), atol=0.051)
    assert information_loss(pitprops(), H) == pytest.approx(1.127889, abs=6e-7)
    assert symmetric_variance(pitprops(), H) == pytest.approx(0.811995, abs=6e-7)


@pytest.mark.parametrize("name", ["colon", "lymphoma", "eisen"])
def test_the_variance_paths_stored_by_the_authors_are_reproduced(name):
    A = {"colon": colon, "lymphoma": lymphoma, "eisen": eisen}[name]()
    path = variance_paths()[name]
    for r in list(path)[:: len(path) // 12]:
        x = np.zeros(len(A))
        x[np.argsort(-np.diag(A), kind="stable")[: r if name == "lymphoma" else 1]] = 1.0
        x /= np.linalg.norm(x)
        # their objective is the length of the truncated step; they stop when it changes by less than 1e-4
        lengths = [0.0]
        for _ in range(500):
            lengths.append(np.linalg.norm(np.sort(np.abs(A @ x))[-r:]))
            if lengths[-1] - lengths[-2] < 1e-4:
                break
            x = tpower(A, r, gram=True, start=x, max_iter=1, tol=0)[:, 0]
        assert lengths[-1] / np.trace(A) == pytest.approx(path[r][0], abs=2e-12)

        # and a run to the end, which is one call, is as good
        start = "spread" if name == "lymphoma" else "largest-variance"
        end = tpower(A, r, gram=True, start=start, tol=1e-10, max_iter=500)[:, 0]
        assert end @ A @ end / np.trace(A) >= path[r][0] - 1e-11


def test_the_six_pitprops_components_stored_by_the_authors_are_reproduced():
    H = tpower(pitprops(), [7, 2, 1, 1, 1, 1], 6, gram=True)
    stored = {
        "topdiam": 0.4235380554,
        "length": 0.4301581234,
        "ringtop": 0.2680526818,
        "ringbut": 0.4032529473,
        "bowmax": 0.3133742697,
        "bowdist": 0.3787009632,
        "whorls": 0.3993700945,
    }
    assert supports(H)[0] == pitprops_columns(" ".join(stored))
    np.testing.assert_allclose(H[supports(H)[0], 0], list(stored.values()), atol=2e-4)
    assert supports(H)[1:] == [
        pitprops_columns(names) for names in ("moist testsg", "ovensg", "clear", "knots", "diaknot")
    ]


def test_pitprops_never_passes_the_exact_sparse_eigenvalue_and_meets_it_at_five_and_more_nonzeros():
    for r, (exact, support) in pitprops_sparse_eigenvalues().items():
        H = tpower(pitprops(), r, gram=True, tol=1e-14, max_iter=2000)
        value = float(H[:, 0] @ pitprops() @ H[:, 0])
        assert value <= exact + 1e-9
        if r >= 5:
            assert value == pytest.approx(exact, abs=1e-9)
            assert supports(H) == [sorted(pitprops_columns(support))]


@given(seed=st.integers(0, 2**32), r=st.integers(1, 9), method=st.sampled_from(DEFLATIONS))
@settings(max_examples=40, deadline=None)
def test_one_more_step_never_lowers_the_variance(seed, r, method):
    L = factor_model(np.random.default_rng(seed), 15, 9, 3, 0.5)
    A = L.T @ L
    # in units of the trace, after a first component that is no eigenvector
    first = tpower(A, min(r, 3), 1, gram=True)
    B = A - np.outer(A @ first, first) - np.outer(first, A @ first) + (first.T @ A @ first) * np.outer(first, first)
    values = []
    for steps in range(1, 8):
        x = tpower(B, r, gram=True, max_iter=steps, tol=0, deflation=method)[:, 0]
        values.append(x @ B @ x / np.trace(B))
    assert (np.diff(values) >= -1e-12).all()


@given(seed=st.integers(0, 2**32), r=st.integers(1, 6))
@settings(max_examples=40, deadline=None)
def test_an_indefinite_matrix_is_climbed_too(seed, r):
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((6, 6))
    A = A + A.T - 3.0 * np.eye(6)
    A[0, 0] = 1.0  # one place to start from
    values = [1.0]
    for steps in range(1, 8):
        x = tpower(A, r, gram=True, max_iter=steps, tol=0)[:, 0]
        values.append(x @ A @ x)
    assert (np.diff(values) >= -1e-10).all()
    assert values[-1] <= np.linalg.eigvalsh(A)[-1] + 1e-10


@given(seed=st.integers(0, 2**32), r=st.integers(1, 8))
@settings(max_examples=30, deadline=None)
def test_a_component_is_an_eigenvector_on_its_own_support(seed, r):
    L = factor_model(np.random.default_rng(seed), 20, 8, 2, 0.3)
    x = tpower(L, r, tol=0, max_iter=5000)[:, 0]
    S = np.flatnonzero(x)
    A = L[:, S].T @ L[:, S]
    values = np.linalg.eigvalsh(A)
    np.testing.assert_allclose(A @ x[S], (x[S] @ A @ x[S]) * x[S], atol=1e-5 * values[-1])
    assert x[S] @ A @ x[S] == pytest.approx(values[-1], rel=1e-6)


@pytest.mark.parametrize("method", DEFLATIONS)
def test_with_all_columns_allowed_it_is_pca(method):
    L = with_spectrum(np.random.default_rng(1), 12, 6, [8.0, 4.0, 2.0, 1.0])
    V = np.linalg.svd(L)[2][:4].T
    H = tpower(L.T @ L, 6, 4, gram=True, deflation=method, tol=0, max_iter=2000)
    if method == "generalised":  # which may add any part of the earlier ones
        H = np.linalg.qr(H)[0]
    np.testing.assert_allclose(np.abs(np.sum(H * V, axis=0)), 1.0, atol=1e-10)


def test_components_beyond_the_rank_are_zero():
    rng = np.random.default_rng(2)
    L = with_spectrum(rng, 30, 10, [8.0, 4.0, 2.0, 1.0])
    for core, gram in ((L, False), (L.T @ L, True)):
        for method in ON_CORES:
            H = tpower(core, 10, 6, gram=gram, deflation=method, tol=0, max_iter=3000)
            assert H.any(axis=0).tolist() == [True] * 4 + [False] * 2


@pytest.mark.parametrize("method", ON_CORES)
@pytest.mark.parametrize("start", ["largest-variance", "spread"])
def test_a_core_and_its_gram_matrix_give_the_same(method, start):
    H = tpower(pitprops(), 4, 4, gram=True, deflation=method, start=start, tol=1e-15, max_iter=5000)
    for core in (pitprops_factor(), np.vstack([np.zeros((3, 13)), pitprops_factor()])):
        again = tpower(core, 4, 4, deflation=method, start=start, tol=1e-15, max_iter=5000)
        np.testing.assert_allclose(again, H, atol=1e-6)


def test_generalised_components_maximise_the_variance_along_new_directions_on_their_support():
    A = pitprops()
    H = tpower(A, 5, 4, gram=True, deflation="generalised", tol=1e-15, max_iter=5000)
    for j in range(4):
        Q = np.linalg.qr(H[:, :j])[0]
        B = np.eye(13) - Q @ Q.T
        S = np.flatnonzero(H[:, j])
        best = scipy.linalg.eigh((B @ A @ B)[np.ix_(S, S)], B[np.ix_(S, S)], eigvals_only=True)[-1]
        x = H[:, j]
        assert (x @ B @ A @ B @ x) / (x @ B @ x) == pytest.approx(best, rel=1e-8)
    plain = tpower(A, 5, 4, gram=True, deflation="orthogonalised")
    assert supports(plain) != supports(H)


def test_generalised_components_do_not_gain_by_repeating_earlier_ones():
    # e_0 is taken; adding it to e_1 leaves the quotient as it is, so no weight there can hide e_1's variance
    H = tpower(np.diag([3.0, 2.0, 1.0]), 1, 3, gram=True, deflation="generalised")
    np.testing.assert_array_equal(H, np.eye(3))


def test_nothing_but_the_gram_matrix_counts():
    rng = np.random.default_rng(3)
    L = factor_model(rng, 25, 12, 3, 0.3)
    turned = np.linalg.qr(rng.standard_normal((25, 25)))[0] @ L
    np.testing.assert_allclose(tpower(turned, 4, 3), tpower(L, 4, 3), atol=1e-10)


@pytest.mark.parametrize("power", [-1000, -300, 300, 1000])
def test_units_do_not_matter_however_large_or_small(power):
    L = factor_model(np.random.default_rng(4), 25, 12, 3, 0.3)
    np.testing.assert_array_equal(tpower(np.ldexp(L, power), 4, 3), tpower(L, 4, 3))
    A = L.T @ L
    np.testing.assert_array_equal(tpower(np.ldexp(A, power), 4, 3, gram=True), tpower(A, 4, 3, gram=True))


@pytest.mark.parametrize("warm_path", [False, True])
@pytest.mark.parametrize("start", ["largest-variance", "spread"])
@pytest.mark.parametrize("method", ON_CORES)
def test_awkward_matrices_give_finite_unit_or_zero_columns(method, start, warm_path):
    for name, core in awkward(np.random.default_rng(5)).items():
        for r in (1, 3, 50):
            H = tpower(core, r, 4, deflation=method, start=start, warm_path=warm_path)
            assert obeys_the_rules(H, r), name
            assert H[:, 0].any() == core.any(), name


def test_hotelling_survives_an_awkward_matrix():
    for name, core in awkward(np.random.default_rng(6)).items():
        if np.abs(core).max() <= 10:
            assert obeys_the_rules(tpower(core.T @ core, 2, 5, gram=True, deflation="hotelling"), 2), name


def test_the_larger_of_two_unlike_columns_is_found_across_two_hundred_orders_of_magnitude():
    H = tpower(np.diag([1e-100, 1.0, 1e100]), 1, 2)
    assert supports(H) == [[2], [1]]


def test_the_warm_path_escapes_a_poor_single_column_start():
    # one loud column alone against a quiet crowd that shares a factor
    A = scipy.linalg.block_diag(np.array([[2.0]]), np.ones((8, 8)))
    cold = tpower(A, 4, gram=True)[:, 0]
    warm = tpower(A, 4, gram=True, warm_path=True, start="spread")[:, 0]
    assert cold @ A @ cold == pytest.approx(2.0)
    assert warm @ A @ warm == pytest.approx(4.0)


def test_given_starts_are_used_and_a_start_without_variance_is_replaced():
    A = np.diag([1.0, 5.0, 3.0])
    assert supports(tpower(A, 1, gram=True, start=[0.1, 0.2, 9.0])) == [[2]]
    assert supports(tpower(A, 1, 2, gram=True, start=[[1, 0], [0, 0], [0, 1]])) == [[0], [2]]
    null = np.array([[1.0, -1.0, 0.0], [0.0, 0.0, 0.5]])  # the core
    assert supports(tpower(null, 2, start=[1.0, 1.0, 0.0])) == [[0, 1]]
    assert supports(tpower(null, 2, start="spread")) == [[0, 1]]


def test_ties_go_to_the_lowest_index():
    assert supports(tpower(np.eye(4), 1, 4, gram=True)) == [[0], [1], [2], [3]]
    np.testing.assert_array_equal(truncate(np.array([1.0, -2.0, 2.0, 2.0]), 2), np.array([0, -1, 1, 0]) / np.sqrt(2))
    np.testing.assert_array_equal(truncate(np.array([1.0, 1.0, 1.0]), 2), np.array([1, 1, 0]) / np.sqrt(2))
    assert supports(tpower(np.ones((2, 5)), 3)) == [[0, 1, 2]]


@given(st.lists(st.integers(-4, 4), min_size=1, max_size=12), st.integers(1, 14))
@settings(deadline=None)
def test_truncation_keeps_what_a_stable_sort_would(entries, r):
    y = np.array(entries, dtype=float)
    kept = np.zeros_like(y)
    order = np.argsort(-np.abs(y), kind="stable")[:r]
    kept[order] = y[order]
    length = np.linalg.norm(kept)
    np.testing.assert_allclose(truncate(y, r), kept / length if length else kept, atol=1e-15)


def test_truncation_neither_over_nor_underflows():
    for scale in (1e-300, 1e300):
        np.testing.assert_allclose(truncate(scale * np.array([3.0, 0.1, 4.0]), 2), [0.6, 0.0, 0.8])


def test_the_input_is_not_written_to():
    L = factor_model(np.random.default_rng(7), 10, 6, 2, 0.3)
    L.flags.writeable = False
    tpower(L, 2, 3)
    tpower(pitprops(), 2, 3, gram=True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_nonzero": 0}, "n_nonzero"),
        ({"n_nonzero": 1.5}, "whole"),
        ({"n_nonzero": [1, 2, 3]}, "each of the 2"),
        ({"n_components": 0}, "n_components"),
        ({"deflation": "hoteling"}, "Choose one of"),
        ({"deflation": "hotelling"}, "gram=True"),
        ({"start": "random"}, "largest-variance"),
        ({"start": np.ones((5, 2))}, "one column a component"),
        ({"start": np.full((6, 2), np.nan)}, "NaN"),
        ({"max_iter": 0}, "max_iter"),
        ({"tol": -1.0}, "tol"),
        ({"gram": True}, "square"),
        ({"core": np.arange(36.0).reshape(6, 6), "gram": True}, "not symmetric"),
        ({"core": np.zeros(6)}, "matrix"),
        ({"core": np.zeros((6, 0))}, "at least one column"),
    ],
)
def test_a_bad_argument_is_named(arguments, message):
    good = {"core": np.ones((4, 6)), "n_nonzero": 2, "n_components": 2}
    with pytest.raises(InvalidInput, match=message):
        tpower(**{**good, **arguments})


def test_nan_and_infinity_are_refused():
    for value in (np.nan, np.inf):
        with pytest.raises(NonFiniteInput, match="NaN or infinite"):
            tpower([[1.0, value]], 1)
