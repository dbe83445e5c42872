import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spae_dask.datasets.lower_bound import lower_bound_matrix
from spae_dask.errors import InvalidInput
from spae_dask.maths.encoders.iterative import (
    encode_iterative,
    guaranteed_columns,
    iterative_sizes,
    prefix_bounds,
)
from spae_dask.maths.selection import SELECTIONS
from tests import oracles, reference_data
from tests.matrices import awkward, factor_model, heavy_tailed, low_rank, power_law


def matrices():
    rng = np.random.default_rng(0)
    return {
        "pitprops": reference_data.pitprops(),
        "eisen": reference_data.eisen(),
        "power law": power_law(rng, 50, 30, 0.3),
        "factors": factor_model(rng, 60, 40, 4, 0.5),
        "heavy tails": heavy_tailed(rng, 40, 25),
        "blocks": lower_bound_matrix(3, 12, 0.1),
        "flat": rng.standard_normal((30, 40)),
    }


def test_the_papers_iterative_encoder_of_pitprops():
    P = reference_data.pitprops()
    printed = reference_data.pitprops_paper_encoder("iterative")
    supports = iter([np.flatnonzero(h) for h in printed.T])

    found = encode_iterative(P, 2, 5, selection=lambda core, k, r, rng: next(supports))

    # printed up to sign, to one decimal, nothing said about how .85 was rounded
    signs = np.sign(np.sum(found.H * printed, axis=0))
    np.testing.assert_allclose(found.H * signs, printed, atol=0.0501)
    assert found.loss / oracles.pca_loss(P, 2) == pytest.approx(1.0360, abs=5e-5)


@pytest.mark.parametrize("name", sorted(matrices()))
@pytest.mark.parametrize("selection", [None, "greedy", "adaptive", "dual-set", "leverage"])
def test_every_prefix_has_the_loss_of_a_dense_projection(name, selection):
    X = matrices()[name]

    found = encode_iterative(X, 5, 4, selection=selection, rng=np.random.default_rng(1))

    assert found.H.shape == (X.shape[1], 5)
    for j in range(5):
        assert found.losses[j] == pytest.approx(oracles.encoder_loss(X, found.H[:, : j + 1]), rel=1e-9)
    assert found.loss == found.losses[-1]
    assert np.sum((X - X @ found.H @ found.G) ** 2) == pytest.approx(found.loss, rel=1e-9)


@pytest.mark.parametrize("name", sorted(matrices()))
def test_each_column_is_the_best_on_the_columns_selected_from_the_residual(name):
    X = matrices()[name]

    found = encode_iterative(X, 4, [3, 1, 5, 4])

    before = np.zeros((X.shape[0], 0))
    for j, support in enumerate(found.supports):
        D = X - oracles.projected(X, before) if j else X
        assert support.size == (3, 1, 5, 4)[j]
        assert set(np.flatnonzero(found.H[:, j])) <= set(support.tolist())
        assert found.losses[j] == pytest.approx(oracles.columns_loss(D, support, 1), rel=1e-8)
        assert found.pca_steps[j] == pytest.approx(oracles.pca_loss(D, 1), rel=1e-8)
        before = X @ found.H[:, : j + 1]
    np.testing.assert_allclose(np.linalg.norm(found.H, axis=0), 1.0, rtol=1e-12)


def bound_of_the_theorem(sigma, k, eps):
    """``(e k)^eps ||X - X_k||^2 + eps k^(1 + eps) ||X_k - X_1||^2``."""
    return (math.e * k) ** eps * np.sum(sigma[k:] ** 2) + eps * k ** (1.0 + eps) * np.sum(sigma[1:k] ** 2)


@pytest.mark.parametrize("name", sorted(matrices()))
@pytest.mark.parametrize("eps", [0.3, 1.0, 3.0])
@pytest.mark.parametrize("sharp", [True, False])
def test_the_theorem_holds_at_every_prefix(name, eps, sharp):
    X = matrices()[name]
    sigma = np.linalg.svd(X, compute_uv=False)

    found = encode_iterative(X, 4, iterative_sizes(4, eps, sharp=sharp))

    assert np.all(found.losses <= found.allowed(eps) * (1.0 + 1e-12))
    for j in range(1, 5):
        assert found.losses[j - 1] <= bound_of_the_theorem(sigma, j, eps) * (1.0 + 1e-12)


