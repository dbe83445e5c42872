"""What cannot be done is refused in words: what was given, what is allowed, what to do; and nothing is read for it."""

from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp
import zarr
from sklearn.exceptions import NotFittedError
from zarr.storage import MemoryStore

from spae_dask import ColumnSelector, evaluate, load_encoder, open_matrix, plan
from spae_dask.errors import InvalidInput, MemoryBudgetExceeded, NotFound, SpaeError, StorageError
from spae_dask.estimators.saved import save_encoder
from spae_dask.estimators.writing import transform_to_zarr
from tests.estimators.sources import Unreadable, batch_encoder, spread, zarr_array

X = spread(np.random.default_rng(0), 40, 6)
GIB = 1 << 30


def message(x: Any, **parameters: Any) -> str:
    with pytest.raises(InvalidInput) as caught:
        batch_encoder(**({"n_components": 2, "n_nonzero": 3} | parameters)).fit(x)
    assert isinstance(caught.value, ValueError)
    return str(caught.value)


@pytest.mark.parametrize("shape", [(0, 5), (5, 0)])
@pytest.mark.parametrize("kind", ["numpy", "sparse", "dask", "zarr"])
def test_empty_data(shape: tuple[int, int], kind: str) -> None:
    given = {
        "numpy": lambda: np.zeros(shape),
        "sparse": lambda: sp.csr_array(shape),
        "dask": lambda: da.zeros(shape),
        "zarr": lambda: zarr.create_array(MemoryStore(), shape=shape, dtype=float, chunks=(2, 2)),
    }[kind]()
    assert f"(shape=({shape[0]}, {shape[1]})) while a minimum of 1 is required" in message(given)


def test_one_row() -> None:
    text = message(X[:1])
    assert "n_samples = 1" in text
    assert "at least 2" in text


@pytest.mark.parametrize("bad", [0, -1, 7, 2.0, "3", True, None, [2, 2]])
def test_k_out_of_range_is_told_the_range(bad: Any) -> None:
    text = message(X, n_components=bad)
    assert f"n_components={bad!r}" in text
    assert "from 1 to 6" in text


@pytest.mark.parametrize("bad", [0, -1, 7, 2.0, "3", True])
def test_r_out_of_range_is_told_the_range(bad: Any) -> None:
    text = message(X, n_nonzero=bad)
    assert f"n_nonzero={bad!r}" in text
    assert "from 1 to 6" in text
    with pytest.raises(InvalidInput, match=r"n_columns=.* from 1 to 6"):
        ColumnSelector(bad).fit(X)


def test_sizes_that_do_not_fit_the_components_or_the_method() -> None:
    assert "3 numbers for n_components=2" in message(X, n_nonzero=[2, 2, 2])
    assert "all components use the same columns" in message(X, n_nonzero=[2, 3])
    assert "n_nonzero=[7, 7] is not allowed: give a whole number from 1 to 6" in message(X, n_nonzero=[7, 7])
    with pytest.raises(InvalidInput, match="n_columns="):
        ColumnSelector([2, 2]).fit(X)


@pytest.mark.parametrize("bad", [0.0, -0.1, np.nan, np.inf, "small"])
def test_eps_out_of_range(bad: Any) -> None:
    assert "eps=" in message(X, n_nonzero=None, eps=bad)
    assert "keep=" in message(X, n_nonzero=None, keep=bad)


@pytest.mark.parametrize("name", ["method", "selection", "strategy", "precision", "missing"])
def test_unknown_names_are_told_the_known_ones(name: str) -> None:
    text = message(X, **{name: "fancy"})
    assert f"{name}='fancy'" in text
    assert "give one of '" in text


@pytest.mark.parametrize("bad", [-1, "now", 1.5, True])
def test_seeds_that_are_none(bad: Any) -> None:
    assert "random_state=" in message(X, random_state=bad)


