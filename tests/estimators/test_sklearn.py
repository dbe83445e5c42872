"""scikit-learn's own checks of estimators, all of them, and its usual company."""

import doctest
import pickle
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from spae_dask import ColumnSelector, SparseEncoder
from spae_dask.estimators import sparse_encoder
from tests.estimators.sources import spread

X = spread(np.random.default_rng(0), 80, 6)


@pytest.mark.filterwarnings("ignore:Can't check dok sparse matrix:UserWarning")
@pytest.mark.filterwarnings("ignore::spae_dask.errors.RankDeficientWarning")
@pytest.mark.filterwarnings("ignore::spae_dask.errors.PrecisionWarning")
@parametrize_with_checks([SparseEncoder(n_components=1), ColumnSelector(n_columns=1, n_components=1)])
def test_scikit_learn_check(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.mark.parametrize("estimator", [SparseEncoder(2, n_nonzero=3, scale=True), ColumnSelector(3, center=False)])
def test_parameters_come_and_go(estimator: Any) -> None:
    copy = clone(estimator)
    assert copy.get_params() == estimator.get_params()
    copy.set_params(n_components=1, selection="greedy")
    assert copy.n_components == 1
    assert copy.fit(X).certificate_.n_components == 1
    assert not hasattr(estimator, "certificate_")


@pytest.mark.parametrize("estimator", [SparseEncoder(2, n_nonzero=3), ColumnSelector(3)])
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
    search = GridSearchCV(SparseEncoder(2), {"n_nonzero": [2, 6]}, cv=3).fit(X)
    assert search.best_params_ == {"n_nonzero": 6}


def test_default_output_is_an_array() -> None:
    codes = SparseEncoder(2, n_nonzero=3).set_output(transform="default").fit_transform(X)
    assert type(codes) is np.ndarray


def test_names_of_codes_are_counted() -> None:
    encoder = SparseEncoder(3, n_nonzero=3).fit(X)
    assert encoder.get_feature_names_out().tolist() == [f"sparseencoder{j}" for j in range(3)]


def test_the_repr_is_short_and_the_docstring_example_holds() -> None:
    assert repr(SparseEncoder(3, n_nonzero=5)) == "SparseEncoder(n_components=3, n_nonzero=5)"
    assert doctest.testmod(sparse_encoder).failed == 0


def test_the_default_encoder_needs_no_parameters() -> None:
    encoder = SparseEncoder().fit(X)
    assert encoder.certificate_.ratio <= 1.1
    assert encoder.certificate_.eps == 0.1
