"""Leftovers of killed processes are removed; what a process holds, or what is not ours, never is."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from spae_dask import leftovers
from spae_dask.clusters.local import local_cluster
from spae_dask.errors import SpaeWarning
from spae_dask.leftovers import clear, held, scratch_folder
from spae_dask.storage.writing.publish import publish
from tests.storage.writing.small_outputs import listing, write_store

WRITES = """
import sys, time
from pathlib import Path
from spae_dask.storage.writing.publish import publish
with publish(sys.argv[1], overwrite=True) as work:
    work.mkdir()
    (work / "chunk").write_bytes(bytes(1000))
    print(work.name, flush=True)
    time.sleep(120)
"""

CLUSTER = """
import time
from spae_dask.clusters.local import local_cluster
if __name__ == "__main__":
    with local_cluster(1, 1 << 30) as client:
        print(list(client.scheduler_info()["workers"].values())[0]["local_directory"], flush=True)
        time.sleep(120)
"""


@contextmanager
def writer(target: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A process that writes an output, and the name of its unfinished work; killed in the end."""
    child = subprocess.Popen([sys.executable, "-c", WRITES, str(target)], stdout=subprocess.PIPE, text=True)
    with child:
        try:
            assert child.stdout is not None
            yield child, child.stdout.readline().strip()
        finally:
            child.kill()


def killed_writer(target: Path) -> Path:
    """What a process leaves that is killed while it writes an output."""
    with writer(target) as (child, name):
        child.kill()
        assert child.wait(timeout=30) == -signal.SIGKILL
    return target.parent / name


def of_another_machine(work: Path) -> None:
    """Make a leftover look as if another machine had written it."""
    lock = work.with_name(f"{work.name}.lock")
    lock.write_text(json.dumps(json.loads(lock.read_text()) | {"machine": "another", "host": "far"}))


def age(work: Path, days: float) -> None:
    """Set all times of a leftover back."""
    then = time.time() - days * 86400
    for path in (*work.rglob("*"), work, work.with_name(f"{work.name}.lock")):
        os.utime(path, (then, then))


def test_the_next_run_removes_what_a_killed_run_left_of_the_same_output_and_of_no_other(tmp_path):
    killed_writer(tmp_path / "x.zarr")
    other = killed_writer(tmp_path / "other.zarr")
    with publish(tmp_path / "x.zarr", overwrite=False) as work:
        write_store(work, "new")
    assert listing(tmp_path) == [other.name, f"{other.name}.lock", "x.zarr"]


def test_a_run_leaves_the_work_of_one_that_still_writes(tmp_path):
    with writer(tmp_path / "x.zarr") as (_, name):
        killed_writer(tmp_path / "x.zarr")
        with publish(tmp_path / "x.zarr", overwrite=False) as work:
            write_store(work, "new")
        assert listing(tmp_path) == [name, f"{name}.lock", "x.zarr"]
        assert (tmp_path / name / "chunk").stat().st_size == 1000
    with publish(tmp_path / "x.zarr", overwrite=True) as work:
        write_store(work, "newer")
    assert listing(tmp_path) == ["x.zarr"]


def test_a_thread_of_this_process_holds_its_work_as_well(tmp_path):
    with publish(tmp_path / "x.zarr", overwrite=False) as first:
        write_store(first, "first")
        with publish(tmp_path / "x.zarr", overwrite=False) as second:
            write_store(second, "second")
        assert clear(first).state == "held"
        shutil.rmtree(tmp_path / "x.zarr")
    assert listing(tmp_path) == ["x.zarr"]
    assert (tmp_path / "x.zarr" / "c" / "0").read_text() == "first"


def test_the_work_of_another_machine_stays_until_it_is_old_and_a_warning_names_it(tmp_path):
    left = killed_writer(tmp_path / "x.zarr")
    of_another_machine(left)
    with (
        pytest.warns(SpaeWarning, match=rf"{left.name} was left .* on far may still write it"),
        publish(tmp_path / "x.zarr", overwrite=True) as work,
    ):
        work.write_text("new")
    age(left, days=8)
    (left / "chunk").touch()  # one new file is enough
    assert clear(left).state == "unknown"
    age(left, days=8)
    with (
        pytest.warns(SpaeWarning, match=rf"{left.name} was removed: .*nothing changed in it for 8\.0 d"),
        publish(tmp_path / "x.zarr", overwrite=True) as work,
    ):
        work.write_text("newer")
    assert listing(tmp_path) == ["x.zarr"]


def test_age_alone_removes_nothing_that_is_held(tmp_path):
    with writer(tmp_path / "x.zarr") as (_, name):
        work = tmp_path / name
        of_another_machine(work)
        age(work, days=400)
        assert clear(work).state == "held"
        assert work.exists()


def test_where_a_file_system_has_no_locks_work_is_done_and_leftovers_are_told_of(tmp_path, monkeypatch):
    def unable(*_):
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(leftovers.fcntl, "flock", unable)
    with publish(tmp_path / "x.zarr", overwrite=False) as work:
        write_store(work, "new")
        assert clear(work).state == "unknown"
    assert listing(tmp_path) == ["x.zarr"]
    with publish(tmp_path / "y.zarr", overwrite=False) as work:
        write_store(work, "new")
        monkeypatch.undo()
        assert clear(work).state == "unknown"  # its writer could not lock it, so a free lock tells nothing


