"""An encoder's features are proved to be the best, or others are found, or the gap is told."""

from itertools import count
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from sklearn.exceptions import NotFittedError

from spae_dask import SparseEncoder
from spae_dask.errors import InvalidInput
from spae_dask.estimators.panels import proof_of
from spae_dask.strategies import proof as house
from tests.maths.selection.test_proof import best_of_all
from tests.reference_data import pitprops_factor

Floats = npt.NDArray[np.float64]


@pytest.fixture
def x() -> Floats:
    rng = np.random.default_rng(8)
    made: Floats = rng.normal(size=(150, 4)) @ rng.normal(size=(4, 12)) + 0.7 * rng.normal(size=(150, 12))
    return made


@pytest.mark.parametrize("strategy", ["gram", "tsqr"])
@pytest.mark.parametrize("given", [{"n_features": 4}, {"n_nonzero": 4, "method": "batch"}], ids=str)
def test_the_proof_is_that_of_a_list_of_all_sets(x: Floats, strategy: str, given: dict[str, Any]) -> None:
    encoder = SparseEncoder(3, strategy=strategy, **given).fit(x)
    found = encoder.prove()
    centered = x - x.mean(axis=0)
    best = best_of_all(centered, 3, 4)
    assert found.is_best
    assert found.loss == pytest.approx(best, rel=1e-9)
    assert found.loss_lower == pytest.approx(best, rel=1e-7)
    assert found.loss_lower <= best * (1 + 1e-12)
    assert found.encoder_loss == pytest.approx(encoder.certificate_.loss)
    assert found.improved == (encoder.certificate_.loss > best * (1 + 1e-5))
    assert "no 4 features lose less" in str(found)


def test_included_and_excluded_features_are_those_of_the_fit(x: Floats) -> None:
    found = SparseEncoder(2, n_features=2, include=[3], exclude=[0, 5]).fit(x).prove()
    allowed = [j for j in range(12) if j not in (0, 5)]
    best = best_of_all(x - x.mean(axis=0), 2, 2, [3], allowed)
    assert found.is_best
    assert found.n_features == 3
    assert found.loss == pytest.approx(best, rel=1e-9)
    assert 3 in found.features
    assert not {0, 5} & set(found.features)


@pytest.mark.parametrize("method", ["polished", "iterative"])
def test_features_of_one_component_are_proved_too(method: str) -> None:
    P = pitprops_factor()
    found = SparseEncoder(1, n_nonzero=3, method=method, center=False).fit(P).prove()
    assert found.is_best
    assert found.loss == pytest.approx(best_of_all(P, 1, 3), rel=1e-9)


def test_a_better_set_is_found(x: Floats) -> None:
    encoder = SparseEncoder(3, n_nonzero=4, method="batch", selection="leverage").fit(x)
    found = encoder.prove()
    assert found.improved
    assert found.is_best
    assert found.features != tuple(encoder.selected_features_)
    assert "the encoder's features lose" in str(found)
    again = SparseEncoder(3, n_nonzero=4, method="batch", exclude=np.setdiff1d(range(12), found.features))
    assert again.set_params(selection="exchange").fit(x).certificate_.loss == pytest.approx(found.loss)


def test_a_limit_leaves_a_gap_that_is_told(x: Floats) -> None:
    encoder = SparseEncoder(2, n_features=5).fit(x)
    best = best_of_all(x - x.mean(axis=0), 2, 5)
    none, few = encoder.prove(node_limit=0), encoder.prove(node_limit=3)
    assert none.loss_lower == pytest.approx(encoder.certificate_.pca_loss)
    assert none.loss_lower < few.loss_lower < best
    assert few.n_nodes == 3
    assert not few.is_best
    assert few.gap == pytest.approx(1 - few.loss_lower / few.loss)
    assert f"not finished: no 5 features lose less by more than {few.gap:.2%} of the loss" in str(few)
    assert few.as_dict()["is_best"] is False
    assert encoder.prove(node_limit=3) == few


def test_a_time_limit_is_kept_by_the_clock_that_is_given(x: Floats) -> None:
    encoder, ticks = SparseEncoder(2, n_features=5).fit(x), count()
    # the first tick is the start; the fourth node would begin at 4 seconds
    assert proof_of(encoder, None, 4.0, clock=lambda: float(next(ticks))).n_nodes == 3


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"n_nonzero": 3}, "a proof is about one set of features"),
        ({"n_nonzero": 3, "n_features": 5}, "a proof is about one set of features"),
        ({"costs": np.ones(12), "budget": 4}, "costs and budget: a proof is about all sets"),
        ({"n_features": 4, "groups": ["a", "b"] * 6, "at_most": 2}, "groups and at_most: a proof"),
        ({"n_nonzero": 4, "method": "doubly-sparse"}, "a proof is about the best decoder"),
        ({"n_features": 4, "strategy": "sketch"}, "no core of all columns"),
    ],
    ids=str,
)
def test_what_cannot_be_proved_is_refused(x: Floats, given: dict[str, Any], told: str) -> None:
    encoder = SparseEncoder(2, **given).fit(x)
    with pytest.raises(InvalidInput, match=told):
        encoder.prove()


def test_limits_without_sense_and_too_many_features_are_refused(x: Floats, monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = SparseEncoder(2, n_features=4, exclude=[1]).fit(x)
    with pytest.raises(InvalidInput, match="node_limit=-1 is not allowed"):
        encoder.prove(node_limit=-1)
    with pytest.raises(InvalidInput, match="time_limit=0 is not allowed"):
        encoder.prove(time_limit=0)
    with pytest.raises(NotFittedError):
        SparseEncoder(2, n_features=4).prove()
    monkeypatch.setattr(house, "MOST_FEATURES", 10)
    with pytest.raises(InvalidInput, match="there are 11 to choose from: more than 10"):
        encoder.prove()