@pytest.mark.parametrize("make", [np.random.default_rng, np.random.RandomState])
def test_generators_give_a_seed_that_is_kept(make: Any) -> None:
    one = batch_encoder(2, n_nonzero=3, selection="adaptive", random_state=make(5)).fit(X)
    again = batch_encoder(2, n_nonzero=3, selection="adaptive", random_state=one.seed_).fit(X)
    assert one.components_.tobytes() == again.components_.tobytes()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (X.astype(complex), "Complex data not supported"),
        (X.astype(str), "not numbers"),
        (np.array([["a", 1.0], ["b", 2.0]], dtype=object), "Python objects"),
        (np.zeros((3, 3), dtype="datetime64[s]"), "not numbers"),
        (np.zeros(5), "Expected 2D array"),
        (np.zeros((5, 3, 2)), "Expected 2D array"),
        (np.float64(3), "Expected 2D array"),
        (sp.coo_array(np.ones(4)), "Expected 2D array"),
        (da.zeros((4, 3, 2)), "Expected 2D array"),
        (da.zeros((4, 3), dtype=complex), "Complex data not supported"),
        ([[1.0, 2.0], [3.0]], "cannot be read as a matrix"),
        (np.ma.masked_greater(X, 5), "mask"),
    ],
    ids=str,
)
def test_things_that_are_no_real_matrix(given: Any, words: str) -> None:
    assert words in message(given)


@pytest.mark.parametrize("dtype", ["complex128", "<U3"])
@pytest.mark.parametrize("shape", [(5,), (5, 3, 2)])
def test_zarr_arrays_of_the_wrong_type_or_shape(tmp_path: Path, dtype: str, shape: tuple[int, ...]) -> None:
    zarr.create_array(tmp_path / "shape.zarr", shape=shape, dtype=float)
    assert "Expected 2D array" in message(tmp_path / "shape.zarr")
    zarr.create_array(tmp_path / "type.zarr", shape=(5, 3), dtype=dtype, zarr_format=2)
    assert str(tmp_path / "type.zarr") in message(tmp_path / "type.zarr")


def test_an_unknown_number_of_columns_is_told_the_remedy() -> None:
    lazy = da.from_array(X, chunks=(10, 6))
    assert "compute_chunk_sizes()" in message(lazy[:, lazy[0] > 0])


def test_stores_that_are_not_there(tmp_path: Path) -> None:
    for missing in (tmp_path / "none.zarr", tmp_path / "none.npy", tmp_path, f"{tmp_path}/none.zarr/member"):
        with pytest.raises(NotFound) as caught:
            batch_encoder(1, n_nonzero=1).fit(missing)
        assert isinstance(caught.value, FileNotFoundError)
        assert str(missing) in str(caught.value)


def test_groups_that_do_not_say_which(tmp_path: Path) -> None:
    group = zarr.create_group(tmp_path / "g.zarr")
    assert "no arrays" in message(tmp_path / "g.zarr")
    for name in ("a", "b"):
        group.create_array(name, shape=(4, 3), dtype=float)
    text = message(tmp_path / "g.zarr")
    assert "a (4, 3)" in text
    assert "b (4, 3)" in text
    with pytest.raises(NotFound, match="no array 'c'"):
        open_matrix(tmp_path / "g.zarr", array="c")
    with pytest.raises(InvalidInput, match="array='a'"):
        open_matrix(X, array="a")


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_corrupt_chunks_are_named(tmp_path: Path, zarr_format: int) -> None:
    zarr_array(tmp_path / "x.zarr", X, (10, 3), zarr_format=zarr_format)
    key = {2: "2.1", 3: "c/2/1"}[zarr_format]
    (tmp_path / "x.zarr" / key).write_bytes(b"rotten")
    with pytest.raises(StorageError, match=rf"chunk '{key}' .*rows 20 to 29.*cannot be read") as caught:
        batch_encoder(2, n_nonzero=3).fit(tmp_path / "x.zarr")
    assert isinstance(caught.value, OSError)


@pytest.mark.parametrize("limit", ["nonsense", -5, 0, "5 bananas"])
def test_memory_limits_that_are_none(limit: Any) -> None:
    assert "memory limit" in message(X, memory_limit=limit)


@pytest.mark.parametrize("rows_per_block", [1, 10**5])
def test_a_plan_that_does_not_fit_is_refused_before_anything_is_read(rows_per_block: int) -> None:
    wide = Unreadable((10**5, 3000), rows_per_block)
    calls = [
        lambda limit: batch_encoder(2, n_nonzero=3, strategy="gram", memory_limit=limit).fit(wide),
        lambda limit: ColumnSelector(3, strategy="gram", memory_limit=limit).fit(wide),
        lambda limit: plan(wide, 2, strategy="gram", memory_limit=limit),
    ]
    for call in calls:
        with pytest.raises(MemoryBudgetExceeded, match=r"Nothing was read\. Use a memory limit of"):
            call("500MiB")


