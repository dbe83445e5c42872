"""``table``: the chosen features of a fit, after a save, an update and a stream too."""

import pickle

import numpy as np
import pytest
import zarr

from spae_dask import SparseEncoder, load_encoder
from spae_dask.estimators.saved import save_encoder

COSTS = [1.0, 2.0, 3.0, 4.0] * 3
GROUPS = ["north"] * 6 + ["south"] * 6


@pytest.fixture(scope="module")
def x():
    rng = np.random.default_rng(2)
    return rng.normal(size=(90, 3)) @ rng.normal(size=(3, 12)) + 0.5 * rng.normal(size=(90, 12))


@pytest.fixture(scope="module")
def panel(x):
    rules = {"costs": COSTS, "budget": 9, "groups": GROUPS, "at_most": 3, "include": [4]}
    return SparseEncoder(2, method="batch", selection="exchange", folds=3, **rules).fit(x)


def test_a_row_tells_what_is_known_of_a_feature(x, panel):
    found = {row.column: row for row in panel.table().rows}
    assert sorted(found) == panel.selected_features_.tolist()
    for column, row in found.items():
        assert row.feature == f"column {column}"
        assert row.cost == (0.0 if column == 4 else COSTS[column])
        assert row.group == GROUPS[column]
        assert row.in_folds == panel.selection_frequency_[column]
    assert panel.table().rows[-1].cost_so_far == sum(COSTS[j] for j in found if j != 4) <= panel.table().budget == 9
    weights = panel.explained_variance_ratio_ @ panel.components_**2
    assert [row.weight for row in panel.table().rows] == pytest.approx(
        sorted(weights[weights > 0] / weights.sum())[::-1]
    )


def test_a_feature_adds_what_the_panel_loses_without_it(x, panel):
    chosen = panel.selected_features_
    for row in panel.table().rows:
        others = [int(column) for column in chosen if column != row.column]
        without = np.delete(np.arange(12), others)
        left = SparseEncoder(2, n_features=len(others), exclude=without.tolist(), effort=0).fit(x).certificate_
        assert row.adds == pytest.approx((left.loss - panel.certificate_.loss) / left.total, abs=1e-9)


def test_a_pickle_has_the_table_that_nobody_asked_for_before(x):
    made = SparseEncoder(2, n_nonzero=3, method="batch").fit(x)
    assert pickle.loads(pickle.dumps(made)).table() == made.table()


def test_another_fit_has_another_table(x):
    made, other = SparseEncoder(2, n_nonzero=3, method="batch").fit(x), x[:, ::-1] ** 2
    first, second = made.table(), SparseEncoder(2, n_nonzero=3, method="batch").fit(other).table()
    assert made.fit(other).table() == second != first


def test_a_stored_encoder_has_the_same_table(panel, tmp_path):
    save_encoder(panel, tmp_path / "e.zarr")
    assert load_encoder(tmp_path / "e.zarr").table() == panel.table()
    assert pickle.loads(pickle.dumps(panel)).table() == panel.table()
    group = zarr.open_group(tmp_path / "e.zarr")
    record = dict(group.attrs["provenance"])
    del record["features"]  # as encoders of before
    group.attrs["provenance"] = record
    assert load_encoder(tmp_path / "e.zarr").table().columns == ("rank", "feature", "column", "weight", "in_folds")


def test_updates_and_streams_have_a_table_of_all_rows(x):
    whole = SparseEncoder(2, n_nonzero=3, method="batch", strategy="gram").fit(x).table()
    kept = SparseEncoder(2, n_nonzero=3, method="batch", strategy="gram", keep_state=True).fit(x[:50])
    streamed = SparseEncoder(2, n_nonzero=3, method="batch", strategy="gram").partial_fit(x[:40]).partial_fit(x[40:])
    for found in (kept.update(x[50:]).table(), streamed.table()):
        assert [row.column for row in found.rows] == [row.column for row in whole.rows]
        assert [row.adds for row in found.rows] == pytest.approx([row.adds for row in whole.rows])


def test_a_sketch_does_not_tell_what_a_feature_adds(x):
    found = SparseEncoder(2, n_nonzero=3, strategy="sketch", effort=0).fit(x).table()
    assert found.columns == ("rank", "feature", "column", "weight")
