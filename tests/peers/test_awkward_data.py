"""Faults that users of other packages reported about their data: large means, constant columns, low ranks, scales."""

import warnings

import dask.array as da
import numpy as np
import pytest
from sklearn.datasets import load_iris

from spae_dask import ColumnSelector
from spae_dask.errors import RankDeficientWarning
from spae_dask.maths.selection import SELECTIONS
from tests.estimators.sources import batch_encoder, spread


@pytest.mark.parametrize("strategy", ["auto", "gram", "tsqr"])
def test_float32_with_a_large_mean_keeps_its_direction(strategy: str) -> None:
    """faiss#773: sums of squares in float32 lost every direction."""
    X = np.array([[10001, 10000], [10000, 10001]], dtype=np.float32)
    encoder = batch_encoder(1, n_nonzero=2, strategy=strategy).fit(X)
    direction = encoder.decoder_[0] / np.linalg.norm(encoder.decoder_[0])
    np.testing.assert_allclose(np.abs(direction @ [1, -1]) / np.sqrt(2), 1, rtol=1e-12)
    assert encoder.certificate_.loss >= 0
    assert encoder.certificate_.total == pytest.approx(1.0)
    np.testing.assert_allclose(encoder.inverse_transform(encoder.transform(X)), X, rtol=1e-7)


@pytest.mark.parametrize("unit", [1.0, 1e-3, 1e6])
def test_components_are_never_all_zero_whatever_the_unit(unit: float) -> None:
    """sklearn#8325, hyperspy#1361: the default penalty set every loading to zero on data of small scale."""
    X = load_iris().data
    found = batch_encoder(2, n_nonzero=2).fit(X * unit)
    assert np.count_nonzero(found.components_, axis=1).tolist() == [2, 2]
    wanted = batch_encoder(2, n_nonzero=2).fit(X)
    assert found.selected_features_.tolist() == wanted.selected_features_.tolist()
    np.testing.assert_allclose(found.components_, wanted.components_, atol=1e-9)


@pytest.mark.parametrize("selection", sorted(SELECTIONS))
@pytest.mark.parametrize("center", [True, False])
def test_selecting_beyond_the_rank_repeats_nothing(selection: str, center: bool) -> None:
    """scikit-matter#60, PR#224: beyond the rank, indices came twice or an error came."""
    X = np.ones((10, 3))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        selector = ColumnSelector(3, n_components=2, selection=selection, center=center).fit(X)
        encoder = batch_encoder(2, n_nonzero=3, selection=selection, center=center).fit(X)
    assert len(set(selector.selected_idx_.tolist())) == selector.selected_idx_.size
    assert {each.category for each in caught} == {RankDeficientWarning}
    assert any(f"have rank {0 if center else 1}" in str(each.message) for each in caught)
    assert encoder.certificate_.loss == pytest.approx(0, abs=1e-12)
    assert encoder.certificate_.ratio == 1.0


@pytest.mark.parametrize("strategy", ["gram", "tsqr"])
@pytest.mark.parametrize("constant", [0.0, 0.1, -7e5])
@pytest.mark.parametrize("n", [20, 5000])
def test_a_constant_column_that_is_scaled_is_named_and_never_selected(strategy: str, constant: float, n: int) -> None:
    """scikit-allel#9, xmca#32, scone#80: it was divided by zero, and then "SVD did not converge"."""
    X = spread(np.random.default_rng(0), n, 4)
    X[:, 2] = constant
    encoder = batch_encoder(2, n_nonzero=4, scale=True, strategy=strategy).fit(da.from_array(X, chunks=(700, 4)))
    assert encoder.constant_features_.tolist() == [2]
    assert encoder.selected_features_.tolist() == [0, 1, 3]
    assert encoder.scale_[2] == 1.0
    assert np.isfinite(encoder.transform(X)).all()
    np.testing.assert_allclose(encoder.inverse_transform(encoder.transform(X))[:, 2], constant, rtol=1e-12)
    selector = ColumnSelector(3, scale=True, strategy=strategy).fit(X)
    assert not selector.get_support()[2]


@pytest.mark.parametrize("strategy", ["gram", "tsqr"])
@pytest.mark.parametrize("kind", ["numpy", "dask"])
def test_fewer_directions_than_components_are_padded_with_zeros_and_said(strategy: str, kind: str) -> None:
    """hail PR#2008: fewer than k nonzero singular values crashed the run."""
    rng = np.random.default_rng(1)
    X = rng.standard_normal((20, 2)) @ rng.standard_normal((2, 6))
    given = da.from_array(X, chunks=(7, 4)) if kind == "dask" else X
    with pytest.warns(RankDeficientWarning, match="only 2 of 4 components"):
        encoder = batch_encoder(4, n_nonzero=5, center=False, strategy=strategy).fit(given)
    assert encoder.components_.shape == encoder.decoder_.shape == (4, 6)
    assert encoder.components_.any(axis=1).tolist() == [True, True, False, False]
    codes = np.asarray(encoder.transform(given))
    assert codes.shape == (20, 4)
    np.testing.assert_allclose(encoder.inverse_transform(codes), X, atol=1e-10)
    assert encoder.certificate_.ratio == 1.0


def test_a_column_of_nothing_but_nan_is_dropped_and_a_single_nan_is_placed() -> None:
    """eofs#122, dask#5368: one masked feature broke the solver."""
    X = spread(np.random.default_rng(2), 30, 6)
    X[:, 4] = np.nan
    encoder = batch_encoder(2, n_nonzero=5, missing="mean").fit(X)
    assert 4 not in encoder.selected_features_
    assert encoder.components_.shape == (2, 6)
    X[:, 4] = 0.0
    X[11, 3] = np.nan
    with pytest.raises(ValueError, match=r"1 NaN entries .*row 11, column 3"):
        batch_encoder(2, n_nonzero=3).fit(X)
