"""The files of a checkpoint, in folders and in object stores."""

import errno
import os
import pickle
import sys
from pathlib import Path
from typing import Any

import pytest

from spae_dask.errors import InvalidInput, StorageError
from spae_dask.storage.checkpoints.checkpoint_record import states_at
from spae_dask.storage.checkpoints.local_states import LocalStates
from spae_dask.storage.checkpoints.object_states import ObjectStates
from tests.s3_service import SECRET


def test_what_is_written_is_read_listed_and_removed(place: str) -> None:
    store = states_at(place)
    assert store.files("") == store.folders() == store.all_files() == []
    for folder in ("", "01-core-ab"):
        store.make(folder)
    store.write("checkpoint.json", [b"{}"])
    store.write("01-core-ab/0-00000.state", [b"a", memoryview(b"bc")])
    store.write("01-core-ab/0-00000.state", [b"abcd"])
    assert store.files("") == ["checkpoint.json"]
    assert store.folders() == ["01-core-ab"]
    assert store.files("01-core-ab") == ["0-00000.state"]
    with store.open("01-core-ab/0-00000.state") as file:
        assert file.read(2) == b"ab"
        rest = bytearray(2)
        assert file.readinto(rest) == 2  # type: ignore[attr-defined]
        assert rest == b"cd"
    assert [(each.path, each.nbytes) for each in store.all_files()] == [
        ("01-core-ab/0-00000.state", 4),
        ("checkpoint.json", 2),
    ]
    store.write_if_absent("checkpoint.json", b"other")
    store.write_if_absent("parts.json", b"first")
    for name, content in (("checkpoint.json", b"{}"), ("parts.json", b"first")):
        with store.open(name) as file:
            assert file.read() == content
    store.remove("01-core-ab/0-00000.state")
    store.remove("01-core-ab/0-00000.state")
    assert store.files("01-core-ab") == []
    with pytest.raises(FileNotFoundError), store.open("01-core-ab/0-00000.state"):
        pass


def test_a_folder_that_a_worker_does_not_see_is_an_error_of_storage(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="under the same path"):
        LocalStates(tmp_path / "elsewhere").write("01-core-ab/0-00000.state", [b"x"])


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("gopher://there/it/is", "cannot be at gopher://there/it/is. Give a local or mounted folder"),
        ("memory://runs/7", "URL of s3:// or gs://"),
        ("https://u:hush@host/runs", "password"),
        ("https://host/runs", "cannot be at https://host/runs"),
        ("simplecache::s3://u:hush@bucket/run", "cannot be at simplecache::s3://...@bucket/run"),
        ("s3://bucket", "does not name a store: give s3://BUCKET/NAME,"),
        ("s3://u:hush@bucket/run", "contains a user, a password"),
    ],
)
def test_urls_that_cannot_be_are_bad_input_and_not_repeated(url: str, told: str) -> None:
    with pytest.raises(InvalidInput, match=told) as caught:
        states_at(url)
    assert "hush" not in str(caught.value)


def test_a_library_that_is_missing_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "botocore.session", None)
    with pytest.raises(InvalidInput, match=r'pip install "spae-dask\[s3\]"'):
        states_at("s3://bucket/run")


def test_places_are_folders_or_urls(tmp_path: Path, bucket: str) -> None:
    assert states_at(f"file://{tmp_path}") == states_at(tmp_path) == LocalStates(tmp_path)
    remote = states_at(f"{bucket}/run/")
    assert isinstance(remote, ObjectStates)
    assert remote.describe() == f"{bucket}/run"
    assert pickle.loads(pickle.dumps(remote)) == remote == states_at(f"{bucket}/run")
    assert SECRET.encode() not in pickle.dumps(remote)
    with pytest.raises(InvalidInput, match="empty name"):
        states_at("")


def test_on_a_file_system_without_links_one_writer_is_first_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    store = LocalStates(tmp_path)
    store.write_if_absent("checkpoint.json", b"first")
    store.write_if_absent("checkpoint.json", b"second")
    assert (tmp_path / "checkpoint.json").read_bytes() == b"first"
    assert [each.name for each in tmp_path.iterdir()] == ["checkpoint.json"]
