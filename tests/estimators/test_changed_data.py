"""Data that change while a run reads them, or before it is resumed: no result is made of two states of them."""

import os
import shutil
from contextlib import nullcontext
from pathlib import Path

import dask.array as da
import h5py
import numpy as np
import pandas as pd
import pytest
import zarr
from dask import delayed

from spae_dask import evaluate
from spae_dask.errors import DataChanged, MissingChunksWarning, OtherCheckpoint, SpaeError
from spae_dask.estimators.writing import transform_to_zarr
from spae_dask.passes.events import PassEnded, RowsDone
from spae_dask.storage.open import open_matrix
from tests.estimators.sources import batch_encoder

N, D = 1200, 24
PLACES = range(0, N, 100)


def data(seed=0):
    rng = np.random.default_rng(seed)
    return (rng.normal(size=(N, 3)) @ rng.normal(size=(3, D)) + 0.3 * rng.normal(size=(N, D))).astype("f4")


def zarr_at(path: Path, X):
    array = zarr.create_array(str(path), shape=X.shape, chunks=(100, D), dtype=X.dtype)
    array[:] = X
    return array


def once(kind, change):
    """A watcher that changes the data at the first event of a kind."""
    left = [change]

    def watch(event):
        if isinstance(event, kind) and left:
            left.pop()()

    return watch


def encoder(**options):
    return batch_encoder(2, n_nonzero=4, **options)


@pytest.mark.parametrize("event", [RowsDone, PassEnded])
@pytest.mark.parametrize("strategy", ["gram", "tsqr", "sketch", "stream", "sample", "paper"])
def test_a_chunk_written_meanwhile_is_named_by_every_strategy(tmp_path, strategy, event):
    X = data()
    array = zarr_at(tmp_path / "x.zarr", X)

    def change():
        array[700:800] = 2 * X[700:800]

    with pytest.raises(DataChanged, match=r"chunk 'c/7/0' of .*x\.zarr was written again"):
        encoder(strategy=strategy, progress=once(event, change)).fit(str(tmp_path / "x.zarr"))


@pytest.mark.parametrize(
    "options", [{"strategy": "sketch"}, {"strategy": "paper"}, {"strategy": "paper", "missing": "mean"}]
)
@pytest.mark.parametrize("becomes", ["other", "nan", "swapped"])
def test_rows_in_memory_that_change_between_passes_are_noticed(options, becomes):
    X = data()

    def change():
        if becomes == "swapped":
            X[[3, 700]] = X[[700, 3]]
        else:
            X[700] = np.nan if becomes == "nan" else X[700] * 1.01

    with pytest.raises(DataChanged, match="found other numbers"):
        encoder(**options, progress=once(PassEnded, change)).fit(X)


def test_a_dask_array_over_rows_that_change_is_noticed():
    X = data()
    rows = [da.from_delayed(delayed(lambda i: X[i : i + 100].copy(), pure=False)(i), (100, D), "f4") for i in PLACES]
    lazy = da.concatenate(rows)

    def change():
        X[:] *= 1.5

    with pytest.raises(DataChanged, match="found other numbers"):
        encoder(strategy="sketch", progress=once(PassEnded, change)).fit(lazy)


def test_a_source_that_stays_is_read_as_often_as_a_strategy_likes(tmp_path):
    X = data()
    zarr_at(tmp_path / "x.zarr", X)
    os.utime(tmp_path / "x.zarr" / "zarr.json")  # attributes may be written while a run goes on
    fitted = encoder(strategy="paper").fit(str(tmp_path / "x.zarr"))
    assert fitted.certificate_.passes == 5


def npy_at(path: Path, X):
    np.save(path.with_suffix(".npy"), X)
    return path.with_suffix(".npy")


def parquet_at(path: Path, X):
    pd.DataFrame(X, columns=[f"c{i}" for i in range(D)]).to_parquet(path.with_suffix(".parquet"), row_group_size=100)
    return path.with_suffix(".parquet")


