"""What is odd with data is found in one pass and said in words."""

from pathlib import Path

import dask.array as da
import numpy as np
import pandas as pd
import pytest

from spae_dask.estimators.checking import check
from tests.estimators.sources import Watched, spread, zarr_array

X = spread(np.random.default_rng(0), 300, 6)


def test_good_data_have_no_problems() -> None:
    source = Watched(X, rows_per_block=50)
    found = check(source)
    assert found.problems == ()
    assert "no problem found" in str(found)
    assert sorted(source.reads) == list(range(6))
    assert (found.shape, found.dtype) == ((300, 6), "float64")
    assert (found.smallest, found.largest) == (X.min(), X.max())


def test_columns_with_names_are_called_by_them() -> None:
    frame = pd.DataFrame(X, columns=list("abcdef")).assign(still=1.0)
    frame.loc[3, "b"] = np.nan
    frame.loc[4, "c"] = -1.0
    text = str(check(frame, missing_value=-1))
    assert "2 missing entries (NaN or -1) in 2 columns: b (1), c (1)" in text
    assert "1 constant columns, which are never selected: still" in text


@pytest.mark.parametrize("kind", ["numpy", "dask", "zarr"])
def test_entries_that_are_no_numbers_are_counted_and_placed(kind: str, tmp_path: Path) -> None:
    bad = X.copy()
    bad[[7, 120, 121], [5, 1, 1]] = np.nan
    bad[120, 2], bad[299, 0] = np.inf, -np.inf
    given = {
        "numpy": lambda: bad,
        "dask": lambda: da.from_array(bad, chunks=(70, 4)),
        "zarr": lambda: zarr_array(tmp_path / "x.zarr", bad, (70, 4)),
    }[kind]()
    found = check(given)
    assert (found.n_nan, found.n_inf) == (3, 2)
    assert found.nan_columns == ((1, 2), (5, 1))
    assert found.inf_columns == ((0, 1), (2, 1))
    assert found.first_non_finite == ((7, 5), (120, 1), (120, 2), (121, 1), (299, 0))
    text = str(found)
    assert "3 NaN entries in 2 columns: 1 (2), 5 (1)" in text
    assert "missing='mean'" in text
    assert np.isfinite([found.smallest, found.largest]).all()


@pytest.mark.parametrize("constant", [0.0, 0.1, 1 / 3, -7e8, 1e-300, 1e30])
@pytest.mark.parametrize("chunk", [7, 300])
def test_constant_columns_are_found_whatever_the_constant(constant: float, chunk: int) -> None:
    rows = np.vstack([X] * 10)
    rows[:, 3] = constant
    found = check(da.from_array(rows, chunks=(chunk * 10, 6)))
    assert found.constant_columns == (3,)
    assert found.n_constant == 1
    assert "1 constant columns, which are never selected: 3" in str(found)


def test_a_column_of_nothing_but_gaps_is_constant() -> None:
    rows = X.copy()
    rows[:, 0] = np.nan
    found = check(rows)
    assert found.constant_columns == (0,)
    assert found.nan_columns == ((0, 300),)


def test_data_of_nothing_but_gaps_have_no_range() -> None:
    found = check(np.full((5, 2), np.nan))
    assert (found.smallest, found.largest, found.n_nan) == (None, None, 10)
    assert str(found)


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_lost_chunks_are_counted_and_named(tmp_path: Path, zarr_format: int) -> None:
    zarr_array(tmp_path / "x.zarr", X, (100, 3), zarr_format=zarr_format)
    key = {2: "1.0", 3: "c/1/0"}[zarr_format]
    (tmp_path / "x.zarr" / key).unlink()
    found = check(tmp_path / "x.zarr")
    assert (found.expected_chunks, found.missing_chunks, found.first_missing) == (6, 1, (key,))
    assert f"1 of 6 chunks are not stored and read as 0.0 (first: {key})" in str(found)


def test_the_check_becomes_a_dictionary() -> None:
    record = check(X[:10]).as_dict()
    assert record["shape"] == (10, 6)
    assert record["problems"] == ()


def test_gaps_of_data_with_a_missing_value_are_noted_and_no_problem():
    x = np.random.default_rng(0).normal(size=(50, 4))
    x[3, 1], x[7, 2] = -1, np.nan
    plain, told = check(x), check(x, missing_value=-1)

    assert len(plain.problems) == 2
    assert plain.n_nan == 1
    assert (told.problems, told.n_nan) == ((), 2)
    assert any("2 missing entries (NaN or -1) in 2 columns: 1 (1), 2 (1)" in note for note in told.notes)
    assert "no problem found" in str(told)


def test_infinite_entries_stay_a_problem_with_a_missing_value():
    x = np.random.default_rng(0).normal(size=(50, 4))
    x[3, 1], x[7, 2] = np.inf, -1
    problems = check(x, missing_value=-1).problems
    assert len(problems) == 2
    assert "1 infinite entries" in problems[0]
    assert "(3, 1)" in problems[1]


def test_a_column_that_holds_nearly_all_variance_is_named() -> None:
    table = pd.DataFrame(np.random.default_rng(0).standard_normal((200, 4)), columns=list("abcd"))
    numbered = table.assign(id=np.arange(200))

    (note,) = [each for each in check(numbered).notes if "variance" in each]
    share = np.var(numbered["id"]) / numbered.var(ddof=0).sum()
    assert note.startswith(f"column id holds {share:.1%} of the variance: if units differ, fit with scale=True")
    assert not [each for each in check(table).notes if "variance" in each]
    assert not [each for each in check(numbered + 10, recipe="log1p").notes if "variance" in each]
