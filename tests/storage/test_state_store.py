"""The files of a checkpoint, in folders and in object stores."""

import os
import time
from pathlib import Path
from typing import Any

import pytest

from spae_dask.errors import InvalidInput, NotFound, StorageError
from spae_dask.storage.checkpoint_record import (
    Job,
    begin_or_resume,
    parts_of,
    read_job,
    remember_parts,
    remove_checkpoint,
    summarize,
)
from spae_dask.storage.state_store import LocalStates, ObjectStates, states_at

JOB = Job("fit", {"name": "x"}, {"n_components": 2, "n_nonzero": (3, 4)}, {"spae_dask": "1"})


@pytest.fixture(params=["folder", "objects"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return str(tmp_path / "kept") if request.param == "folder" else f"memory://{tmp_path.name}/kept"


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
    store.remove("01-core-ab/0-00000.state")
    store.remove("01-core-ab/0-00000.state")
    assert store.files("01-core-ab") == []
    with pytest.raises(FileNotFoundError), store.open("01-core-ab/0-00000.state"):
        pass


def test_a_checkpoint_is_begun_summarized_and_removed(place: str) -> None:
    store = states_at(place)
    assert read_job(store) is None
    begin_or_resume(store, JOB)
    begin_or_resume(store, JOB)
    assert parts_of(store) is None
    remember_parts(store, 8)
    assert parts_of(store) == 8
    store.make("01-core-ab")
    store.write("01-core-ab/about.json", [b'{"name": "core", "n_spans": 20, "fan_in": 8}'])
    store.write("01-core-ab/1-00002.state", [b"?"])
    store.write("01-core-ab/0-00000.state", [b"?"])
    found = summarize(place)
    assert (found.passes[0].name, found.passes[0].n_spans, found.passes[0].n_done) == ("core", 20, 5)
    assert found.job.flat() == JOB.flat()
    assert 0 <= found.seconds_old < 60
    assert remove_checkpoint(place) == found.nbytes
    assert store.all_files() == []
    with pytest.raises(NotFound, match="there is no checkpoint"):
        summarize(place)
    with pytest.raises(NotFound, match="Nothing was removed"):
        remove_checkpoint(place)


@pytest.mark.parametrize("record", [b"", b"{", b"[]", b'{"format": "spae-checkpoint", "format_version": 1}', b"\xff"])
def test_a_damaged_record_is_refused_and_can_be_removed(record: bytes, place: str) -> None:
    store = states_at(place)
    store.make("")
    store.write("checkpoint.json", [record])
    with pytest.raises(InvalidInput, match=r"damaged.*spae checkpoint rm"):
        begin_or_resume(store, JOB)
    remove_checkpoint(place)
    assert store.all_files() == []


@pytest.mark.parametrize(
    ("record", "told"),
    [
        (b'{"format": "other"}', "not a checkpoint of this package"),
        (b'{"format": "spae-checkpoint", "format_version": 7}', "has format 7"),
    ],
)
def test_other_formats_are_refused(record: bytes, told: str, place: str) -> None:
    store = states_at(place)
    store.make("")
    store.write("checkpoint.json", [record])
    with pytest.raises(InvalidInput, match=told):
        begin_or_resume(store, JOB)


def test_processes_may_begin_a_checkpoint_at_once(tmp_path: Path) -> None:
    (tmp_path / ".checkpoint.json.partial-0123abcd").write_bytes(b"{")  # another one is writing it
    begin_or_resume(LocalStates(tmp_path), JOB)
    whole = (tmp_path / "checkpoint.json").read_bytes()
    (tmp_path / "checkpoint.json").unlink()

    class Late(LocalStates):  # or has written it between two looks
        def files(self, folder: str) -> list[str]:
            (tmp_path / "checkpoint.json").write_bytes(whole)
            return super().files(folder)

    found = read_job(Late(tmp_path))
    assert found is not None
    assert found[0].data == JOB.data


def test_nothing_foreign_is_ever_removed(tmp_path: Path) -> None:
    begin_or_resume(LocalStates(tmp_path), JOB)
    (tmp_path / "01-core-ab").mkdir()
    for foreign in ("notes.txt", "01-core-ab/0-00000.state.bak", "01-core-ab/sub"):
        (tmp_path / foreign).write_text("mine")
        with pytest.raises(InvalidInput, match="Nothing was removed"):
            remove_checkpoint(str(tmp_path))
        (tmp_path / foreign).unlink()
    (tmp_path / "01-core-ab" / ".0-00000.state.partial-0123abcd").write_bytes(b"half")
    remove_checkpoint(str(tmp_path))
    assert not tmp_path.exists()


def test_what_was_being_written_long_ago_is_tidied_away(tmp_path: Path) -> None:
    begin_or_resume(LocalStates(tmp_path), JOB)
    old, new = tmp_path / ".parts.json.partial-00000000", tmp_path / ".parts.json.partial-11111111"
    for each in (old, new):
        each.write_bytes(b"half")
    os.utime(old, (time.time() - 1e5, time.time() - 1e5))
    begin_or_resume(LocalStates(tmp_path), JOB)
    assert new.exists()
    assert not old.exists()


def test_a_folder_that_a_worker_does_not_see_is_an_error_of_storage(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="one that all workers see under the same path"):
        LocalStates(tmp_path / "elsewhere").write("01-core-ab/0-00000.state", [b"x"])


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_is_not_ours_is_an_error_of_storage(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(StorageError, match="You may not write"):
        begin_or_resume(LocalStates(tmp_path), JOB)


def test_an_unknown_kind_of_url_is_bad_input() -> None:
    with pytest.raises(InvalidInput, match="is not understood"):
        begin_or_resume(states_at("gopher://there/it/is"), JOB)


def test_an_object_store_that_fails_is_an_error_of_storage(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise PermissionError("Access Denied")

    store = states_at("memory://refused/kept")
    monkeypatch.setattr("fsspec.implementations.memory.MemoryFileSystem.pipe_file", refuse)
    with pytest.raises(StorageError, match=r"cannot be written: PermissionError: Access Denied.*is kept"):
        begin_or_resume(store, JOB)


def test_a_library_that_is_missing_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(url: str) -> None:
        raise ImportError("Install s3fs to access S3")

    monkeypatch.setattr("fsspec.core.url_to_fs", missing)
    with pytest.raises(InvalidInput, match=r'pip install "spae-dask\[s3\]"'):
        begin_or_resume(states_at("s3://bucket/run"), JOB)


def test_places_are_folders_or_urls(tmp_path: Path) -> None:
    assert states_at(f"file://{tmp_path}") == states_at(tmp_path) == LocalStates(tmp_path)
    assert states_at("s3://bucket/run/") == ObjectStates("s3://bucket/run")
    with pytest.raises(InvalidInput, match="empty name"):
        states_at("")
