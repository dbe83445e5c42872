"""A panel has no more features than it may have, whichever components use them."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest

from spae_dask import SparseEncoder, plan
from spae_dask.errors import InvalidInput
from spae_dask.estimators.checkpointing import parameters_of
from spae_dask.estimators.panels import chosen_freely, names_of
from spae_dask.strategies.parameters import FitParameters
from tests.estimators.test_rules import Unread

Floats = npt.NDArray[np.float64]


@pytest.fixture
def x() -> Floats:
    rng = np.random.default_rng(8)
    made: Floats = rng.normal(size=(150, 4)) @ rng.normal(size=(4, 14)) + 0.7 * rng.normal(size=(150, 14))
    return made


@pytest.mark.parametrize("strategy", ["gram", "tsqr", "sketch", "stream", "sample"])
def test_a_panel_is_a_support_that_all_components_share(x: Floats, strategy: str) -> None:
    panel = SparseEncoder(3, n_features=5, strategy=strategy, effort=0).fit(x)
    shared = SparseEncoder(3, n_nonzero=5, shared_support=True, strategy=strategy, effort=0).fit(x)
    assert panel.components_.tobytes() == shared.components_.tobytes()
    assert panel.certificate_ == shared.certificate_
    assert len(panel.selected_features_) <= 5


def test_rows_in_batches_make_a_panel_too(x: Floats) -> None:
    whole = SparseEncoder(3, n_features=5, effort=0).fit(x)
    batches = SparseEncoder(3, n_features=5, effort=0).partial_fit(x[:70]).partial_fit(x[70:])
    np.testing.assert_array_equal(batches.selected_features_, whole.selected_features_)


@pytest.mark.parametrize("strategy", ["gram", "sample"])
@pytest.mark.parametrize("rules", [{}, {"include": [3, 8], "exclude": [0, 5]}], ids=str)
@pytest.mark.parametrize(("n", "r"), [(4, 2), (6, (4, 2, 1)), (5, 5)], ids=str)
def test_components_use_a_part_of_a_panel(x: Floats, strategy: str, rules: dict[str, Any], n: int, r: Any) -> None:
    # the search is the same for any strategy; its effort is the subject where it is compared
    fitted = SparseEncoder(3, n_features=n, n_nonzero=r, strategy=strategy, effort=0, **rules).fit(x)
    used = fitted.components_ != 0
    counted = np.delete(used, rules.get("include", []), axis=1)
    assert counted.any(axis=0).sum() <= n
    assert (np.sort(counted.sum(axis=1)) <= np.sort(np.broadcast_to(r, 3))).all()
    assert not used[:, rules.get("exclude", [])].any()
    whole = SparseEncoder(3, n_features=n, effort=0, **rules).fit(x)
    alone = SparseEncoder(3, n_nonzero=r, effort=0, **rules).fit(x)
    assert whole.certificate_.loss <= fitted.certificate_.loss * (1 + 1e-9)
    assert alone.certificate_.loss <= fitted.certificate_.loss * 1.01  # neither search is exhaustive
    centered = x - x.mean(axis=0)
    codes = centered @ fitted.components_.T
    left = centered - codes @ np.linalg.lstsq(codes, centered, rcond=None)[0]
    assert fitted.certificate_.loss == pytest.approx(float(np.sum(left**2)), rel=1e-8)


def test_a_component_that_may_use_the_whole_panel_is_none_the_worse(x: Floats) -> None:
    fitted = SparseEncoder(3, n_features=6, n_nonzero=6).fit(x)
    assert fitted.certificate_.loss == pytest.approx(SparseEncoder(3, n_features=6).fit(x).certificate_.loss, rel=1e-8)


def test_paths_of_panels_are_by_their_size_and_those_within_one_by_component(x: Floats) -> None:
    panel = SparseEncoder(3, n_features=5, effort=0).fit(x)
    curve = panel.sparsity_path([3], [4, 5, 7])
    assert [point.combined_nonzero for point in curve.points] == [4, 5, 7]
    assert curve.points[1].loss == pytest.approx(panel.certificate_.loss, rel=1e-9)
    within = SparseEncoder(3, n_features=5, n_nonzero=2, effort=0).fit(x)
    assert max(point.combined_nonzero for point in within.sparsity_path([2, 3], [1, 2, 3]).points) <= 5


def test_the_price_of_rules_is_that_of_as_many_features_chosen_freely(x: Floats) -> None:
    ruled = SparseEncoder(3, n_features=4, include=[3], exclude=[0, 5]).fit(x)
    free = chosen_freely(ruled)
    assert free is not None
    assert free.ratio == pytest.approx(SparseEncoder(3, n_features=5).fit(x).certificate_.ratio, rel=1e-9)
    assert free.ratio <= ruled.certificate_.ratio
    assert chosen_freely(SparseEncoder(3, n_features=4).fit(x)) is None
    assert chosen_freely(SparseEncoder(3, n_features=4, exclude=1, strategy="sketch").fit(x)) is None


def test_names_of_a_panel(x: Floats) -> None:
    fitted = SparseEncoder(2, n_features=3).fit(x)
    assert names_of(fitted) == [str(column) for column in fitted.selected_features_]
    named = SparseEncoder(2, n_features=3).fit(pd.DataFrame(x, columns=list("abcdefghijklmn")))
    assert names_of(named) == ["abcdefghijklmn"[column] for column in fitted.selected_features_]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"n_features": 10}, r"n_features=10 is not allowed: give a whole number from 1 to 9"),
        ({"n_features": 5, "n_top_features": 4}, r"n_features=5 is not allowed: give a whole number from 1 to 4"),
        ({"n_features": 3, "exclude": "[a-g]"}, r"n_features=3 is more than exclude leaves: 2 of 9 features"),
        ({"n_features": 3, "keep": 0.9}, r"n_features=3 and keep=0.9 are two targets"),
        ({"n_features": 3, "eps": 0.1}, r"n_features=3 and eps=0.1 are two targets"),
        ({"n_features": 3, "method": "iterative"}, r"n_features=3: method='iterative' chooses"),
        ({"n_features": 3, "n_nonzero": 2, "method": "batch"}, r"n_features=3 and n_nonzero=2: all components use"),
        ({"n_features": 3, "n_nonzero": 2, "shared_support": True}, r"n_features=3 and n_nonzero=2: all components"),
        ({"n_features": 3, "n_nonzero": 4}, r"n_nonzero=4 is more than n_features=3"),
        ({"n_features": 3, "n_nonzero": 2, "strategy": "sketch"}, r"'sketch' cannot do this: a panel of which"),
        ({"n_features": 3, "n_nonzero": 2, "strategy": "stream"}, r"'stream' cannot do this: a panel of which"),
        ({"n_features": 3, "n_nonzero": 2, "strategy": "paper"}, r"'paper' cannot do this: a panel of which"),
    ],
    ids=str,
)
def test_panels_that_cannot_be_are_refused_before_a_read(given: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        SparseEncoder(2, **given).fit(Unread())
    with pytest.raises(InvalidInput, match=words):
        plan(Unread(), 2, calibrate=False, **given)


def test_checkpoints_of_before_know_no_panel() -> None:
    assert "n_features" not in parameters_of(FitParameters(2, 3).resolved(None, 9))
    assert parameters_of(FitParameters(2, n_features=3).resolved(None, 9)) == parameters_of(
        FitParameters(2, 3, shared_support=True).resolved(None, 9)
    )
    assert parameters_of(FitParameters(2, 3, n_features=4).resolved(None, 9))["n_features"] == 4
