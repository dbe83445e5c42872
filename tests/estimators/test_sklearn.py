"""scikit-learn's own checks of estimators, all of them, and its usual company."""

import doctest
import pickle
from typing import Any

import numpy as np
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_iris
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from spae_dask import ColumnSelector, SparseEncoder
from spae_dask.estimators import sparse_encoder
from tests.estimators.sources import batch_encoder, spread

DEFAULTS = [SparseEncoder(effort=0), ColumnSelector()]
SMALL = [SparseEncoder(n_components=1, method="batch"), ColumnSelector(n_columns=1, n_components=1)]

X = spread(np.random.default_rng(0), 80, 6)


@pytest.mark.filterwarnings("ignore:Can't check dok sparse matrix:UserWarning")
@pytest.mark.filterwarnings("ignore::spae_dask.errors.RankDeficientWarning")
@pytest.mark.filterwarnings("ignore::spae_dask.errors.PrecisionWarning")
@parametrize_with_checks([*SMALL, *DEFAULTS])
def test_scikit_learn_check(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.mark.parametrize("estimator", [batch_encoder(2, n_nonzero=3, scale=True), ColumnSelector(3, center=False)])
def test_parameters_come_and_go(estimator: Any) -> None:
    copy = clone(estimator)
    assert copy.get_params() == estimator.get_params()
    copy.set_params(n_components=1, selection="greedy")
    assert copy.n_components == 1
    assert copy.fit(X).certificate_.n_components == 1
    assert not hasattr(estimator, "certificate_")


@pytest.mark.parametrize("estimator", [batch_encoder(2, n_nonzero=3), ColumnSelector(3)])
def test_fitted_estimators_survive_pickling(estimator: Any) -> None:
    fitted = clone(estimator).fit(X)
    again = pickle.loads(pickle.dumps(fitted))
    assert again.transform(X).tobytes() == fitted.transform(X).tobytes()
    assert again.certificate_ == fitted.certificate_
    assert str(again.plan_) == str(fitted.plan_)


def test_codes_classify_iris_in_a_pipeline() -> None:
    rows, labels = load_iris(return_X_y=True)
    model = make_pipeline(StandardScaler(), SparseEncoder(2, n_nonzero=3), LogisticRegression())
    assert model.fit(rows, labels).score(rows, labels) > 0.9
    assert model[:-1].get_feature_names_out().tolist() == ["sparseencoder0", "sparseencoder1"]


def test_a_grid_search_finds_more_nonzeros_better() -> None:
    search = GridSearchCV(batch_encoder(2), {"n_nonzero": [2, 6]}, cv=3).fit(X)
    assert search.best_params_ == {"n_nonzero": 6}


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_regressor_after_a_selector_knows_the_names_of_its_columns(library: str) -> None:
    frames = pytest.importorskip(library)
    table = frames.DataFrame(X, **{"columns" if library == "pandas" else "schema": list("abcdef")})
    model = make_pipeline(ColumnSelector(3), LinearRegression()).set_output(transform=library)
    search = GridSearchCV(model, {"columnselector__n_columns": [2, 6]}, cv=3).fit(table, X @ np.arange(6.0))
    assert search.best_params_ == {"columnselector__n_columns": 6}
    model.fit(table, X[:, 0])
    chosen = model[0].get_support(indices=True)
    assert model[:-1].get_feature_names_out().tolist() == [list("abcdef")[j] for j in chosen]
    if not hasattr(LinearRegression().fit(table, X[:, 0]), "feature_names_in_"):
        pytest.skip(f"this scikit-learn takes no names from this release of {library}")
    assert model[-1].feature_names_in_.tolist() == model[:-1].get_feature_names_out().tolist()


def test_codes_stand_beside_other_columns() -> None:
    pd = pytest.importorskip("pandas")
    table = pd.DataFrame(X, columns=list("abcdef")).assign(city=["x", "y"] * 40)
    both = make_column_transformer((batch_encoder(2, n_nonzero=2), list("abcdef")), (OneHotEncoder(), ["city"]))
    made = both.set_output(transform="default").fit_transform(table)
    np.testing.assert_allclose(made[:, :2], batch_encoder(2, n_nonzero=2).fit_transform(table[list("abcdef")]))
    names = both.get_feature_names_out().tolist()
    assert names[:3] == ["sparseencoder__sparseencoder0", "sparseencoder__sparseencoder1", "onehotencoder__city_x"]


@pytest.mark.parametrize("cls", [batch_encoder, ColumnSelector])
def test_metadata_routing_is_that_of_scikit_learn(cls: Any) -> None:
    with config_context(enable_metadata_routing=True):
        first = cls(2).set_fit_request(sample_weight=False)
        model = make_pipeline(first, LinearRegression().set_fit_request(sample_weight=True))
        model.fit(X, X[:, 0], sample_weight=np.ones(80))
        assert cls(2).fit_transform(X, X[:, 0]).tobytes() == cls(2).fit(X).transform(X).tobytes()


def test_default_output_is_an_array() -> None:
    codes = batch_encoder(2, n_nonzero=3).set_output(transform="default").fit_transform(X)
    assert type(codes) is np.ndarray


def test_names_of_codes_are_counted() -> None:
    encoder = batch_encoder(3, n_nonzero=3).fit(X)
    assert encoder.get_feature_names_out().tolist() == [f"sparseencoder{j}" for j in range(3)]


def test_the_repr_is_short_and_the_docstring_example_holds() -> None:
    assert repr(SparseEncoder(3, n_nonzero=5)) == "SparseEncoder(n_components=3, n_nonzero=5)"
    assert doctest.testmod(sparse_encoder).failed == 0


def test_the_default_encoder_needs_no_parameters() -> None:
    encoder = SparseEncoder().fit(X)
    assert (encoder.certificate_.eps, encoder.certificate_.keep) == (None, 0.95)
    assert encoder.certificate_.target_met is True
