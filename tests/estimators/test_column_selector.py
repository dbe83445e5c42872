"""The selector keeps scikit-learn's contract of feature selectors, and the columns of the batch encoder."""

import sys
from importlib.abc import MetaPathFinder

import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from zarr.storage import MemoryStore

from spae_dask import ColumnSelector
from spae_dask.errors import RankDeficientWarning
from tests import oracles
from tests.estimators.sources import batch_encoder, spread, zarr_array

X = spread(np.random.default_rng(0), 150, 9)
SELECTIONS = ["dual-set", "adaptive", "adaptive-derandomized", "greedy", "full-greedy", "leverage", "pivoted-qr"]


@pytest.fixture(scope="module")
def selector() -> ColumnSelector:
    return ColumnSelector(4, n_components=2, selection="greedy").fit(X)


@pytest.mark.parametrize("selection", [*SELECTIONS, "exchange"])
def test_columns_are_distinct_as_many_as_asked_and_those_of_the_encoder(selection: str) -> None:
    parameters = {"n_components": 2, "selection": selection, "scale": True}
    selector = ColumnSelector(4, **parameters).fit(X)
    assert len(set(selector.selected_idx_.tolist())) == 4
    encoder = batch_encoder(n_nonzero=4, **parameters).fit(X)
    assert sorted(selector.selected_idx_.tolist()) == encoder.selected_features_.tolist()
    assert selector.certificate_ == encoder.certificate_


@pytest.mark.parametrize(("n_columns", "k"), [(1, 1), (2, 1), (5, 2), (8, 4)])
def test_the_columns_keep_half_as_many_components_by_default(n_columns: int, k: int) -> None:
    found, given = ColumnSelector(n_columns).fit(X), ColumnSelector(n_columns, n_components=k).fit(X)
    assert found.certificate_ == given.certificate_
    assert found.selected_idx_.tolist() == given.selected_idx_.tolist()


def test_more_columns_of_digits_carry_more_by_default_than_with_two_components() -> None:
    digits = load_digits().data
    centered = digits - digits.mean(axis=0)

    def lost(selector: ColumnSelector) -> float:
        return oracles.columns_loss(centered, selector.fit(digits).selected_idx_, 20)

    assert lost(ColumnSelector(20)) < 0.95 * lost(ColumnSelector(20, n_components=2))


def test_columns_are_in_the_order_chosen_and_kept_in_that_of_the_data() -> None:
    heavy = np.random.default_rng(1).standard_normal((100, 5)) * [1, 2, 16, 4, 8]
    selector = ColumnSelector(3, n_components=3, selection="greedy").fit(heavy)
    assert selector.selected_idx_.tolist() == [2, 4, 3]
    np.testing.assert_array_equal(selector.transform(heavy), heavy[:, [2, 3, 4]])
    assert selector.get_support(indices=True).tolist() == [2, 3, 4]
    assert selector.get_support().tolist() == [False, False, True, True, True]


def test_the_certificate_is_about_the_best_codes_made_of_the_columns(selector: ColumnSelector) -> None:
    centered = X - X.mean(axis=0)
    loss = oracles.columns_loss(centered, selector.selected_idx_, 2)
    assert selector.certificate_.loss == pytest.approx(loss, rel=1e-9)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int16])
def test_columns_keep_their_type_and_the_kind_of_their_container(selector: ColumnSelector, dtype: type) -> None:
    rows, columns = X.astype(dtype), np.sort(selector.selected_idx_)
    np.testing.assert_array_equal(selector.transform(rows), rows[:, columns])
    thin = selector.transform(sp.csr_matrix(rows))
    assert sp.issparse(thin)
    np.testing.assert_array_equal(thin.toarray(), rows[:, columns])
    for lazy in (da.from_array(rows, chunks=(40, 5)), zarr_array(MemoryStore(), rows, (40, 5))):
        kept = selector.transform(lazy)
        assert isinstance(kept, da.Array)
        assert kept.dtype == dtype
        np.testing.assert_array_equal(kept.compute(), rows[:, columns])


def test_inverse_transform_puts_zeros_elsewhere(selector: ColumnSelector) -> None:
    back = selector.inverse_transform(selector.transform(X))
    mask = selector.get_support()
    np.testing.assert_array_equal(back[:, mask], X[:, mask])
    assert (back[:, ~mask] == 0).all()


def test_names_go_with_the_columns(selector: ColumnSelector) -> None:
    columns = np.sort(selector.selected_idx_)
    assert selector.get_feature_names_out().tolist() == [f"x{j}" for j in columns]
    names = [f"gene {j}" for j in range(9)]
    assert selector.get_feature_names_out(names).tolist() == [names[j] for j in columns]


def test_names_of_a_refit_do_not_linger() -> None:
    pd = pytest.importorskip("pandas")
    names = [f"gene {j}" for j in range(9)]
    for estimator in (ColumnSelector(3), batch_encoder(2, n_nonzero=3)):
        estimator.fit(pd.DataFrame(X, columns=names))
        assert estimator.feature_names_in_.tolist() == names
        with pytest.raises(ValueError, match="feature names"):
            estimator.transform(pd.DataFrame(X, columns=names[::-1]))
        estimator.fit(X)
        assert not hasattr(estimator, "feature_names_in_")


def test_frames_come_and_go_as_frames() -> None:
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(X, columns=[f"gene {j}" for j in range(9)], index=[f"cell {i}" for i in range(150)])
    kept = ColumnSelector(3).set_output(transform="pandas").fit_transform(frame)
    assert list(kept.index) == list(frame.index)
    pd.testing.assert_frame_equal(kept, frame[list(kept.columns)])
    codes = batch_encoder(2, n_nonzero=3).set_output(transform="pandas").fit_transform(frame)
    assert list(codes.columns) == ["sparseencoder0", "sparseencoder1"]
    assert list(codes.index) == list(frame.index)


class WithoutPandas(MetaPathFinder):
    """An installation that lacks pandas."""

    def find_spec(self, fullname: str, *rest: object) -> None:
        if fullname == "pandas":
            raise ModuleNotFoundError(f"No module named {fullname!r}", name=fullname)


def test_selection_works_without_pandas(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [each for each in sys.modules if each.partition(".")[0] == "pandas"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "meta_path", [WithoutPandas(), *sys.meta_path])
    assert ColumnSelector(3).fit_transform(X).shape == (150, 3)


def test_more_columns_than_carry_anything_are_not_made_up() -> None:
    rows = X.copy()
    rows[:, 2:] = 1.5
    with pytest.warns(RankDeficientWarning, match="2 of 5 columns"):
        selector = ColumnSelector(5).fit(rows)
    assert sorted(selector.selected_idx_.tolist()) == [0, 1]


def test_it_works_in_a_pipeline_and_is_cloned() -> None:
    y = X @ np.arange(9.0)
    model = make_pipeline(ColumnSelector(6, n_components=3), LinearRegression())
    assert clone(model).fit(X, y).score(X, y) > 0.9
