"""dask arrays of unknown length and dask DataFrames: counted where that is needed, else never computed."""

import dask
import dask.array as da
import dask.bag
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn import config_context
from sklearn.decomposition import PCA

from spae_dask import ColumnSelector, evaluate, open_matrix, plan
from spae_dask.errors import InvalidInput, NotNumbers
from tests.estimators.sources import batch_encoder, spread

X = spread(np.random.default_rng(3), 300, 6)
NAMES = list("abcdef")
KEPT = X[:, 0] > np.median(X[:, 0])


def masked(chunks=(70, 6)) -> da.Array:
    """The rows that are kept, of unknown number."""
    x = da.from_array(X, chunks=chunks)
    return x[x[:, 0] > np.median(X[:, 0])]


def frame(n_parts: int = 4) -> dd.DataFrame:
    return dd.from_pandas(pd.DataFrame(X, columns=NAMES), npartitions=n_parts)


def never(*_: object, **__: object) -> None:
    raise AssertionError("computed")


@pytest.mark.parametrize("chunks", [(70, 6), (70, 2)])
def test_a_masked_array_fits_as_its_rows_do(chunks) -> None:
    lazy = batch_encoder(2, n_nonzero=3).fit(masked(chunks))
    lengths = masked((70, 6)).compute_chunk_sizes().chunks[0]
    eager = batch_encoder(2, n_nonzero=3).fit(da.from_array(X[KEPT], chunks=(lengths, 6)))
    assert lazy.components_.tobytes() == eager.components_.tobytes()
    assert lazy.certificate_.loss == eager.certificate_.loss
    assert lazy.n_samples_seen_ == KEPT.sum()


def test_counting_is_a_pass_and_the_plan_says_so() -> None:
    found = batch_encoder(2, n_nonzero=3).fit(masked())
    assert found.certificate_.passes == 2
    assert found.certificate_.bytes_read == 2 * X[KEPT].nbytes
    assert "counted them before this plan" in str(plan(masked(), 2, n_nonzero=3, calibrate=False))


def test_chunks_that_turn_out_empty_are_no_rows() -> None:
    x = da.from_array(X, chunks=(70, 6))
    none_of_the_first = x[da.arange(300, chunks=70) >= 70]
    found = batch_encoder(2, n_nonzero=3).fit(none_of_the_first)
    np.testing.assert_allclose(found.components_, batch_encoder(2, n_nonzero=3).fit(X[70:]).components_, atol=1e-5)


def test_an_array_without_any_row_left_is_refused() -> None:
    x = da.from_array(X, chunks=(70, 6))
    with pytest.raises(InvalidInput, match=r"0 sample"):
        batch_encoder(2, n_nonzero=3).fit(x[x[:, 0] > 1e9])


def test_transform_of_unknown_lengths_computes_nothing_and_is_right() -> None:
    encoder = batch_encoder(2, n_nonzero=3).fit(X)
    with dask.config.set(scheduler=never):
        codes = encoder.transform(masked((70, 2)))
        back = encoder.inverse_transform(codes)
    assert np.isnan(codes.chunks[0]).all()
    assert codes.shape[1] == 2
    assert (codes.dtype, type(codes._meta)) == (np.float64, np.ndarray)
    np.testing.assert_allclose(codes.compute(), encoder.transform(X[KEPT]), atol=1e-12)
    np.testing.assert_allclose(back.compute(), encoder.inverse_transform(encoder.transform(X[KEPT])), atol=1e-12)


def test_a_selector_takes_them_too() -> None:
    selector = ColumnSelector(3).fit(masked())
    with dask.config.set(scheduler=never):
        lazy = selector.transform(masked())
    np.testing.assert_array_equal(lazy.compute(), X[KEPT][:, selector.get_support()])


def test_lazy_results_have_the_type_and_shape_they_will_have() -> None:
    x = da.from_array(X.astype(np.float32), chunks=(70, 6))
    encoder = batch_encoder(2, n_nonzero=3).fit(x)
    with dask.config.set(scheduler=never):
        codes = encoder.transform(x)
    assert (codes.shape, codes.dtype, codes.chunks[0]) == ((300, 2), np.float32, (70, 70, 70, 70, 20))
    made = codes.compute()
    assert (made.shape, made.dtype) == ((300, 2), np.float32)


def test_a_dask_dataframe_fits_as_its_rows_do_and_keeps_its_names() -> None:
    encoder = batch_encoder(2, n_nonzero=3).fit(frame())
    np.testing.assert_allclose(encoder.components_, batch_encoder(2, n_nonzero=3).fit(X).components_, atol=1e-5)
    assert encoder.feature_names_in_.tolist() == NAMES
    assert evaluate(frame(), encoder).ratio == pytest.approx(encoder.certificate_.ratio)


