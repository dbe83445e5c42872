import itertools

import numpy as np
import pytest

from spae_dask.encoding.batch import encode_batch
from spae_dask.encoding.iterative import encode_iterative
from spae_dask.encoding.nested import NestedLosses, smallest_prefix
from spae_dask.encoding.path import smallest_r, sparsity_path
from spae_dask.encoding.polished import encode_polished
from spae_dask.errors import InvalidInput
from spae_dask.selection.targeted_greedy import targeted_greedy
from tests import oracles, reference_data
from tests.matrices import awkward, factor_model, low_rank, power_law


def polish(core, k, r, start_H, /):
    return encode_polished(core, k, r, start_H=start_H, effort=0.0)


def batch(core, k, r, start_H, /):
    return encode_batch(core, k, r, selection="greedy", rng=np.random.default_rng(0))


def iterate(core, k, r, start_H, /):
    return encode_iterative(core, k, r)


def greedy_losses(X, columns, k):
    return [oracles.columns_loss(X, columns[:p], k) for p in range(1, len(columns) + 1)]


@pytest.mark.parametrize("encode", [polish, batch, iterate])
@pytest.mark.parametrize("eps", [0.01, 0.1, 0.5])
def test_the_smallest_r_meets_the_target_and_one_less_was_tried_and_did_not(encode, eps):
    X = power_law(np.random.default_rng(0), 60, 40, 0.4)

    found = smallest_r(X, 3, eps, encode)

    assert found.reached
    assert found.ratio == pytest.approx(oracles.encoder_loss(X, found.encoder.H) / oracles.pca_loss(X, 3), rel=1e-9)
    assert found.ratio <= 1.0 + eps
    assert np.max(np.count_nonzero(found.encoder.H, axis=0)) <= found.r
    assert found.tried[found.r] == found.ratio
    assert found.r == 1 or found.tried[found.r - 1] > 1.0 + eps


def test_sizes_are_tried_by_doubling_then_halving_and_start_from_the_next_smaller_encoder():
    X = power_law(np.random.default_rng(0), 30, 20)
    starts = {}

    class Fake:
        def __init__(self, r):
            self.H = np.full((20, 1), float(r))
            self.loss = (1.0 if r >= 11 else 2.0) * oracles.pca_loss(X, 1)

    def encode(core, k, r, start_H, /):
        starts[r] = None if start_H is None else int(start_H[0, 0])
        return Fake(r)

    found = smallest_r(X, 1, 0.5, encode)

    assert found.r == 11
    assert starts == {1: None, 2: 1, 4: 2, 8: 4, 16: 8, 12: 8, 10: 8, 11: 10}


def test_no_losses_of_a_polished_path_rise():
    X = reference_data.eisen()

    tried = smallest_r(X, 2, 0.001, polish).tried

    assert np.all(np.diff([tried[r] for r in sorted(tried)]) <= 1e-12)


def test_a_target_nobody_meets_is_said_to_be_missed():
    X = power_law(np.random.default_rng(0), 20, 6)
    stubborn = encode_polished(X, 2, 1)

    found = smallest_r(X, 2, 1e-6, lambda core, k, r, start_H: stubborn)

    assert not found.reached
    assert found.r == 6


@pytest.mark.parametrize("name", sorted(awkward(np.random.default_rng(0))))
@pytest.mark.parametrize("encode", [polish, batch])
def test_awkward_matrices_have_a_smallest_r(name, encode):
    X = awkward(np.random.default_rng(0))[name]

    found = smallest_r(X, 2, 0.05, encode)

    assert found.reached
    assert 1.0 <= found.ratio <= 1.05


def test_with_no_slack_a_rank_two_matrix_needs_no_more_than_two():
    X = low_rank(np.random.default_rng(0), 10, 8, 2)

    assert smallest_r(X, 2, 0.0, polish).r == 1
    assert smallest_r(X, 2, 0.0, batch).r == 2


def test_a_negative_eps_is_refused():
    with pytest.raises(InvalidInput, match=r"eps = -0\.1"):
        smallest_r(np.eye(3), 1, -0.1, polish)


@pytest.mark.parametrize("k", [1, 2, 4])
def test_nested_losses_are_those_of_the_best_encoders_on_the_prefixes(k):
    X = factor_model(np.random.default_rng(0), 40, 20, 5, 0.5)
    columns = targeted_greedy(X, k, 20)
    nested = NestedLosses(X, columns)

    losses = [nested.loss(k, p) for p in range(1, 21)]

    np.testing.assert_allclose(losses, greedy_losses(X, columns, k), rtol=1e-10)


@pytest.mark.parametrize("scale", [1e-100, 1.0, 1e100])
def test_nested_losses_with_dependent_columns_wide_cores_and_any_scale(scale):
    plain = np.random.default_rng(0).standard_normal((5, 4))
    X = np.column_stack([plain, plain[:, :2], np.zeros(5), plain[:, 2:] - plain[:, :2]])
    columns = np.array([0, 4, 6, 1, 5, 7, 2, 3, 8])
    nested = NestedLosses(X * scale, columns)

    losses = [nested.loss(2, p) / scale**2 for p in range(1, 10)]

    np.testing.assert_allclose(losses, greedy_losses(X, columns, 2), rtol=1e-10)


@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("eps", [0.02, 0.2, 1.0])
def test_the_smallest_prefix_is_found_by_bisection(k, eps):
    X = power_law(np.random.default_rng(1), 50, 30, 0.4)
    columns = targeted_greedy(X, k, 30)

    meets = [loss <= (1.0 + eps) * oracles.pca_loss(X, k) for loss in greedy_losses(X, columns, k)]

    assert smallest_prefix(X, columns, k, eps) == meets.index(True) + 1
    assert smallest_prefix(X, columns[: meets.index(True)], k, eps) is None
    assert smallest_prefix(X, columns[:0], k, eps) is None


def test_a_sparsity_path_reports_what_each_encoder_loses():
    X = reference_data.pitprops()
    made = {}

    def encode(core, k, r, start_H, /):
        made[k, r] = polish(core, k, r, start_H)
        return made[k, r]

    records = sparsity_path(X, [3, 1, 2], [5, 2, 3, 5], encode)

    assert [(record.k, record.r) for record in records] == list(itertools.product([1, 2, 3], [2, 3, 5]))
    for record in records:
        H = made[record.k, record.r].H
        assert record.loss == pytest.approx(oracles.encoder_loss(X, H), rel=1e-10)
        assert record.ratio == pytest.approx(record.loss / oracles.pca_loss(X, record.k), rel=1e-10)
        symmetric = np.sum((X @ H @ np.linalg.pinv(H)) ** 2)
        assert record.symmetric_explained == pytest.approx(symmetric, rel=1e-10)
        assert record.combined_nonzeros == np.count_nonzero(np.any(H != 0, axis=1))


def test_along_a_polished_path_no_loss_rises_with_k_or_r():
    X = reference_data.eisen()

    records = sparsity_path(X, [1, 2, 3], [1, 3, 4, 8], polish)

    losses = np.array([record.loss for record in records]).reshape(3, 4)
    assert np.all(np.diff(losses, axis=0) <= 0.0)
    assert np.all(np.diff(losses, axis=1) <= 0.0)
