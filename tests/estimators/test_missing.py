"""NaN and infinity: refused with their place and number, or filled as asked, at the stated number of reads."""

import re
from typing import Any

import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp
from zarr.storage import MemoryStore

from spae_dask import ColumnSelector, evaluate
from spae_dask.errors import NonFiniteInput
from tests.estimators.sources import FloatArray, Watched, batch_encoder, spread, zarr_array


@pytest.fixture
def X() -> FloatArray:  # noqa: N802 - the paper's name
    return spread(np.random.default_rng(0), 900, 7)


def with_gaps(X: FloatArray) -> FloatArray:
    X = X.copy()
    X[np.random.default_rng(1).random(X.shape) < 0.05] = np.nan
    X[0] = np.nan
    return X


def containers(X: Any) -> dict[str, Any]:
    return {
        "numpy": X,
        "float32": X.astype(np.float32),
        "dask": da.from_array(X, chunks=(70, 3)),
        "zarr": zarr_array(MemoryStore(), X, (70, 3)),
        "watched": Watched(X, rows_per_block=70),
        "sparse": sp.csr_array(X),
    }


@pytest.mark.parametrize("kind", ["numpy", "float32", "dask", "zarr", "watched", "sparse"])
@pytest.mark.parametrize("strategy", ["gram", "tsqr"])
@pytest.mark.parametrize(("bad", "words"), [(np.nan, "3 NaN entries"), (np.inf, "3 infinite"), (-np.inf, "3 infinite")])
def test_the_first_place_and_the_number_are_named(
    X: FloatArray, kind: str, strategy: str, bad: float, words: str
) -> None:
    for row, column in ((611, 5), (611, 2), (899, 2)):
        X[row, column] = bad
    with pytest.raises(NonFiniteInput) as caught:
        batch_encoder(2, n_nonzero=3, strategy=strategy).fit(containers(X)[kind])
    text = str(caught.value)
    assert words in text
    assert "in 2 column(s)" in text
    assert "row 611, column 2" in text
    assert ("missing='mean'" in text) == bool(np.isnan(bad))


@pytest.mark.parametrize("missing", ["mean", "zero"])
def test_infinity_is_never_filled(X: FloatArray, missing: str) -> None:
    X[3, 4] = np.inf
    with pytest.raises(NonFiniteInput, match="row 3, column 4"):
        batch_encoder(2, n_nonzero=3, missing=missing).fit(X)


@pytest.mark.parametrize("kind", ["numpy", "dask", "zarr", "watched", "sparse"])
@pytest.mark.parametrize("strategy", ["gram", "tsqr"])
@pytest.mark.parametrize("scale", [False, True])
def test_filling_agrees_with_filling_by_hand(X: FloatArray, kind: str, strategy: str, scale: bool) -> None:
    gappy = with_gaps(X)
    for missing, values in (("mean", np.nanmean(gappy, axis=0)), ("zero", np.zeros(7))):
        filled = np.where(np.isnan(gappy), values, gappy)
        parameters = {"n_components": 2, "n_nonzero": 3, "strategy": strategy, "scale": scale}
        given = containers(gappy)[kind]
        found = batch_encoder(**parameters, missing=missing).fit(given)
        wanted = batch_encoder(**parameters).fit(filled)
        np.testing.assert_allclose(found.fill_, values, rtol=1e-12)
        assert found.selected_features_.tolist() == wanted.selected_features_.tolist()
        np.testing.assert_allclose(found.components_, wanted.components_, atol=1e-9)
        assert found.certificate_.loss == pytest.approx(wanted.certificate_.loss, rel=1e-9)
        np.testing.assert_allclose(np.asarray(found.transform(given)), wanted.transform(filled), atol=1e-9)
        assert found.score(given) == pytest.approx(wanted.score(filled), rel=1e-9)
        assert evaluate(given, found).decoder_loss == pytest.approx(found.certificate_.loss, rel=1e-9)