@pytest.mark.parametrize("name", sorted(matrices()))
@pytest.mark.parametrize(("eps", "sharp"), [(0.3, True), (1.0, False)])
def test_prefix_bounds_hold_and_are_within_the_papers_closed_form(name, eps, sharp):
    X = matrices()[name]
    sigma = np.linalg.svd(X, compute_uv=False)
    found = encode_iterative(X, 4, iterative_sizes(4, eps, sharp=sharp))

    bounds = prefix_bounds(sigma, [1 + eps / j for j in range(1, 5)])

    assert len(bounds) == 4
    assert np.all(found.losses <= np.array(bounds) * (1 + 1e-12))
    for j, bound in enumerate(bounds, start=1):
        assert bound <= bound_of_the_theorem(sigma, j, eps) * (1 + 1e-12)
        assert bound >= np.sum(sigma[j:] ** 2) * (1 - 1e-12)


def test_prefix_bounds_of_a_matrix_worked_out_by_hand():
    # squares 9, 4, 1: 1.5 (14 - 9) = 7.5, then 1.25 (7.5 - 4) = 4.375
    assert prefix_bounds(np.array([3.0, 2.0, 1.0]), [1.5, 1.25]) == pytest.approx([7.5, 4.375])
    # no prefix loses more than the one before it, and the first no more than everything
    assert prefix_bounds(np.array([3.0, 2.0, 1.0]), [2.0, 9.0]) == pytest.approx([10.0, 10.0])
    assert prefix_bounds(np.array([1.0, 1.0, 1.0]), [5.0]) == pytest.approx([3.0])


def test_the_sizes_of_the_theorem():
    assert iterative_sizes(3, 0.5, sharp=False) == (15, 25, 35)
    assert iterative_sizes(3, 0.5, sharp=True) == (5, 9, 13)
    assert iterative_sizes(2, 3.0, sharp=True) == (2, 3)


@given(seed=st.integers(0, 10_000), r=st.integers(1, 8))
@settings(deadline=None, max_examples=25)
def test_the_default_selection_keeps_the_factor_of_the_proof(seed, r):
    X = heavy_tailed(np.random.default_rng(seed), 12, 9)

    S = guaranteed_columns(X, 1, r, np.random.default_rng(0))

    assert S.size == r
    factor = 2.0 if r == 1 else min(2.0, 1.0 + 2.0 / (r - 1))
    assert oracles.columns_loss(X, S, 1) <= factor * oracles.pca_loss(X, 1) * (1.0 + 1e-9)


@pytest.mark.parametrize("selection", [None, *sorted(SELECTIONS)])
def test_two_runs_agree_to_the_last_bit(selection):
    X = reference_data.eisen()

    one, two = (encode_iterative(X, 3, 4, selection=selection) for _ in range(2))

    assert one.H.tobytes() == two.H.tobytes()
    assert one.losses.tobytes() == two.losses.tobytes()


def test_columns_beyond_the_rank_are_left_out():
    X = low_rank(np.random.default_rng(0), 20, 12, 3)

    found = encode_iterative(X, 6, 2)

    assert found.H.shape == (12, 3)
    assert found.losses[-1] <= 1e-24 * np.sum(X**2)
    assert len(found.supports) == 3


@pytest.mark.parametrize("name", sorted(awkward(np.random.default_rng(0))))
def test_awkward_matrices(name):
    X = awkward(np.random.default_rng(0))[name]
    unit = X / (np.max(np.abs(X)) or 1.0)
    total = float(np.sum(unit**2))
    for k in (1, 2, 5):
        for r in (1, 2, 100):
            found = encode_iterative(X, k, r)

            assert np.all(np.isfinite(found.H))
            assert np.all(np.isfinite(found.G))
            assert np.all(np.isfinite(found.losses))
            assert np.all(np.count_nonzero(found.H, axis=0) <= r)
            least = oracles.pca_loss(unit, k)
            loss = oracles.encoder_loss(unit, found.H) if found.H.shape[1] else total
            assert loss >= least - 1e-13 * total
            if r == 100 or found.H.shape[1] < k:
                assert loss == pytest.approx(least, rel=1e-9, abs=1e-13 * total)


def test_a_zero_matrix_loses_nothing():
    found = encode_iterative(np.zeros((4, 3)), 2, 1)

    assert found.H.shape == (3, 0)
    assert found.loss == 0.0


@pytest.mark.parametrize(("k", "eps"), [(0, 0.1), (2, 0.0), (2, -1.0), (2, math.nan)])
def test_sizes_that_make_no_sense_are_refused(k, eps):
    with pytest.raises(InvalidInput, match="k >= 1 and eps > 0"):
        iterative_sizes(k, eps, sharp=True)


def test_unknown_selections_are_refused():
    with pytest.raises(InvalidInput, match="'best' is not known"):
        encode_iterative(np.eye(3), 1, 1, selection="best")
