"""The path: every (k, r) from one core, losses that agree with single fits and never rise."""

import numpy as np
import pytest

from spae_dask import SparseEncoder
from spae_dask.errors import InvalidInput
from spae_dask.strategies.path import SparsityPath
from tests.matrices import factor_model


@pytest.fixture(scope="module")
def fitted():
    X = factor_model(np.random.default_rng(0), 300, 16, 4, 0.4)
    return SparseEncoder(2, n_nonzero=4, method="batch").fit(X)


def test_points_cover_every_pair_and_agree_with_single_fits(fitted):
    X = factor_model(np.random.default_rng(0), 300, 16, 4, 0.4)
    path = fitted.sparsity_path([3, 1], [6, 3])
    assert [(p.n_components, p.n_nonzero) for p in path.points] == [(1, 3), (1, 6), (3, 3), (3, 6)]
    for point in path.points:
        alone = SparseEncoder(point.n_components, n_nonzero=point.n_nonzero, method="batch").fit(X).certificate_
        assert point.ratio == pytest.approx(alone.ratio, rel=1e-12)
        assert point.combined_nonzero == alone.combined_nonzero
        assert point.symmetric_ratio == pytest.approx(alone.symmetric_ratio, rel=1e-12)


def test_polished_losses_never_rise_with_k_or_r(fitted):
    path = fitted.set_params(method="polished", effort=0).sparsity_path([1, 2, 3], [2, 3, 5])
    loss = {(p.n_components, p.n_nonzero): p.loss for p in path.points}
    for (k, r), value in loss.items():
        for other in ((k + 1, r), (k, {2: 3, 3: 5}.get(r))):
            if other in loss:
                assert loss[other] <= value * (1 + 1e-12)
    fitted.set_params(method="batch", effort=1)


def test_records_make_a_table(fitted):
    path = fitted.sparsity_path([2], [3, 4])
    assert [record["n_nonzero"] for record in path.records()] == [3, 4]
    assert str(path).count("\n") == 2


def test_an_encoder_without_a_core_says_so(fitted):
    import pickle

    again = pickle.loads(pickle.dumps(fitted))
    with pytest.raises(InvalidInput, match="no core"):
        again.sparsity_path([1], [2])


def test_sizes_out_of_range_are_refused(fitted):
    with pytest.raises(InvalidInput, match="from 1 to 16"):
        fitted.sparsity_path([2], [17])


def test_a_path_of_orthonormal_encoders_is_that_of_the_encoders_they_span():
    X = factor_model(np.random.default_rng(0), 300, 16, 4, 0.4)
    plain, orthonormal = (SparseEncoder(3, n_nonzero=4, effort=0, orthonormal=each).fit(X) for each in (False, True))
    sizes = [2, 3, 4, 6]
    assert orthonormal.sparsity_path([2, 3], sizes) == plain.sparsity_path([2, 3], sizes)
    assert orthonormal.sparsity_path([3], [4]).points[0].loss == pytest.approx(orthonormal.certificate_.loss, rel=1e-9)


def test_a_path_comes_back_from_its_dictionary(fitted):
    path = fitted.sparsity_path([2], [1, 3])
    assert SparsityPath.from_dict(path.as_dict()) == path
    texts = {"points": [{key: str(value) for key, value in each.items()} for each in path.records()], "method": "x"}
    texts["points"][0]["bound"] = ""
    again = SparsityPath.from_dict(texts)
    assert again.points[1] == path.points[1]
    assert again.points[0].bound is None


@pytest.mark.parametrize("damage", [{"loss": "much"}, {"n_nonzero": None}, {"n_nonzero": [1]}])
def test_a_dictionary_that_is_no_path_is_refused(fitted, damage):
    (record,) = fitted.sparsity_path([2], [3]).records()
    with pytest.raises((TypeError, ValueError)):
        SparsityPath.from_dict({"points": [record | damage], "method": "x"})
