"""Which failures of a store are worth another try."""

import errno
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from zarr.storage import LocalStore

from spae_dask.errors import StorageError, TransientStorageError
from spae_dask.passes.sweep import read_again
from spae_dask.storage.remote.faults import is_transient
from spae_dask.storage.sources.npy_blocks import NpyBlocks
from spae_dask.storage.sources.runs import read_run
from spae_dask.storage.sources.zarr_blocks import ZarrBlocks


class Response(Exception):
    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


def caused_by(cause: Exception) -> Exception:
    error = RuntimeError("the codec pipeline failed")
    error.__cause__ = cause
    return error


def tried_already() -> StorageError:
    """As a request to an object store that was repeated and failed for good."""
    error = StorageError("s3://bucket/c/0 cannot be read")
    error.__cause__ = ConnectionResetError()
    return error


@pytest.mark.parametrize(
    "error",
    [
        TimeoutError(),
        ConnectionResetError(),
        OSError(errno.EBUSY, "SlowDown"),
        OSError(errno.EIO, "input/output error"),
        OSError(errno.ESTALE, "stale file handle"),
        Response(503),
        Response(429),
        caused_by(TimeoutError()),
    ],
    ids=repr,
)
def test_a_store_that_is_slow_throttled_or_out_of_reach_may_recover(error: Exception) -> None:
    assert is_transient(error)


@pytest.mark.parametrize(
    "error",
    [
        FileNotFoundError(),
        PermissionError(errno.EACCES, "no"),
        OSError(errno.ENOSPC, "full"),
        OSError("the file ends early"),
        Response(403),
        Response(404),
        ValueError("not a zstd frame"),
        caused_by(FileNotFoundError()),
        Response(501),
        ValueError("the codec's payload: error decoding response body, connection lost, status code: 503"),
        tried_already(),
    ],
    ids=repr,
)
def test_what_is_missing_forbidden_or_garbled_stays_so(error: Exception) -> None:
    assert not is_transient(error)


def test_errors_that_are_each_other_s_cause_are_looked_at_once() -> None:
    a, b = ValueError("a"), ValueError("b")
    a.__cause__, b.__cause__ = b, a
    assert not is_transient(a)


class Throttled(LocalStore):
    """A store that refuses chunks as an object store does that has too much to do."""

    refused = 0
    until = 1 << 30

    async def get(self, key: str, *args: Any, **options: Any) -> Any:
        if "c/" in key:
            self.refused += 1
            if self.refused <= self.until:
                raise OSError(errno.EBUSY, "SlowDown")
        return await super().get(key, *args, **options)


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    zarr.create_array(tmp_path / "x.zarr", data=np.ones((40, 3)), chunks=(10, 3))
    zarr.create_array(tmp_path / "v.zarr", data=np.ones(40), chunks=(10,))
    return tmp_path


def test_a_throttled_chunk_is_a_fault_that_may_pass_and_is_named(stored: Path) -> None:
    with pytest.raises(TransientStorageError, match=r"chunk 'c/0/0' of .*x\.zarr.*SlowDown\. Run again when"):
        ZarrBlocks(zarr.open_array(Throttled(stored / "x.zarr"), mode="r")).read(0)
    with pytest.raises(TransientStorageError, match=r"chunk 'c/1' of .*v\.zarr.*SlowDown"):
        read_run(zarr.open_array(Throttled(stored / "v.zarr"), mode="r"), 10, 20)


def test_what_a_remote_store_has_tried_again_is_not_tried_again_above_it(stored: Path) -> None:
    class GivenUp(LocalStore):
        n_asked = 0

        async def get(self, key: str, *args: Any, **options: Any) -> Any:
            if "c/" in key:
                self.n_asked += 1
                raise tried_already()
            return await super().get(key, *args, **options)

    store = GivenUp(stored / "x.zarr", read_only=True)
    vector = GivenUp(stored / "v.zarr", read_only=True)
    source = ZarrBlocks(zarr.open_array(store, mode="r"))
    for read in (lambda: read_again(source, 0), lambda: read_run(zarr.open_array(vector, mode="r"), 10, 20)):
        with pytest.raises(StorageError, match="s3://bucket/c/0 cannot be read") as caught:
            read()
        assert type(caught.value) is StorageError
    assert (store.n_asked, vector.n_asked) == (4, 1), "each chunk once"


def test_a_block_whose_chunks_can_all_be_read_the_next_moment_may_be_read_again(stored: Path) -> None:
    store = Throttled(stored / "x.zarr", read_only=True)
    store.until = 1
    with pytest.raises(TransientStorageError, match="although each of their chunks can be read now"):
        ZarrBlocks(zarr.open_array(store, mode="r")).read(0)


def test_a_garbled_chunk_and_a_shortened_file_are_not(stored: Path) -> None:
    (stored / "x.zarr" / "c" / "1" / "0").write_bytes(b"garbled")
    with pytest.raises(StorageError) as caught:
        ZarrBlocks(zarr.open_array(stored / "x.zarr", mode="r")).read(0)
    assert type(caught.value) is StorageError
    np.save(stored / "x.npy", np.ones((40, 3)))
    blocks = NpyBlocks(str(stored / "x.npy"))
    assert blocks.shape == (40, 3)
    with (stored / "x.npy").open("r+b") as file:
        file.truncate(200)
    with pytest.raises(StorageError) as caught:
        blocks.read(0)
    assert type(caught.value) is StorageError