@pytest.mark.parametrize(("missing", "passes"), [("error", 1), ("zero", 1), ("mean", 2)])
def test_only_the_mean_costs_one_more_read(X: FloatArray, missing: str, passes: int) -> None:
    source = Watched(X, rows_per_block=100)
    encoder = batch_encoder(2, n_nonzero=3, missing=missing).fit(source)
    assert len(source.reads) == 9 * passes
    assert encoder.certificate_.passes == len(encoder.plan_.passes) == passes
    assert encoder.certificate_.bytes_read == encoder.plan_.bytes_read == passes * X.nbytes


def test_a_column_of_nothing_but_gaps_is_constant_and_never_selected(X: FloatArray) -> None:
    X[:, 2] = np.nan
    encoder = batch_encoder(2, n_nonzero=6, missing="mean", scale=True).fit(X)
    assert encoder.constant_features_.tolist() == [2]
    assert 2 not in encoder.selected_features_
    assert encoder.inverse_transform(encoder.transform(X)).shape == X.shape


def test_a_constant_column_with_gaps_stays_constant(X: FloatArray) -> None:
    X[:, 4] = 0.1
    X[::3, 4] = np.nan
    for strategy in ("gram", "tsqr"):
        encoder = batch_encoder(2, n_nonzero=6, missing="mean", scale=True, strategy=strategy).fit(X)
        assert encoder.constant_features_.tolist() == [4]
        assert encoder.fill_ is not None
        assert encoder.fill_[4] == 0.1


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("used", [True, False])
def test_arrays_in_memory_are_refused_at_transform_wherever_the_entry_is(X: FloatArray, bad: float, used: bool) -> None:
    encoder, selector = batch_encoder(2, n_nonzero=3).fit(X), ColumnSelector(3).fit(X)
    selected = encoder.selected_features_
    column = int(selected[0] if used else np.setdiff1d(np.arange(7), selected)[0])
    X[17, column] = bad
    for given in (X, X.astype(np.float32), sp.csr_array(X)):
        for transform in (encoder.transform, selector.transform):
            with pytest.raises(NonFiniteInput, match=f"row 17, column {column}"):
                transform(given)


@pytest.mark.parametrize(("bad", "word"), [(np.nan, "NaN"), (np.inf, "infinity"), (-np.inf, "infinity")])
def test_lazy_rows_are_refused_when_computed_if_the_entry_is_used(X: FloatArray, bad: float, word: str) -> None:
    encoder = batch_encoder(2, n_nonzero=3).fit(X)
    selected = encoder.selected_features_
    unused = int(np.setdiff1d(np.arange(7), selected)[0])
    X[17, unused] = bad
    codes = encoder.transform(da.from_array(X, chunks=(10, 4))).compute()
    assert np.isfinite(codes).all()
    X[17, selected[1]] = bad
    lazy = encoder.transform(da.from_array(X, chunks=(10, 4)))
    where = re.escape(f"in row chunk 1, with rows numbered from 0: Input X contains {word} at row 7")
    with pytest.raises(NonFiniteInput, match=where):
        lazy.compute()


def test_infinity_is_refused_at_transform_even_if_gaps_are_filled(X: FloatArray) -> None:
    encoder = batch_encoder(2, n_nonzero=3, missing="mean").fit(X)
    X[17, encoder.selected_features_[0]] = np.inf
    with pytest.raises(NonFiniteInput, match="infinity at row 17"):
        encoder.transform(X)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_scoring_and_evaluating_refuse_what_the_fit_refused(X: FloatArray, bad: float) -> None:
    encoder = batch_encoder(2, n_nonzero=3).fit(X)
    X[800, 0] = bad
    for call in (encoder.score, lambda rows: evaluate(rows, encoder)):
        with pytest.raises(NonFiniteInput, match="row 800, column 0"):
            call(Watched(X, rows_per_block=70))


def test_integers_and_booleans_have_no_gaps_to_look_for(X: FloatArray) -> None:
    counts = np.abs(X).astype(np.int16)
    for missing in ("mean", "zero"):
        found = batch_encoder(2, n_nonzero=3, missing=missing).fit(counts)
        assert found.components_.tobytes() == batch_encoder(2, n_nonzero=3).fit(counts).components_.tobytes()
