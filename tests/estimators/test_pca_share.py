"""A share of the variance in place of a number of components: the number is that of the data's own SVD."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from sklearn.decomposition import PCA

from spae_dask import SparseEncoder, load_encoder, plan
from spae_dask.errors import InvalidInput
from spae_dask.estimators.saved import save_encoder
from spae_dask.maths.linalg import spectral

Floats = npt.NDArray[np.float64]

QUICK: dict[str, Any] = {"n_nonzero": 2, "method": "iterative"}


@pytest.fixture
def x() -> Floats:
    rng = np.random.default_rng(5)
    made: Floats = rng.normal(size=(120, 9)) * np.arange(1, 10) + 50
    return made


def smallest_k(x: Floats, share: float) -> int:
    """The number by an SVD of the data, counted one by one."""
    squares = np.linalg.svd(x, compute_uv=False) ** 2
    return next(k for k in range(1, squares.size + 1) if squares[:k].sum() > share * squares.sum())


@pytest.mark.parametrize("strategy", ["auto", "gram", "tsqr"])
def test_the_number_is_that_of_an_svd(x: Floats, strategy: str) -> None:
    centered = x - x.mean(axis=0)
    asked = (0.05, 0.3, 0.5, 0.8, 0.95, 0.999, 1 - 1e-16)
    found = [SparseEncoder(share, strategy=strategy, **QUICK).fit(x).n_components_ for share in asked]
    assert found[:-1] == [smallest_k(centered, share) for share in asked[:-1]]
    assert found[:-1] == [PCA(n_components=share, svd_solver="full").fit(x).n_components_ for share in asked[:-1]]
    assert found[-1] == 9
    assert len(set(found)) > 4


@pytest.mark.parametrize(
    ("given", "changed"),
    [
        ({"center": False}, lambda x: x),
        ({"scale": True}, lambda x: (x - x.mean(axis=0)) / x.std(axis=0)),
        ({"n_top_features": 4}, lambda x: (x - x.mean(axis=0))[:, -4:]),
        ({"row_weights": np.arange(1.0, 121)}, lambda x: _weighted(x, np.arange(1.0, 121))),
    ],
    ids=["not centered", "scaled", "most variable columns", "weighted rows"],
)
def test_the_spectrum_is_that_of_the_matrix_that_is_fitted(x: Floats, given: dict[str, Any], changed: Any) -> None:
    for share in (0.4, 0.7, 0.9):
        encoder = SparseEncoder(share, **given, **QUICK).fit(x)
        assert encoder.n_components_ == smallest_k(changed(x), share)


def _weighted(x: Floats, weights: Floats) -> Floats:
    return np.sqrt(weights)[:, None] * (x - np.average(x, axis=0, weights=weights))


def test_the_encoder_is_that_of_the_number(x: Floats) -> None:
    k = smallest_k(x - x.mean(axis=0), 0.8)
    share, number = (SparseEncoder(each, n_nonzero=3, effort=0).fit(x) for each in (0.8, k))
    assert share.n_components_ == k > 2
    assert share.components_.tobytes() == number.components_.tobytes()
    found = share.certificate_
    assert found.as_dict() == number.certificate_.as_dict() | {"pca_share": 0.8}
    assert found.passes == 1
    assert found.pca_explained > 0.8
    assert f"components         {k}, the fewest with which PCA explains more than 0.8 of the total" in str(found)
    assert "the fewest with which PCA" not in str(number.certificate_)


@pytest.mark.parametrize("tail", [0.3, 1e-3, 1e-12])
def test_the_spectrum_that_chooses_the_number_is_computed_once(monkeypatch: pytest.MonkeyPatch, tail: float) -> None:
    rng = np.random.default_rng(3)
    X = rng.normal(size=(90, 4)) @ rng.normal(size=(4, 25)) + tail * rng.normal(size=(90, 25))
    monkeypatch.setattr(spectral, "SMALL", 0)
    reduced, dsytrd = [], spectral.dsytrd
    monkeypatch.setattr(spectral, "dsytrd", lambda *given, **more: reduced.append(1) or dsytrd(*given, **more))
    given = {"n_nonzero": 3, "method": "batch", "strategy": "gram"}
    share = SparseEncoder(0.9, **given).fit(X)
    assert len(reduced) == 1
    number = SparseEncoder(share.n_components_, **given).fit(X)
    assert len(reduced) == 2
    assert share.components_.tobytes() == number.components_.tobytes()
    assert share.singular_values_.tobytes() == number.singular_values_.tobytes()


def test_rules_targets_paths_and_streams_take_the_number(x: Floats, tmp_path: Any) -> None:
    encoder, k = SparseEncoder(0.8, keep=0.9, method="batch").fit(x), smallest_k(x - x.mean(axis=0), 0.8)
    assert encoder.n_components_ == k
    assert encoder.certificate_.target_met
    assert [point.n_components for point in encoder.sparsity_path([2, k], [8]).points] == [2, k]
    save_encoder(encoder, str(tmp_path / "e.zarr"), source=None, overwrite=False)
    loaded = load_encoder(tmp_path / "e.zarr")
    assert loaded.n_components == 0.8
    assert loaded.certificate_.pca_share == 0.8
    assert loaded.components_.shape == (k, 9)
    batches = SparseEncoder(0.8, **QUICK).partial_fit(x[:60]).partial_fit(x[60:])
    assert batches.n_components_ == k
    assert batches.certificate_.pca_share == 0.8
    panel = SparseEncoder(0.3, n_features=3).fit(x)
    assert panel.prove().n_components == panel.n_components_ == smallest_k(x - x.mean(axis=0), 0.3)


def test_more_rows_choose_anew(x: Floats) -> None:
    more = np.random.default_rng(6).normal(size=(200, 9)) * np.array([200] + [1] * 8)
    encoder = SparseEncoder(0.9, keep_state=True, **QUICK).fit(x)
    before = encoder.n_components_
    after = encoder.update(more).n_components_
    every = np.vstack([x, more])
    assert after == smallest_k(every - every.mean(axis=0), 0.9) != before


def test_folds_measure_encoders_of_that_number(x: Floats) -> None:
    share, number = (SparseEncoder(k, folds=3, **QUICK).fit(x) for k in (0.8, smallest_k(x - x.mean(axis=0), 0.8)))
    assert share.certificate_.held_out == number.certificate_.held_out
    assert share.n_components_ == number.n_components_


def test_data_without_variance_have_one_component() -> None:
    with pytest.warns(UserWarning, match="components are nonzero"):
        assert SparseEncoder(0.9, **QUICK).fit(np.ones((20, 4))).n_components_ == 1


@pytest.mark.parametrize("strategy", ["sketch", "stream", "sample", "paper"])
def test_strategies_that_do_not_know_the_spectrum_refuse(x: Floats, strategy: str) -> None:
    with pytest.raises(InvalidInput, match=r"n_components=0\.9 is a share .* Use strategy 'gram' or 'tsqr'"):
        SparseEncoder(0.9, n_nonzero=2, strategy=strategy).fit(x)
    assert "n_components=0.9 is a share" in str(plan(x, 0.9, n_nonzero=2).alternatives)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"n_components": 1.0}, r"n_components=1\.0 is not allowed: give a whole number from 1 to 9.* a share between"),
        ({"n_components": 0.0}, r"n_components=0\.0 is not allowed"),
        ({"n_components": -0.5}, r"n_components=-0\.5 is not allowed"),
        ({"n_nonzero": (2, 3)}, r"n_components=0\.9 has the data choose .* n_nonzero=\[2, 3\]"),
        ({"method": "doubly-sparse"}, r"n_components=0\.9 has the data choose .* method='doubly-sparse'"),
        ({"tolerance": 0.1}, r"n_components=0\.9 is a share"),
    ],
    ids=str,
)
def test_what_makes_no_sense_is_refused(x: Floats, given: dict[str, Any], told: str) -> None:
    with pytest.raises(InvalidInput, match=told):
        SparseEncoder(**({"n_components": 0.9, "n_nonzero": 2} | given)).fit(x)