def h5ad_at(path: Path, X):
    file = path.with_suffix(".h5ad")
    with h5py.File(file, "w") as out:
        out.attrs["encoding-type"], out.attrs["encoding-version"] = "anndata", "0.1.0"
        out.create_dataset("X", data=X, chunks=(100, D))
        out["X"].attrs["encoding-type"], out["X"].attrs["encoding-version"] = "array", "0.2.0"
    return file


@pytest.mark.parametrize("make", [npy_at, parquet_at, h5ad_at])
def test_files_that_are_replaced_meanwhile_are_named(tmp_path, make):
    path = make(tmp_path / "x", data())
    other = make(tmp_path / "y", data(1))
    with pytest.raises(SpaeError, match=rf"{path.name} of .* was written again"):
        encoder(strategy="gram", progress=once(RowsDone, lambda: shutil.copy(other, path))).fit(str(path))


def test_an_evaluation_and_codes_of_data_that_change_are_refused(tmp_path):
    X = data()
    array = zarr_at(tmp_path / "x.zarr", X)
    fitted = encoder().fit(X)

    def change():
        array[700:800] = 0

    with pytest.raises(DataChanged, match="'c/7/0'"):
        evaluate(str(tmp_path / "x.zarr"), fitted, progress=once(PassEnded, change))
    array[:] = X
    with pytest.raises(DataChanged, match="'c/7/0'"):
        transform_to_zarr(str(tmp_path / "x.zarr"), fitted, str(tmp_path / "z.zarr"), progress=once(RowsDone, change))
    assert not (tmp_path / "z.zarr").exists()


class Killed(Exception):
    """Stands for a process that ends."""


@pytest.mark.parametrize("change", ["written again", "was removed", "appeared"])
def test_a_checkpoint_is_not_gone_on_with_on_other_data(tmp_path, change):
    X = data()
    array = zarr_at(tmp_path / "x.zarr", X)
    seventh = tmp_path / "x.zarr" / "c" / "7" / "0"
    if change == "appeared":
        seventh.unlink()
    place = tmp_path / "run"

    def die():
        raise Killed

    options = {"strategy": "sketch", "checkpoint": str(place)}
    missing = pytest.warns(MissingChunksWarning) if change == "appeared" else nullcontext()
    with missing, pytest.raises(Killed):
        encoder(**options, progress=once(PassEnded, die)).fit(str(tmp_path / "x.zarr"))
    assert (place / "checkpoint.json").exists()
    # rows that are in no sample, of the same shape and type
    if change == "was removed":
        seventh.unlink()
    else:
        array[700:800] = 2 * X[700:800]
    gone = pytest.warns(MissingChunksWarning) if change == "was removed" else nullcontext()
    with gone, pytest.raises(OtherCheckpoint, match=f"chunk 'c/7/0' of .*{change}"):
        encoder(**options).fit(str(tmp_path / "x.zarr"))


def test_a_checkpoint_is_gone_on_with_on_the_same_data(tmp_path):
    zarr_at(tmp_path / "x.zarr", data())
    options = {"strategy": "sketch", "checkpoint": str(tmp_path / "run")}

    def die():
        raise Killed

    with pytest.raises(Killed):
        encoder(**options, progress=once(PassEnded, die)).fit(str(tmp_path / "x.zarr"))
    events = []
    resumed = encoder(**options, progress=events.append).fit(str(tmp_path / "x.zarr"))
    whole = encoder(strategy="sketch").fit(str(tmp_path / "x.zarr"))
    np.testing.assert_array_equal(resumed.components_, whole.components_)
    assert any(type(each).__name__ == "Resumed" for each in events)


def test_open_sources_tell_their_files(tmp_path):
    path = npy_at(tmp_path / "x", data())
    assert list(open_matrix(str(path)).files) == [str(path)]
