"""A number that stands for missing is treated like NaN, in every kind of source and wherever the encoder goes."""

import pickle

import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp
import zarr
from sklearn.base import clone

from spae_dask import evaluate, load_encoder, plan
from spae_dask.errors import InvalidInput, NonFiniteInput, OtherCheckpoint
from spae_dask.estimators.checking import check
from spae_dask.estimators.saved import save_encoder
from spae_dask.storage.open import open_matrix
from spae_dask.storage.sources.sentinel import with_missing
from tests.estimators.sources import batch_encoder


@pytest.fixture(scope="module")
def genotypes():
    """Calls 0, 1, 2 of 400 samples at 15 variants, a twentieth missing: -1."""
    rng = np.random.default_rng(0)
    ancestry = rng.random((400, 2)) @ rng.random((2, 15))
    calls = rng.binomial(2, np.clip(ancestry / 2, 0, 1)).astype(np.int8)
    calls[rng.random(calls.shape) < 0.05] = -1
    return calls


def as_nan(calls):
    return np.where(calls == -1, np.nan, calls.astype(np.float64))


@pytest.fixture(params=["numpy", "npy", "zarr", "dask", "csr"])
def source(request, genotypes, tmp_path):
    if request.param == "npy":
        np.save(tmp_path / "x.npy", genotypes)
        return str(tmp_path / "x.npy")
    if request.param == "zarr":
        zarr.create_array(tmp_path / "x.zarr", data=genotypes, chunks=(37, 6))
        return str(tmp_path / "x.zarr")
    return {
        "numpy": genotypes,
        "dask": da.from_array(genotypes, chunks=(90, 15)),
        "csr": sp.csr_array(genotypes),
    }.get(request.param)


@pytest.mark.parametrize("missing", ["mean", "zero"])
@pytest.mark.parametrize("strategy", ["gram", "sketch"])
def test_the_fit_and_the_codes_are_those_of_nan(genotypes, source, missing, strategy):
    options = {"n_nonzero": 3, "missing": missing, "strategy": strategy}
    wanted = batch_encoder(2, **options).fit(as_nan(genotypes))
    found = batch_encoder(2, missing_value=-1, **options).fit(source)
    assert np.array_equal(found.selected_features_, wanted.selected_features_)
    assert found.certificate_.loss == pytest.approx(wanted.certificate_.loss, rel=1e-9)
    codes = np.asarray(found.transform(source), dtype=np.float64)
    assert codes == pytest.approx(np.asarray(wanted.transform(as_nan(genotypes))), abs=1e-6)
    assert evaluate(source, found).loss == pytest.approx(wanted.certificate_.loss, rel=1e-6)


def test_without_leave_missing_calls_are_refused_where_they_are(source, genotypes):
    row, column = np.argwhere(genotypes == -1)[0]
    with pytest.raises(NonFiniteInput, match=f"row {row}, column {column}"):
        batch_encoder(2, n_nonzero=3, missing_value=-1).fit(source)


def test_a_saved_encoder_knows_it_and_check_counts_it(genotypes, source, tmp_path):
    encoder = batch_encoder(2, n_nonzero=3, missing="mean", missing_value=-1).fit(source)
    save_encoder(encoder, tmp_path / "e.zarr")
    loaded = load_encoder(tmp_path / "e.zarr")
    assert loaded.missing_value == -1
    assert np.array_equal(np.asarray(loaded.transform(source)), np.asarray(encoder.transform(source)))
    assert check(source, missing_value=-1).n_nan == np.count_nonzero(genotypes == -1)
    assert plan(source, 2, n_nonzero=3, missing="mean", missing_value=-1).dtype == "float32"


def test_stores_are_marked_block_by_block_in_any_process(genotypes, tmp_path):
    zarr.create_array(tmp_path / "x.zarr", data=genotypes, chunks=(37, 6))
    marked = pickle.loads(pickle.dumps(with_missing(open_matrix(str(tmp_path / "x.zarr")), -1)))
    blocks = [marked.read(i) for i in range(len(marked.bounds) - 1)]
    assert np.array_equal(np.concatenate(blocks), as_nan(genotypes).astype(np.float32), equal_nan=True)
    assert marked.decodes_per_chunk == 1
    assert marked.read_nbytes > open_matrix(str(tmp_path / "x.zarr")).read_nbytes


@pytest.mark.parametrize("several", [(-1, 2), [2.0, -1.0], np.array([-1, 2])])
def test_several_numbers_are_all_missing(genotypes, source, several, tmp_path):
    marked = np.where((genotypes == -1) | (genotypes == 2), np.nan, genotypes.astype(np.float64))
    wanted = batch_encoder(2, n_nonzero=3, missing="mean").fit(marked)
    found = batch_encoder(2, n_nonzero=3, missing="mean", missing_value=several).fit(source)
    assert found.mean_ == pytest.approx(wanted.mean_, rel=1e-6)
    assert found.certificate_.loss == pytest.approx(wanted.certificate_.loss, rel=1e-9)
    save_encoder(found, tmp_path / "e.zarr")
    loaded = load_encoder(tmp_path / "e.zarr")
    assert loaded.missing_value == [float(each) for each in several]
    assert np.array_equal(np.asarray(loaded.transform(source)), np.asarray(found.transform(source)))
    assert clone(loaded).missing_value == loaded.missing_value
    assert check(source, missing_value=several).n_nan == np.isnan(marked).sum()


def test_a_checkpoint_knows_all_of_them(genotypes, tmp_path):
    np.save(tmp_path / "x.npy", genotypes)
    fit = batch_encoder(2, n_nonzero=3, missing="zero", missing_value=(-1, 2), checkpoint=tmp_path / "run")
    fit.fit(tmp_path / "x.npy")
    with pytest.raises(OtherCheckpoint, match="missing_value"):
        fit.set_params(missing_value=-1).fit(tmp_path / "x.npy")


@pytest.mark.parametrize("wrong", [-200, 0.5, float("nan"), "x", True, (), [-1, "x"], [-1, -200], [[-1]]])
def test_a_number_that_cannot_occur_is_refused(genotypes, wrong):
    with pytest.raises(InvalidInput, match="missing_value"):
        batch_encoder(2, n_nonzero=3, missing_value=wrong).fit(genotypes)


def test_wide_integers_keep_their_digits():
    X = np.array([[2**40 + 1, -1], [2**40 + 3, 5], [7, 9]], dtype=np.int64)
    assert with_missing(open_matrix(X), -1).read(0)[0, 0] == 2**40 + 1


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
@pytest.mark.parametrize("kind", [float, np.float64, np.float32])
def test_a_number_that_the_type_cannot_hold_is_found_as_the_nearest_one(dtype, kind):
    X = np.random.default_rng(1).standard_normal((50, 4)).astype(dtype)
    X[::5, 2] = kind(-999.9)
    found = batch_encoder(1, n_nonzero=2, missing="mean", missing_value=kind(-999.9)).fit(X)
    marked = np.where(np.arange(50) % 5 == 0, np.nan, X[:, 2].astype(np.float64))
    assert found.mean_[2] == pytest.approx(np.nanmean(marked), abs=1e-12)
