"""What holds for every selection."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spae_dask.errors import InvalidInput, NonFiniteInput
from spae_dask.maths.linalg.loss import columns_loss
from spae_dask.maths.selection import SELECTIONS, selection_named
from tests import oracles
from tests.matrices import awkward, factor_model, heavy_tailed, orthonormal, power_law
from tests.reference_data import eisen

every_selection = pytest.mark.parametrize("name", sorted(SELECTIONS))


@every_selection
def test_awkward_matrices_give_exactly_r_distinct_nonzero_columns(name):
    rng = np.random.default_rng(0)
    for label, X in awkward(rng).items():
        nonzero = np.flatnonzero(np.any(X != 0.0, axis=0))
        for k in (1, 2, 8):
            for r in (1, 2, 3, 5, 20):
                selected = SELECTIONS[name](X, k, r, rng)
                assert selected.dtype == np.intp
                assert len(selected) == len(set(selected.tolist())) == min(r, nonzero.size), (label, k, r)
                assert set(selected.tolist()) <= set(nonzero.tolist()), (label, k, r)


@every_selection
def test_ones_give_three_columns_that_lose_nothing(name):
    X = np.ones((10, 3))

    selected = SELECTIONS[name](X, 2, 3, np.random.default_rng(0))

    assert sorted(selected) == [0, 1, 2]
    assert columns_loss(X, selected, 2).loss < 1e-28


@every_selection
@pytest.mark.parametrize("factor", [2.0**-300, 2.0**300])
def test_the_unit_of_measurement_of_the_whole_does_not_matter(name, factor):
    X = heavy_tailed(np.random.default_rng(1), 20, 12)

    plain = SELECTIONS[name](X, 3, 7, np.random.default_rng(0))
    scaled = SELECTIONS[name](X * factor, 3, 7, np.random.default_rng(0))

    np.testing.assert_array_equal(scaled, plain)


@every_selection
@settings(max_examples=15)
@given(seed=st.integers(0, 10**6))
def test_only_the_gram_matrix_matters(name, seed):
    rng = np.random.default_rng(seed)
    X = factor_model(rng, 12, 9, 2, 0.3)
    moved = np.vstack([orthonormal(rng, 12, 12) @ X, np.zeros((3, 9))])

    np.testing.assert_array_equal(
        SELECTIONS[name](moved, 2, 4, np.random.default_rng(0)), SELECTIONS[name](X, 2, 4, np.random.default_rng(0))
    )


@every_selection
def test_columns_that_span_a_low_rank_matrix_lose_nothing(name):
    rng = np.random.default_rng(2)
    X = rng.standard_normal((30, 3)) @ rng.standard_normal((3, 12))

    selected = SELECTIONS[name](X, 5, 3, rng)

    assert columns_loss(X, selected, 5).loss < 1e-24 * np.sum(X**2)


@every_selection
def test_twins_are_told_apart_by_index(name):
    rng = np.random.default_rng(3)
    X = power_law(rng, 20, 5, decay=0.3)

    selected = SELECTIONS[name](np.hstack([X, X]), 1, 1, rng)

    assert selected[0] < 5


@every_selection
def test_no_selection_beats_pca_or_loses_more_than_its_first_columns(name):
    X = eisen()
    rng = np.random.default_rng(4)

    selected = SELECTIONS[name](X, 3, 12, rng)

    losses = [columns_loss(X, selected[:p], 3).loss for p in range(1, 13)]
    assert np.all(np.diff(losses) <= 1e-12 * losses[0])
    assert losses[-1] >= oracles.pca_loss(X, 3)
    assert losses[-1] == pytest.approx(oracles.columns_loss(X, selected, 3), rel=1e-9)


@every_selection
def test_nonsense_is_refused(name):
    rng = np.random.default_rng(5)
    with pytest.raises(InvalidInput, match="k = 0"):
        SELECTIONS[name](np.eye(3), 0, 2, rng)
    with pytest.raises(InvalidInput, match="r = 0"):
        SELECTIONS[name](np.eye(3), 1, 0, rng)
    with pytest.raises(NonFiniteInput):
        SELECTIONS[name](np.array([[1.0, np.nan]]), 1, 1, rng)


def test_unknown_names_are_answered_with_the_known_ones():
    with pytest.raises(InvalidInput, match="'dualset' is not known; use one of 'dual-set'"):
        selection_named("dualset")
