"""The files of a checkpoint, in folders and in object stores."""

import errno
import os
import pickle
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from spae_dask.errors import InvalidInput, NotFound, OtherCheckpoint, StorageError
from spae_dask.storage.checkpoints.checkpoint_record import (
    Job,
    begin_or_resume,
    parts_of,
    read_job,
    remember_parts,
    remove_checkpoint,
    summarize,
)
from spae_dask.storage.checkpoints.local_states import LocalStates
from spae_dask.storage.checkpoints.object_states import ObjectStates
from spae_dask.storage.checkpoints.state_store import states_at
from spae_dask.storage.writing import whole_files
from tests.s3_service import SECRET

JOB = Job("fit", {"name": "x"}, {"n_components": 2, "n_nonzero": (3, 4)}, {"spae_dask": "1"})


@pytest.fixture(params=["folder", "objects"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return str(tmp_path / "kept") if request.param == "folder" else f"{request.getfixturevalue('bucket')}/runs/kept"


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


@pytest.mark.parametrize(
    "about",
    [
        b'{"name": "core", "n_spans": 1000000000000000000, "fan_in": 8}',
        b'{"name": "core", "n_spans": 1e999, "fan_in": 8}',
        b'{"name": "core", "n_spans": 20, "fan_in": 0}',
        b'{"name": "core", "n_spans": 20, "fan_in": ' + 5000 * b"9" + b"}",
        50_000 * b"[",
        b"",
    ],
)
def test_a_pass_with_a_damaged_record_is_left_out_of_the_summary(about: bytes, place: str) -> None:
    store = states_at(place)
    begin_or_resume(store, JOB)
    store.write("parts.json", [about])
    assert parts_of(store) is None
    store.make("01-core-ab")
    store.write("01-core-ab/about.json", [about])
    store.write("01-core-ab/99-00000.state", [b"?"])
    assert summarize(place).passes == ()


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


def test_objects_below_the_name_of_the_record_make_no_checkpoint(bucket: str) -> None:
    states_at(f"{bucket}/kept/checkpoint.json").write("deeper/0-00000.state", [b"x"])
    with pytest.raises(InvalidInput, match=r"kept is not a checkpoint: it holds 'checkpoint\.json'"):
        read_job(states_at(f"{bucket}/kept"))


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


def test_what_others_are_writing_stays_though_the_clock_of_this_machine_is_ahead(tmp_path: Path) -> None:
    begin_or_resume(LocalStates(tmp_path), JOB)
    writing = tmp_path / ".parts.json.partial-00000000"
    writing.write_bytes(b"half")
    for each in tmp_path.iterdir():  # all of it is stamped by a server whose clock is behind by a day
        os.utime(each, (time.time() - 86400, time.time() - 86400))
    begin_or_resume(LocalStates(tmp_path), JOB)
    assert writing.exists()


@pytest.mark.parametrize("number", [errno.EPERM, errno.ENOTSUP])
def test_without_links_a_record_is_whole_or_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def no_links(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    def full_disk(_: int) -> None:
        raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))

    monkeypatch.setattr(whole_files.os, "link", no_links)
    with monkeypatch.context() as patch:
        patch.setattr(whole_files, "sync_to_disk", lambda _: None)
        calls = iter([None, full_disk])  # the copy beside it fits, and that under the name does not
        patch.setattr(whole_files.os, "fsync", lambda file: (next(calls) or (lambda _: None))(file))
        with pytest.raises(StorageError, match="or less under a quota"):
            begin_or_resume(LocalStates(tmp_path), JOB)
        assert list(tmp_path.iterdir()) == []
    begin_or_resume(LocalStates(tmp_path), JOB)
    assert read_job(LocalStates(tmp_path)) is not None
    with pytest.raises(OtherCheckpoint):
        begin_or_resume(LocalStates(tmp_path), replace(JOB, kind="another"))


def test_a_folder_that_a_worker_does_not_see_is_an_error_of_storage(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="one that all workers see under the same path"):
        LocalStates(tmp_path / "elsewhere").write("01-core-ab/0-00000.state", [b"x"])


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_is_not_ours_is_an_error_of_storage(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(StorageError, match="You may not write"):
        begin_or_resume(LocalStates(tmp_path), JOB)


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("gopher://there/it/is", "cannot be at gopher://there/it/is: checkpoints are kept in local or mounted folders"),
        ("memory://runs/7", "below s3:// and gs://"),
        ("https://u:hush@host/runs", "password"),
        ("https://host/runs", "cannot be at https://host/runs"),
        ("simplecache::s3://u:hush@bucket/run", "cannot be at simplecache::s3://...@bucket/run"),
        ("s3://bucket", "does not name a store: give s3://BUCKET/NAME,"),
        ("s3://u:hush@bucket/run", "holds a user, a password"),
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


def test_a_record_that_is_taken_away_while_a_run_begins_is_an_error_of_storage(tmp_path: Path) -> None:
    class Lost(LocalStates):
        def write_if_absent(self, path: str, content: bytes) -> None: ...

    with pytest.raises(StorageError, match="was removed while a run began there"):
        begin_or_resume(Lost(tmp_path / "kept"), JOB)


BEGIN = """
import sys, time
from pathlib import Path
from spae_dask.errors import OtherCheckpoint
from spae_dask.storage.checkpoints import checkpoint_record as record

place, seed, gate, n = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4])
read = record.read_job
looks = []

def look(store):
    found = read(store)
    if not looks:  # all have found nothing before any of them writes
        looks.append(found)
        (gate / str(seed)).touch()
        while len(list(gate.iterdir())) < n:
            time.sleep(0.001)
    return found

record.read_job = look
try:
    job = record.Job("fit", {"name": "x"}, {"seed": seed % 3}, {"spae_dask": "1"})
    record.begin_or_resume(record.states_at(place), job)
    print("goes on", seed % 3)
except OtherCheckpoint as error:
    print("refused", error)
assert looks == [None]
"""


def test_of_processes_that_begin_at_once_one_wins_and_others_go_on_with_it_or_are_refused(
    place: str, tmp_path: Path
) -> None:
    gate, n = tmp_path / "gate", 6
    gate.mkdir()
    started = [
        subprocess.Popen(
            [sys.executable, "-c", BEGIN, place, str(seed), str(gate), str(n)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for seed in range(n)
    ]
    told = [(each.communicate(timeout=120), each.returncode) for each in started]
    assert [code for _, code in told] == [0] * n, told
    found = read_job(states_at(place))
    assert found is not None
    winner = found[0].parameters["seed"]
    for seed, ((out, _), _) in enumerate(told):
        if seed % 3 == winner:
            assert out == f"goes on {winner}\n"
        else:
            assert out.startswith("refused")
            assert f"of another run: seed was {winner}, is {seed % 3}." in out
    assert states_at(place).files("") == ["checkpoint.json"]
