"""Fits and codes of tables: in memory and on disk, the numbers and the names are those of the array."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from spae_dask import ColumnSelector, SparseEncoder, evaluate, load_encoder, open_matrix
from spae_dask.errors import InvalidInput
from spae_dask.estimators.saved import save_encoder
from tests.estimators.sources import batch_encoder
from tests.matrices import factor_model

NAMES = ["f0", "f1", "f2", "f3", "f4", "f5"]


def values() -> Any:
    return factor_model(np.random.default_rng(0), 90, 6, 2, 0.1)


def parquet(table: pd.DataFrame, folder: Path) -> str:
    table.to_parquet(folder / "t.parquet", row_group_size=40)
    return str(folder / "t.parquet")


def arrow(table: pd.DataFrame, folder: Path) -> str:
    table.to_feather(folder / "t.feather")
    return str(folder / "t.feather")


MAKERS: dict[str, Callable[[pd.DataFrame, Path], Any]] = {
    "pandas": lambda table, _: table,
    "polars": lambda table, _: pl.from_pandas(table),
    "Arrow table": lambda table, _: pa.Table.from_pandas(table),
    "Parquet": parquet,
    "Feather": arrow,
}


@pytest.fixture(params=list(MAKERS))
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[pd.DataFrame], Any]:
    return lambda table: MAKERS[request.param](table, tmp_path)


def fitted(X: Any, **more: Any) -> SparseEncoder:
    return batch_encoder(2, n_nonzero=3, **more).fit(X)


def test_a_table_gives_the_encoder_of_its_array_and_keeps_its_names(
    make: Callable[[pd.DataFrame], Any], tmp_path: Path
) -> None:
    x = make(pd.DataFrame(values(), columns=NAMES))
    from_table, from_array = fitted(x), fitted(values())
    np.testing.assert_allclose(from_table.components_, from_array.components_, atol=1e-10)
    np.testing.assert_allclose(np.asarray(from_table.transform(x)), from_array.transform(values()), atol=1e-8)
    assert evaluate(x, from_table).loss == pytest.approx(from_array.certificate_.loss)
    assert list(from_table.feature_names_in_) == NAMES
    save_encoder(from_table, tmp_path / "e.zarr")
    assert list(load_encoder(tmp_path / "e.zarr").feature_names_in_) == NAMES


def test_columns_in_another_order_are_refused_in_scikit_learns_words(make: Callable[[pd.DataFrame], Any]) -> None:
    table = pd.DataFrame(values(), columns=NAMES)
    encoder = fitted(table)
    for apply in (encoder.transform, encoder.score, lambda x: evaluate(x, encoder)):
        with pytest.raises(ValueError, match=r"(?s)should match those .*must be in the same order"):
            apply(make(table[NAMES[::-1]]))


def test_missing_and_unseen_columns_are_named_in_scikit_learns_words(make: Callable[[pd.DataFrame], Any]) -> None:
    table = pd.DataFrame(values(), columns=NAMES)
    encoder = fitted(table)
    with pytest.raises(ValueError, match=r"(?s)should match those .*yet now missing:\n- f5"):
        encoder.transform(make(table[NAMES[:5]]))
    with pytest.raises(ValueError, match=r"(?s)unseen at fit time:\n- new"):
        encoder.transform(make(table.assign(new=1.0)))
    with pytest.raises(ValueError, match=r"(?s)unseen at fit time:\n- F0.*now missing:\n- f0"):
        encoder.transform(make(table.rename(columns={"f0": "F0"})))


def test_chosen_columns_of_a_larger_table_are_a_table(make: Callable[[pd.DataFrame], Any]) -> None:
    table = pd.DataFrame(values(), columns=NAMES).assign(id="a")
    encoder = fitted(open_matrix(make(table), columns=["f*"]))
    assert list(encoder.feature_names_in_) == NAMES
    codes = encoder.transform(open_matrix(make(table), columns=["f*"]))
    np.testing.assert_allclose(np.asarray(codes), fitted(values()).transform(values()), atol=1e-8)


def test_gaps_are_what_missing_says(make: Callable[[pd.DataFrame], Any]) -> None:
    gappy = values()
    gappy[::7, 2] = np.nan
    table = pd.DataFrame(gappy, columns=NAMES).astype("Float64")
    with pytest.raises(InvalidInput, match="NaN"):
        fitted(make(table))
    filled = np.where(np.isnan(gappy), np.nanmean(gappy, axis=0), gappy)
    found = fitted(make(table), missing="mean")
    np.testing.assert_allclose(found.certificate_.loss, fitted(filled).certificate_.loss, rtol=1e-8)


def test_a_number_that_stands_for_missing_leaves_the_names(make: Callable[[pd.DataFrame], Any]) -> None:
    marked = values()
    marked[::7, 2] = -9
    table = pd.DataFrame(marked, columns=NAMES)
    assert list(fitted(make(table), missing="mean", missing_value=-9).feature_names_in_) == NAMES


def test_selected_columns_are_the_tables(make: Callable[[pd.DataFrame], Any]) -> None:
    x = make(pd.DataFrame(values(), columns=NAMES))
    selector = ColumnSelector(3).fit(x)
    chosen = list(selector.get_feature_names_out())
    assert chosen == [NAMES[i] for i in selector.get_support(indices=True)]
    np.testing.assert_array_equal(np.asarray(selector.transform(x)), values()[:, selector.get_support(indices=True)])


def test_workers_of_a_cluster_read_a_table_to_the_same_bits(open_cluster: Callable[..., Any], tmp_path: Path) -> None:
    path = parquet(pd.DataFrame(values(), columns=NAMES), tmp_path)
    alone = fitted(path)
    with open_cluster(2).as_current():
        np.testing.assert_array_equal(fitted(path).components_, alone.components_)