def test_a_dask_dataframe_gives_the_bits_of_an_array_of_the_same_parts() -> None:
    lazy = batch_encoder(2, n_nonzero=3).fit(frame())
    lengths = tuple(frame().map_partitions(len).compute())
    rows = batch_encoder(2, n_nonzero=3).fit(da.from_array(X, chunks=(lengths, 6)))
    assert lazy.components_.tobytes() == rows.components_.tobytes()
    assert lazy.certificate_.loss == rows.certificate_.loss


def test_rows_are_counted_by_one_column_alone() -> None:
    asked = []

    def part(start: int, columns: list[str] | None = None) -> pd.DataFrame:
        asked.append(list(columns or NAMES))
        return pd.DataFrame(X[start : start + 100], columns=NAMES)[list(columns or NAMES)]

    plan(dd.from_map(part, [0, 100, 200], meta=pd.DataFrame(X[:0], columns=NAMES)), 2, n_nonzero=3, calibrate=False)
    assert asked == [["a"]] * 3


def test_columns_of_different_types_become_one_and_nulls_are_missing() -> None:
    table = pd.DataFrame(X, columns=NAMES)
    table["a"] = table["a"].astype(np.float32)
    table["g"] = pd.array(np.arange(300) % 7, dtype="Int32")
    table.loc[5, "g"] = pd.NA
    table["h"] = np.arange(300) % 2 == 0
    lazy = dd.from_pandas(table, npartitions=3)
    filled = batch_encoder(2, n_nonzero=3, missing="mean").fit(lazy)
    values = table.astype(float).to_numpy()
    assert np.isnan(values).sum() == 1
    wanted = batch_encoder(2, n_nonzero=3, missing="mean").fit(values)
    np.testing.assert_allclose(filled.components_, wanted.components_, atol=1e-7)


def test_columns_that_are_no_numbers_are_named() -> None:
    table = pd.DataFrame(X, columns=NAMES).assign(city="x", day=pd.Timestamp("2020-01-01"))
    with pytest.raises(NotNumbers, match=r"2 of 8 columns are not numbers: 'city' \(.*\), 'day' \(datetime64"):
        batch_encoder(2, n_nonzero=3).fit(dd.from_pandas(table, npartitions=2))


def test_columns_of_a_dask_dataframe_are_chosen_by_name_and_pattern() -> None:
    rows = open_matrix(frame().assign(x_1=1.0, city="x"), columns=["f", "x_*", "a"])
    np.testing.assert_array_equal(np.concatenate([rows.read(i) for i in range(4)])[:, [0, 2]], X[:, [5, 0]])
    with pytest.raises(InvalidInput, match="'x_1'"):
        open_matrix(frame().assign(x_1=1.0), columns=["x1"])


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (dask.delayed(never, pure=True)(), "a Delayed of dask is not a matrix"),
        (dask.bag.from_delayed([dask.delayed(never, pure=True)()]), "a Bag of dask is not a matrix"),
        (frame()["a"], "a Series of dask is not a matrix"),
        (frame()[[]], "no columns: found 0 feature"),
        (da.zeros((4, 3, 2)), "Expected 2D array"),
        (da.zeros(4), "Expected 2D array"),
        (da.zeros((4, 3), dtype=complex), "Complex data not supported"),
    ],
)
def test_what_is_no_matrix_is_refused_and_never_computed(given, said) -> None:
    encoder = batch_encoder(2, n_nonzero=3).fit(X)
    with dask.config.set(scheduler=never):
        for door in (batch_encoder(2, n_nonzero=3).fit, encoder.transform, encoder.inverse_transform):
            with pytest.raises(InvalidInput, match=said):
                door(given)


@pytest.mark.parametrize("columns", [NAMES[::-1], NAMES[:5], [*NAMES[:5], "g"]], ids=["order", "missing", "renamed"])
def test_other_columns_than_those_of_the_fit_are_told_in_the_words_of_scikit_learn(columns) -> None:
    table = pd.DataFrame(X, columns=NAMES)
    encoder, selector = batch_encoder(2, n_nonzero=3).fit(table), ColumnSelector(2).fit(frame())
    other = pd.DataFrame(X[:, : len(columns)], columns=columns)
    with pytest.raises(ValueError, match="feature names should match") as theirs:
        PCA(2).fit(table).transform(other)
    for rows in (other, dd.from_pandas(other, npartitions=2)):
        for fitted in (encoder, selector):
            with dask.config.set(scheduler=never), pytest.raises(ValueError, match="feature names") as ours:
                fitted.transform(rows)
            assert str(ours.value) == str(theirs.value)


