"""Zarr stores of any kind: what is counted, how a change is noticed, and what travels to other processes."""

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from distributed import Client

from spae_dask import SparseEncoder
from spae_dask.blocks import RowBlocks
from spae_dask.errors import DataChanged, InvalidInput
from spae_dask.storage.open import open_matrix
from spae_dask.storage.sources.stored_chunks import check_chunks
from tests.conftest import ClusterOpener
from tests.estimators.sources import batch_encoder
from tests.zarr_stores import IN_PROCESS, MEMBER, STORED, Matrix, Written, commit, icechunk_session, put, repository

X = np.random.default_rng(0).standard_normal((80, 6)) @ np.diag([5.0, 4, 3, 2, 1, 1])
OTHER = np.concatenate([X[:40], X[40:] + 1])

Maker = Callable[[Path, Matrix], Written]

PICKLED = [each for each in STORED if each is not icechunk_session]


@pytest.fixture(scope="module")
def client(open_cluster: ClusterOpener) -> Client:
    return open_cluster(1)


def opened(store: Any) -> RowBlocks:
    return open_matrix(zarr.open_group(store, mode="r"), array=MEMBER)


def rows(source: RowBlocks) -> Any:
    return np.concatenate([source.read(i) for i in range(len(source.bounds) - 1)])


def loss(x: Any) -> float:
    return float(batch_encoder(n_components=2, n_nonzero=3, random_state=0).fit(x).certificate_.loss)


@pytest.mark.parametrize("make", [*STORED, *IN_PROCESS])
def test_a_fit_is_that_of_the_array(make: Maker, tmp_path: Path) -> None:
    source = opened(make(tmp_path, X).store)
    assert loss(source) == pytest.approx(loss(X), rel=1e-12)


@pytest.mark.parametrize("make", [*STORED, *IN_PROCESS])
def test_chunks_are_counted(make: Maker, tmp_path: Path) -> None:
    checked = check_chunks(opened(make(tmp_path, X).store))
    assert checked.chunks is not None
    assert (checked.chunks.n_expected, checked.chunks.n_missing) == (4, 0)


@pytest.mark.parametrize("make", STORED)
def test_a_change_is_noticed(make: Maker, tmp_path: Path) -> None:
    store, write = make(tmp_path, X)
    checked = check_chunks(opened(store))
    checked.refuse_changed()
    write(OTHER)
    with pytest.raises(DataChanged, match="written again"):
        checked.refuse_changed()


@pytest.mark.parametrize("make", STORED)
def test_a_chunk_that_is_not_stored_is_named(make: Maker, tmp_path: Path) -> None:
    sparse = X.copy()
    sparse[20:40] = 0
    store, _ = make(tmp_path, sparse)
    if store.supports_writes and not store.read_only:
        zarr.open_group(store, mode="a").create_array("y", shape=X.shape, chunks=(20, 6), dtype="f8")[:20] = X[:20]
        checked = check_chunks(open_matrix(zarr.open_group(store, mode="r"), array="y"))
        assert checked.missing_chunks is not None
        assert "3 of 4 chunks are not stored" in checked.missing_chunks


@pytest.mark.parametrize("make", PICKLED)
def test_the_source_travels(make: Maker, tmp_path: Path) -> None:
    checked = check_chunks(opened(make(tmp_path, X).store))
    there = pickle.loads(pickle.dumps(checked.source))
    np.testing.assert_array_equal(rows(there), X)
    assert there.describe() == checked.source.describe()  # or a checkpoint would be refused
    assert " object at 0x" not in there.describe()


@pytest.mark.parametrize("make", PICKLED)
def test_worker_processes_read_it(make: Maker, tmp_path: Path, client: Client) -> None:
    with client.as_current():
        assert loss(opened(make(tmp_path, X).store)) == pytest.approx(loss(X), rel=1e-12)


@pytest.mark.parametrize("make", IN_PROCESS)
def test_a_store_in_memory_is_read_in_its_process(make: Maker, tmp_path: Path, client: Client) -> None:
    source = opened(make(tmp_path, X).store)
    assert source.in_process
    with client.as_current():
        assert loss(source) == pytest.approx(loss(X), rel=1e-12)


def test_a_snapshot_does_not_change_under_a_run(tmp_path: Path) -> None:
    made = repository(tmp_path, X)
    checked = check_chunks(opened(made.readonly_session("main").store))
    commit(made, OTHER)
    checked.refuse_changed()
    np.testing.assert_array_equal(rows(checked.source), X)


def test_a_checkpoint_resumes_on_its_snapshot_alone(tmp_path: Path) -> None:
    made = repository(tmp_path, X)

    def fit() -> SparseEncoder:
        encoder = batch_encoder(n_components=2, n_nonzero=3, random_state=0, checkpoint=str(tmp_path / "c"))
        return encoder.fit(opened(made.readonly_session("main").store))

    first = fit().certificate_.loss
    assert fit().certificate_.loss == first
    old, new = made.lookup_branch("main"), commit(made, X)  # the same numbers: the snapshot is what counts
    assert old != new
    with pytest.raises(InvalidInput, match=f"{old}.*{new}"):
        fit()


def test_a_store_that_cannot_be_listed_is_read_uncounted(tmp_path: Path) -> None:
    class Unlisted(type(zarr.storage.MemoryStore())):  # type: ignore[misc]  # as VirtualiZarr's store of manifests
        async def list_prefix(self, prefix: str) -> Any:
            raise NotImplementedError(prefix)
            yield

    store = Unlisted()
    put(store, X)
    assert check_chunks(opened(store)).chunks is None
    assert loss(opened(store)) == pytest.approx(loss(X), rel=1e-12)
