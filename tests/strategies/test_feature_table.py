"""The table of chosen features: its order, its sums, and what it leaves out."""

import numpy as np

from spae_dask.rules import Rules
from spae_dask.strategies.feature_table import FeatureFacts, FeatureTable

WEIGHTS = np.array([0.2, 0.5, 0.3])
FACTS = FeatureFacts(costs=(1.0, 2.0, 4.0), groups=("a", "", "b"), adds=(0.01, 0.02, 0.03))


def test_rows_fall_by_weight_and_costs_add_up_in_that_order():
    found = FeatureTable.of(["x", "y", "z"], [3, 5, 8], WEIGHTS, FACTS, in_folds={3: 1.0, 5: 0.8}, budget=9.0)
    assert [row.feature for row in found.rows] == ["y", "z", "x"]
    assert [row.rank for row in found.rows] == [1, 2, 3]
    assert [row.cost_so_far for row in found.rows] == [2.0, 6.0, 7.0]
    assert [row.in_folds for row in found.rows] == [0.8, 0.0, 1.0]
    assert found.records()[0] == {
        "rank": 1, "feature": "y", "column": 5, "weight": 0.5, "adds": 0.02, "cost": 2.0, "cost_so_far": 2.0,
        "group": "", "in_folds": 0.8,
    }  # fmt: skip
    assert str(found).splitlines()[2].split() == ["2", "z", "8", "30.00%", "3.000%", "4", "6", "b", "0%"]


def test_columns_that_are_not_known_are_left_out():
    found = FeatureTable.of(["x", "y", "z"], [3, 5, 8], WEIGHTS, FeatureFacts())
    assert found.columns == ("rank", "feature", "column", "weight")
    assert list(found.records()[2]) == ["rank", "feature", "column", "weight"]
    assert "<td>" in found._repr_html_()
    assert FeatureTable.of([], [], np.zeros(0), FeatureFacts()).records() == []


def test_included_features_are_paid_already():
    rules = Rules(include=(1,), costs=(5.0, 6.0, 7.0), budget=9.0, groups=("", "g", "h"), at_most={"g": 1})
    found = FeatureFacts.of(rules, np.array([1, 2]), 1, None)
    assert found == FeatureFacts(costs=(0.0, 7.0), groups=("g", "h"))
    assert FeatureFacts.from_dict(found.as_dict()) == found
    assert FeatureFacts.from_dict({}) == FeatureFacts()