def test_the_same_rows_have_the_same_tasks() -> None:
    encoder, selector = batch_encoder(2, n_nonzero=3).fit(X), ColumnSelector(3).fit(X)
    unnamed = dd.from_pandas(pd.DataFrame(X), npartitions=3)
    for rows in (masked(), da.from_array(X, chunks=(70, 2)), unnamed):
        codes, kept = encoder.transform(rows), selector.transform(rows)
        assert codes.name == encoder.transform(rows).name
        assert codes.name != batch_encoder(2, n_nonzero=2).fit(X).transform(rows).name
        assert encoder.inverse_transform(codes).name == encoder.inverse_transform(codes).name
        assert selector.inverse_transform(kept).name == selector.inverse_transform(kept).name


def test_transform_is_a_function_of_partitions_that_dask_can_try_on_its_own_empty_rows() -> None:
    encoder = batch_encoder(2, n_nonzero=3).set_output(transform="pandas").fit(frame())
    codes = frame().map_partitions(encoder.transform)
    assert list(codes.columns) == ["sparseencoder0", "sparseencoder1"]
    np.testing.assert_allclose(codes.compute(), encoder.transform(frame()).compute(), atol=1e-12)
    meta = np.empty((0, 0), dtype=np.float64)
    lazy = da.from_array(X, chunks=(70, 6)).map_blocks(batch_encoder(2, n_nonzero=3).fit(X).transform, meta=meta)
    np.testing.assert_allclose(lazy.compute(), codes.compute(), atol=1e-5)


def test_selected_columns_go_back_among_zeros_lazily() -> None:
    selector = ColumnSelector(3).fit(X)
    wanted = np.where(selector.get_support(), X, 0)
    for rows, lengths in ((masked((70, 2)), KEPT), (da.from_array(X, chunks=(70, 6)), slice(None))):
        with dask.config.set(scheduler=never):
            back = selector.inverse_transform(selector.transform(rows))
        assert isinstance(back, da.Array)
        assert (back.dtype, back.numblocks) == (np.float64, (5, 1))
        np.testing.assert_array_equal(back.compute(), wanted[lengths])
    thin = selector.transform(da.from_array(X, chunks=(70, 6)).map_blocks(sp.csr_array))
    np.testing.assert_array_equal(selector.inverse_transform(thin).compute(), wanted)
    for wrong in (X, masked()):
        with dask.config.set(scheduler=never), pytest.raises(InvalidInput, match="6 columns, but 3 are selected"):
            selector.inverse_transform(wrong)


def test_pandas_output_of_lazy_input_is_a_dask_frame() -> None:
    encoder = batch_encoder(2, n_nonzero=3).set_output(transform="pandas").fit(frame())
    with dask.config.set(scheduler=never):
        codes = encoder.transform(frame())
    assert isinstance(codes, dd.DataFrame)
    assert list(codes.columns) == ["sparseencoder0", "sparseencoder1"]
    wanted = batch_encoder(2, n_nonzero=3).set_output(transform="pandas").fit(X).transform(X)
    pd.testing.assert_frame_equal(codes.compute(), wanted)


def test_the_index_of_a_lazy_frame_stays() -> None:
    table = pd.DataFrame(X, columns=NAMES, index=[f"row{i:03d}" for i in range(300)])
    encoder = batch_encoder(2, n_nonzero=3).set_output(transform="pandas").fit(X)
    codes = encoder.fit_transform(dd.from_pandas(table, npartitions=3))
    assert codes.compute().index.tolist() == table.index.tolist()


def test_the_global_configuration_counts_too() -> None:
    with config_context(transform_output="pandas"):
        assert isinstance(batch_encoder(2, n_nonzero=3).fit_transform(da.from_array(X, chunks=(70, 6))), dd.DataFrame)
        assert isinstance(batch_encoder(2, n_nonzero=3).fit_transform(X), pd.DataFrame)


def test_polars_holds_eager_results_and_refuses_lazy_ones() -> None:
    polars = pytest.importorskip("polars")
    encoder = batch_encoder(2, n_nonzero=3).set_output(transform="polars")
    assert isinstance(encoder.fit_transform(X), polars.DataFrame)
    with pytest.raises(InvalidInput, match=r"cannot hold a lazy result.*'pandas', a dask DataFrame"):
        encoder.transform(da.from_array(X, chunks=(70, 6)))


def test_selected_columns_keep_their_names() -> None:
    table = pd.DataFrame(X, columns=NAMES)
    selector = ColumnSelector(3).set_output(transform="pandas").fit(table)
    names = [name for name, kept in zip(NAMES, selector.get_support(), strict=True) if kept]
    pd.testing.assert_frame_equal(selector.transform(table), table[names])
    pd.testing.assert_frame_equal(selector.transform(frame()).compute(), table[names])
    assert selector.inverse_transform(table[names].to_numpy()).shape == X.shape


def test_the_wrong_number_of_columns_is_refused_before_anything_is_counted() -> None:
    encoder = batch_encoder(2, n_nonzero=3).fit(X)
    with dask.config.set(scheduler=never), pytest.raises(InvalidInput, match="X has 5 features"):
        encoder.transform(masked()[:, :5])
