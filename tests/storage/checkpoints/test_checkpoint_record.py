"""A checkpoint is begun once, and gone on with by the same run only."""

import errno
import os
import time
from dataclasses import replace
from pathlib import Path

import pytest

from spae_dask.errors import InvalidInput, OtherCheckpoint, StorageError
from spae_dask.storage.checkpoints import local_states
from spae_dask.storage.checkpoints.checkpoint_record import begin_or_resume, read_job, states_at
from spae_dask.storage.checkpoints.checkpoint_removal import remove_checkpoint
from spae_dask.storage.checkpoints.local_states import LocalStates
from tests.forked import forked_program
from tests.storage.checkpoints.jobs import JOB


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
    with pytest.raises(InvalidInput, match=r"kept is not a checkpoint: it contains 'checkpoint\.json'"):
        read_job(states_at(f"{bucket}/kept"))


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

    monkeypatch.setattr(local_states.os, "link", no_links)
    with monkeypatch.context() as patch:
        patch.setattr(local_states, "sync_to_disk", lambda _: None)
        calls = iter([None, full_disk])  # the copy beside it fits, and that under the name does not
        patch.setattr(local_states.os, "fsync", lambda file: (next(calls) or (lambda _: None))(file))
        with pytest.raises(StorageError, match="or less under a quota"):
            begin_or_resume(LocalStates(tmp_path), JOB)
        assert list(tmp_path.iterdir()) == []
    begin_or_resume(LocalStates(tmp_path), JOB)
    assert read_job(LocalStates(tmp_path)) is not None
    with pytest.raises(OtherCheckpoint):
        begin_or_resume(LocalStates(tmp_path), replace(JOB, kind="another"))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_is_not_ours_is_an_error_of_storage(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(StorageError, match="You may not write"):
        begin_or_resume(LocalStates(tmp_path), JOB)


def test_a_record_that_is_taken_away_while_a_run_begins_is_an_error_of_storage(tmp_path: Path) -> None:
    class Lost(LocalStates):
        def write_if_absent(self, path: str, content: bytes) -> None: ...

    with pytest.raises(StorageError, match="was removed while a run started in it"):
        begin_or_resume(Lost(tmp_path / "kept"), JOB)


BEGIN = """
import sys, time
from pathlib import Path
from spae_dask.errors import OtherCheckpoint
from spae_dask.storage.checkpoints import checkpoint_record as record
from spae_dask.storage.checkpoints.checkpoint_record import states_at

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
    record.begin_or_resume(states_at(place), job)
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
    started = [forked_program(BEGIN, place, seed, gate, n) for seed in range(n)]
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
            assert f"to another run: seed was {winner}, is {seed % 3}." in out
    assert states_at(place).files("") == ["checkpoint.json"]
