"""Outputs on an object store: whole when they can be opened, and else not to be opened by anybody."""

import os
import signal
import subprocess
import sys

import numpy as np
import pytest
import zarr
from zarr.core.buffer import default_buffer_prototype
from zarr.core.sync import sync

from spae_dask import open_matrix
from spae_dask.errors import InvalidInput, NotFound, OutputExists, StorageError
from spae_dask.storage.remote.address import parse_address
from spae_dask.storage.remote.remote_store import RemoteStore, open_remote
from spae_dask.storage.writing.outputs import check_destination, publish_store

KILLED = """
import os, signal, sys, numpy as np, zarr
from spae_dask.storage.writing.outputs import publish_store
with publish_store(sys.argv[1], overwrite=False) as output:
    array = zarr.create_array(output.store, shape=(40, 2), chunks=(10, 2), dtype="f8")
    array[:20] = 1.0
    os.kill(os.getpid(), signal.SIGKILL)
"""


def store_at(url: str) -> RemoteStore:
    return open_remote(parse_address(url), read_only=False)


def keys(url: str) -> list[str]:
    async def listed() -> list[str]:
        return sorted([key async for key in store_at(url).list()])

    return sync(listed())


def write(url: str, value: float, *, overwrite: bool = False) -> None:
    with publish_store(url, overwrite=overwrite) as output:
        zarr.create_array(output.store, shape=(40, 2), chunks=(10, 2), dtype="f8")[...] = value


def test_nothing_but_the_store_is_left_by_a_writing_that_ended_well(bucket: str) -> None:
    write(f"{bucket}/z.zarr", 3.0)
    assert keys(f"{bucket}/z.zarr") == ["c/0/0", "c/1/0", "c/2/0", "c/3/0", "zarr.json"]
    assert (open_matrix(f"{bucket}/z.zarr").read(0) == 3.0).all()


def test_until_the_end_no_reader_opens_it_and_the_writer_does(bucket: str) -> None:
    url = f"{bucket}/z.zarr"
    with publish_store(url, overwrite=False) as output:
        zarr.create_array(output.store, shape=(40, 2), chunks=(10, 2), dtype="f8")[...] = 3.0
        assert (zarr.open_array(output.store, mode="r")[...] == 3.0).all()
        with pytest.raises(NotFound, match=r"a run began to write .* at 2.*not finished\. Wait until it ends"):
            open_matrix(url)
        with pytest.raises(FileNotFoundError):
            zarr.open(store_at(url).with_read_only(True), mode="r")
        with pytest.raises(OutputExists, match=r"unfinished.*--force"):
            check_destination(url, overwrite=False)
    open_matrix(url)


def test_a_writer_that_fails_leaves_nothing(bucket: str) -> None:
    def fail() -> None:
        with publish_store(f"{bucket}/z.zarr", overwrite=False) as output:
            zarr.create_array(output.store, shape=(40, 2), chunks=(10, 2), dtype="f8")[...] = 3.0
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert keys(f"{bucket}/z.zarr") == []


def test_a_writer_that_is_killed_leaves_what_is_refused_and_can_be_replaced(bucket: str) -> None:
    url = f"{bucket}/z.zarr"
    ended = subprocess.run([sys.executable, "-c", KILLED, url], env=dict(os.environ), check=False, timeout=60)
    assert ended.returncode == -signal.SIGKILL
    assert "c/1/0" in keys(url)
    with pytest.raises(NotFound, match="has not finished"):
        open_matrix(url)
    with pytest.raises(OutputExists, match="unfinished"):
        write(url, 4.0)
    write(url, 4.0, overwrite=True)
    assert len(keys(url)) == 5
    np.testing.assert_array_equal(open_matrix(url).read(0), 4.0)


def test_a_store_is_replaced_only_if_asked_for(bucket: str) -> None:
    write(f"{bucket}/z.zarr", 3.0)
    with pytest.raises(OutputExists, match="exists and is not overwritten"):
        write(f"{bucket}/z.zarr", 4.0)
    assert (open_matrix(f"{bucket}/z.zarr").read(0) == 3.0).all()
    write(f"{bucket}/z.zarr", 4.0, overwrite=True)
    assert (open_matrix(f"{bucket}/z.zarr").read(0) == 4.0).all()


def test_other_objects_are_never_replaced(bucket: str) -> None:
    write(f"{bucket}/folder/z.zarr", 3.0)
    sync(store_at(f"{bucket}/folder").set("notes", default_buffer_prototype().buffer.from_bytes(b"mine")))
    with pytest.raises(OutputExists, match=r"is not a Zarr store\. Only Zarr stores are ever overwritten"):
        write(f"{bucket}/folder", 4.0, overwrite=True)
    assert "notes" in keys(f"{bucket}/folder")


def test_of_two_writers_to_one_place_the_first_does_not_commit_the_others_objects(bucket: str) -> None:
    url = f"{bucket}/z.zarr"

    def both() -> None:
        with publish_store(url, overwrite=False) as output:
            zarr.create_array(output.store, shape=(40, 2), chunks=(10, 2), dtype="f8")[...] = 3.0
            write(url, 4.0, overwrite=True)
            # the other has committed and gone; its marker too

    with pytest.raises(StorageError, match="another run has begun to write there"):
        both()
    assert (open_matrix(url).read(0) == 4.0).all()


@pytest.mark.parametrize(("url", "message"), [("https://h/z.zarr", "outputs go to"), ("memory://z.zarr", "is a URL")])
def test_places_that_cannot_be_written_are_refused(url: str, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        check_destination(url, overwrite=True)


def test_an_output_without_its_bucket_is_refused(bucket: str) -> None:
    with pytest.raises(NotFound, match="no such bucket"):
        check_destination("s3://no-such-bucket/z.zarr", overwrite=True)