def test_the_limit_that_a_refusal_names_does_fit_and_a_smaller_one_does_not() -> None:
    wide = Unreadable((10**6, 3000), 1000)
    limit = 300 << 20
    for _ in range(5):
        try:
            plan(wide, 2, memory_limit=limit, calibrate=False)
            break
        except MemoryBudgetExceeded as error:
            words = str(error).split("a memory limit of ")[1].split()
            enough = int(float(words[0]) * {"MiB": 1 << 20, "GiB": GIB}[words[1].rstrip(".;")])
            assert enough > limit
            limit = enough + (GIB // 10 if words[1].startswith("GiB") else 1 << 20)
    else:
        pytest.fail("no limit was ever enough")
    with pytest.raises(MemoryBudgetExceeded):
        plan(wide, 2, memory_limit=limit // 2, calibrate=False)


def test_a_budget_too_small_for_evaluating_scoring_or_writing_is_refused_before_reading(tmp_path: Path) -> None:
    encoder = batch_encoder(2, n_nonzero=3).fit(X)
    rows = Unreadable((10**9, 6), 10**8)
    with pytest.raises(MemoryBudgetExceeded, match="Nothing was read"):
        evaluate(rows, encoder, memory_limit="300MiB")
    with pytest.raises(MemoryBudgetExceeded, match="Nothing was read"):
        encoder.set_params(memory_limit="300MiB").score(rows)
    with pytest.raises(MemoryBudgetExceeded, match="Nothing was read"):
        transform_to_zarr(rows, encoder, str(tmp_path / "z.zarr"), memory_limit="300MiB")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("width", [1, 5, 7])
def test_rows_of_the_wrong_width_are_refused(width: int, tmp_path: Path) -> None:
    encoder, selector = batch_encoder(2, n_nonzero=3).fit(X), ColumnSelector(3).fit(X)
    rows = np.zeros((4, width))
    calls = [
        lambda: encoder.transform(rows),
        lambda: encoder.transform(da.from_array(rows)),
        lambda: encoder.score(rows),
        lambda: evaluate(rows, encoder),
        lambda: transform_to_zarr(rows, encoder, str(tmp_path / "z.zarr")),
        lambda: selector.transform(rows),
    ]
    for call in calls:
        with pytest.raises(InvalidInput, match=rf"X has {width} features, but \w+ is expecting 6 features"):
            call()
    with pytest.raises(InvalidInput, match=rf"the codes have {width} columns, not 2"):
        encoder.inverse_transform(rows)


@pytest.mark.parametrize("rows", [X[0], X[None], X.astype(str), X.astype(complex), X[:0]])
def test_rows_that_are_no_matrix_are_refused(rows: Any) -> None:
    for fitted in (batch_encoder(2, n_nonzero=3).fit(X), ColumnSelector(3).fit(X)):
        with pytest.raises(InvalidInput):
            fitted.transform(rows)


def test_nothing_is_done_before_a_fit(tmp_path: Path) -> None:
    encoder, selector = batch_encoder(), ColumnSelector()
    calls = [
        lambda: encoder.transform(X),
        lambda: encoder.inverse_transform(X[:, :2]),
        lambda: encoder.score(X),
        lambda: encoder.get_support(),
        lambda: encoder.get_feature_names_out(),
        lambda: evaluate(X, encoder),
        lambda: transform_to_zarr(X, encoder, str(tmp_path / "z.zarr")),
        lambda: save_encoder(encoder, tmp_path / "e.zarr"),
        lambda: selector.transform(X),
        lambda: selector.get_support(),
    ]
    for call in calls:
        with pytest.raises(NotFittedError):
            call()
    assert list(tmp_path.iterdir()) == []


def test_evaluation_refuses_unknown_strategies() -> None:
    with pytest.raises(InvalidInput, match="strategy='fancy'"):
        evaluate(X, batch_encoder(2, n_nonzero=3).fit(X), strategy="fancy")


def test_encoders_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        load_encoder(tmp_path / "none.zarr")
    zarr_array(tmp_path / "x.zarr", X, (10, 6))
    with pytest.raises(InvalidInput, match="is not an encoder"):
        load_encoder(tmp_path / "x.zarr")


def test_every_error_of_a_fit_is_of_the_package() -> None:
    for given in (X[:1], X[0], X.astype(str), "nowhere.zarr"):
        with pytest.raises(SpaeError):
            batch_encoder(2, n_nonzero=3).fit(given)


def test_a_failed_fit_leaves_the_former_one() -> None:
    encoder = batch_encoder(2, n_nonzero=3).fit(X)
    before = encoder.components_.copy()
    with pytest.raises(InvalidInput):
        encoder.fit(X[:, :2])
    assert encoder.components_.tobytes() == before.tobytes()
    assert encoder.n_features_in_ == 6
