"""``class_weight`` of a selector against rows that are repeated as often as their class counts."""

from pathlib import Path
from typing import Any

import anndata as ad
import numpy as np
import pandas as pd
import pytest
from sklearn import config_context
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.utils.class_weight import compute_sample_weight

from spae_dask import ColumnSelector
from spae_dask.errors import InvalidInput, NotFound

RNG = np.random.default_rng(0)
Y = np.repeat(["common", "rare", "scarce"], [60, 12, 4])
X = RNG.normal(size=(76, 9)) * [6, 6, 1, 1, 1, 1, 1, 1, 1]
X[Y == "rare", 6] += RNG.normal(scale=11, size=12)
X[Y == "scarce", 7] += RNG.normal(scale=16, size=4)
TIMES = {"common": 1, "rare": 5, "scarce": 15}
"""All three classes of sixty rows, so that balanced weights are these times 76 / 180."""

REPEATED = np.repeat(X, [TIMES[each] for each in Y], axis=0)


def fitted(class_weight: Any = "balanced", y: Any = Y, x: Any = X, **given: Any) -> ColumnSelector:
    return ColumnSelector(2, n_components=2, class_weight=class_weight, selection="greedy").fit(x, y, **given)


def assert_same(found: ColumnSelector, wanted: ColumnSelector, factor: float = 1.0) -> None:
    assert found.selected_idx_.tolist() == wanted.selected_idx_.tolist()
    assert found.certificate_.loss == pytest.approx(factor * wanted.certificate_.loss)
    assert found.certificate_.pca_loss == pytest.approx(factor * wanted.certificate_.pca_loss)


def test_rare_classes_count_as_if_their_rows_were_repeated() -> None:
    wanted = fitted(None, None, REPEATED)
    assert_same(fitted(TIMES), wanted)
    assert_same(fitted(), wanted, 76 / 180)
    assert sorted(wanted.selected_idx_) == [6, 7]
    assert sorted(fitted(None).selected_idx_) == [0, 1], "labels alone change nothing"


def test_weights_of_classes_multiply_those_of_rows() -> None:
    counts = RNG.integers(1, 4, 76)
    assert_same(fitted(TIMES, sample_weight=counts), fitted(TIMES, np.repeat(Y, counts), np.repeat(X, counts, axis=0)))
    assert_same(fitted(None, sample_weight=counts), fitted(None, x=np.repeat(X, counts, axis=0)))
    by_hand = fitted(None, sample_weight=counts * compute_sample_weight("balanced", Y))
    assert_same(fitted(sample_weight=counts), by_hand)


@pytest.mark.parametrize(
    ("y", "class_weight"),
    [
        (np.unique(Y, return_inverse=True)[1], {0: 1, 1: 5, 2: 15}),
        (np.unique(Y, return_inverse=True)[1] + 0.0, {1.0: 5, np.int64(2): 15}),
        (list(Y), {"rare": 5, "scarce": 15}),
        (pd.Series(pd.Categorical(Y)), TIMES),
        (Y, TIMES | {"none of these rows": 7}),
    ],
    ids=["numbers", "floats", "list", "categories", "a class that is not there"],
)
def test_labels_of_any_kind(y: Any, class_weight: Any) -> None:
    assert_same(fitted(class_weight, y), fitted(TIMES))
    wanted = compute_sample_weight(class_weight, np.asarray(y))
    assert fitted(class_weight, y).certificate_.total_weight == pytest.approx(wanted.sum())


def test_two_classes_of_booleans() -> None:
    assert_same(fitted({True: 5}, Y == "rare"), fitted({"rare": 5}))


def test_names_of_labels_and_weights_are_looked_up(tmp_path: Path) -> None:
    wanted = fitted(TIMES, sample_weight=np.arange(1, 77))
    beside = pd.DataFrame({"kind": Y, "w": np.arange(1, 77)}, index=[str(row) for row in range(76)])
    assert_same(fitted(TIMES, "kind", ad.AnnData(X, obs=beside), sample_weight="w"), wanted)
    table = pd.DataFrame(X, columns=[f"g{j}" for j in range(9)], index=beside.index).join(beside)
    table.to_parquet(tmp_path / "x.parquet")
    found = fitted(TIMES, "kind", str(tmp_path / "x.parquet"), sample_weight="w")
    assert_same(found, wanted)
    assert found.n_features_in_ == 9, "columns of labels and of weights are no data"


def test_a_pipeline_selects_and_classifies() -> None:
    model = make_pipeline(ColumnSelector(3, class_weight="balanced"), LogisticRegression())
    assert np.isfinite(cross_val_score(model, X, Y, cv=3)).all()
    with config_context(enable_metadata_routing=True):
        selector = ColumnSelector(3, class_weight="balanced").set_fit_request(sample_weight=True)
        last = LogisticRegression().set_fit_request(sample_weight=False)
        routed = make_pipeline(selector, last).fit(X, Y, sample_weight=np.arange(76))
    alone = ColumnSelector(3, class_weight="balanced").fit(X, Y, sample_weight=np.arange(76))
    assert_same(routed[0], alone)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"y": None}, "weighs rows by their labels, and y is None"),
        ({"y": Y[:-1]}, "75 values, but the array has 76 rows"),
        ({"y": np.where(Y == "rare", None, Y)}, "class label is missing in row 60"),
        ({"y": np.column_stack([Y, Y])}, "2 columns of class labels"),
        ({"y": np.linspace(0.0, 1.0, 76)}, "another label in each of the 76 rows"),
        ({"class_weight": "even"}, "class_weight='even' is not allowed: give 'balanced', a dict"),
        ({"class_weight": {"rare": -1}}, "is not allowed"),
        ({"class_weight": {"rare": float("nan")}}, "is not allowed"),
        ({"class_weight": {"rar": 3}}, r"names 'rar'.*no weight for 'common'.*Did you mean 'rare'"),
        ({"class_weight": dict.fromkeys(TIMES, 0)}, "leave no row with a weight above 0"),
        ({"sample_weight": -np.ones(76)}, "the row weight is -1 in row 0"),
    ],
    ids=lambda each: each if isinstance(each, str) else next(iter(each)),
)
def test_weights_without_sense_are_refused(given: dict[str, Any], told: str) -> None:
    with pytest.raises(InvalidInput, match=told):
        fitted(**given)


def test_labels_of_a_name_that_is_not_there_are_refused() -> None:
    with pytest.raises(NotFound, match="kind"):
        fitted(y="kind", x=pd.DataFrame(X))


def test_strategies_that_cannot_weigh_rows_refuse_before_the_read() -> None:
    with pytest.raises(InvalidInput, match="paper"):
        ColumnSelector(2, class_weight="balanced", strategy="paper").fit(X, Y)
