"""All that is written is on the disk before it has its name, and a disk that fails is explained."""

import errno
import os
from pathlib import Path

import pytest

from spae_dask.errors import StorageError
from spae_dask.storage.writing.publish import publish
from tests.storage.writing.small_outputs import listing, write_half_and_fail, write_store


@pytest.mark.parametrize(
    ("number", "advice"),
    [
        (errno.ENOSPC, "are free on that disk"),
        (errno.EROFS, "read-only"),
        (errno.EACCES, "permission"),
        (errno.EIO, "Check"),
    ],
)
def test_an_operating_system_error_says_which_path_what_happened_and_what_to_do(tmp_path, number, advice):
    with pytest.raises(StorageError, match=advice) as caught:
        write_half_and_fail(tmp_path / "x.zarr", OSError(number, os.strerror(number)), overwrite=False)
    assert str(tmp_path / "x.zarr") in str(caught.value)
    assert os.strerror(number) in str(caught.value)
    assert caught.value.__cause__.errno == number
    assert listing(tmp_path) == []


def test_a_full_disk_names_what_killed_runs_left_behind(tmp_path):
    (tmp_path / ".x.zarr.partial-00c0ffee").mkdir()
    with pytest.raises(StorageError, match=r"were killed, left \.x\.zarr\.partial-00c0ffee there.*spae clean"):
        write_half_and_fail(tmp_path / "x.zarr", OSError(errno.ENOSPC, "No space left on device"), overwrite=False)


def test_everything_written_is_flushed_to_the_disk_before_the_rename(tmp_path, monkeypatch):
    flushed = []
    fsync = os.fsync

    def recording(descriptor):
        flushed.append((Path(f"/proc/self/fd/{descriptor}").resolve().name, (tmp_path / "x.zarr").exists()))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", recording)
    with publish(tmp_path / "x.zarr", overwrite=False) as work:
        write_store(work, "new")
    before = [name for name, published in flushed if not published]
    assert sorted(before) == sorted(["0", "c", "zarr.json", work.name])
    assert flushed[-1] == (tmp_path.name, True)