@pytest.mark.parametrize("lock", [None, "", "{}", '{"spae": 1}', "[" * 3000, "flock of somebody else"])
def test_what_does_not_carry_our_mark_is_never_removed(tmp_path, lock):
    theirs = tmp_path / ".x.zarr.partial-00c0ffee"
    write_store(theirs, "theirs")
    if lock is not None:
        theirs.with_name(f"{theirs.name}.lock").write_text(lock)
    with publish(tmp_path / "x.zarr", overwrite=False) as work:
        write_store(work, "new")
    assert clear(theirs).state == "unmarked"
    assert (theirs / "c" / "0").read_text() == "theirs"


def test_links_are_not_followed(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("years of work")
    left = killed_writer(tmp_path / "x.zarr")
    (left / "link").symlink_to(tmp_path / "mine")
    (left / "chunk").unlink()
    found = clear(left)
    assert (found.state, found.nbytes) == ("free", len(str(tmp_path / "mine")))
    again = killed_writer(tmp_path / "x.zarr")
    (again / "chunk").unlink()
    again.rmdir()
    again.symlink_to(tmp_path / "mine")
    assert clear(again).state == "unmarked"
    lock = again.with_name(f"{again.name}.lock")
    lock.rename(tmp_path / "elsewhere")
    lock.symlink_to(tmp_path / "elsewhere")
    assert clear(again).state == "unmarked"
    assert (tmp_path / "mine" / "thesis.tex").read_text() == "years of work"


def test_leftovers_of_other_users_stay(tmp_path, monkeypatch):
    left = killed_writer(tmp_path / "x.zarr")
    monkeypatch.setattr(os, "geteuid", lambda: left.stat().st_uid + 1)
    assert clear(left).state == "unmarked"
    assert left.exists()


def test_a_lock_file_alone_is_removed_as_well(tmp_path):
    left = killed_writer(tmp_path / "x.zarr")
    (left / "chunk").unlink()
    left.rmdir()
    with publish(tmp_path / "x.zarr", overwrite=False) as work:
        write_store(work, "new")
    assert listing(tmp_path) == ["x.zarr"]


def test_the_former_content_of_a_replaced_store_is_removed_by_the_next_run_if_it_could_not_be(tmp_path, monkeypatch):
    from spae_dask.storage.writing import publish as publishing

    write_store(tmp_path / "x.zarr", "old")
    for able in (False, True):
        with monkeypatch.context() as patched, warnings.catch_warnings():
            warnings.simplefilter("ignore", SpaeWarning)
            if not able:
                patched.setattr(publishing, "exchange", lambda *_: False)
                patched.setattr(publishing, "remove_surely", lambda *_, **__: None)
            with publish(tmp_path / "x.zarr", overwrite=True) as work:
                write_store(work, "new")
        assert len(listing(tmp_path)) == (1 if able else 3)


def test_scratch_folders_of_killed_processes_go_at_the_next_start_and_held_ones_stay(tmp_path):
    code = "import sys, time; from spae_dask.leftovers import scratch_folder\n"
    code += "with scratch_folder('spae-queue-') as name:\n print(name, flush=True); time.sleep(120)"
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    command = [sys.executable, "-c", code]
    children = []
    try:
        children += [subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) for _ in range(2)]
        names = [Path(child.stdout.readline().strip()).name for child in children]
        children[0].kill()
        children[0].wait(timeout=30)
        (tmp_path / "spae-queue-00c0ffee").mkdir()
        with scratch_folder("spae-queue-", tmp_path) as ours:
            wanted = {"spae-queue-00c0ffee", names[1], f"{names[1]}.lock", Path(ours).name, f"{Path(ours).name}.lock"}
            assert set(listing(tmp_path)) == wanted
    finally:
        for child in children:
            child.kill()
            child.communicate(timeout=30)


@pytest.mark.timeout(150)
def test_worker_folders_of_a_killed_command_go_at_the_next_start_of_a_local_cluster(tmp_path, monkeypatch):
    monkeypatch.setattr(leftovers, "gettempdir", lambda: str(tmp_path))
    (tmp_path / "program.py").write_text(CLUSTER)
    command = [sys.executable, str(tmp_path / "program.py")]
    environment = os.environ | {"TMPDIR": str(tmp_path), "PYTHONPATH": os.getcwd()}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as child:
        assert child.stdout is not None
        folder = Path(child.stdout.readline().strip())
        child.kill()
        assert child.wait(timeout=30) == -signal.SIGKILL
    (left,) = [each for each in tmp_path.glob("spae-workers-*") if each.is_dir()]
    assert folder.is_relative_to(left)
    with local_cluster(1, 1 << 30):
        assert not left.exists()
        assert len(list(tmp_path.glob("spae-workers-*"))) == 2  # its own, and the lock of that
    assert list(tmp_path.glob("spae-workers-*")) == []


def test_a_folder_that_cannot_be_locked_is_not_left_behind(tmp_path, monkeypatch):
    monkeypatch.setattr(leftovers.os, "open", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(OSError, match="No space"), scratch_folder("spae-queue-", tmp_path):
        pytest.fail("the block must not be entered")
    assert listing(tmp_path) == []


def test_the_lock_of_a_finished_folder_goes_with_it(tmp_path):
    with held(tmp_path / "work"):
        assert listing(tmp_path) == ["work.lock"]
    assert listing(tmp_path) == []
