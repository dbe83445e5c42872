"""Outputs appear whole or not at all."""

import errno
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from spae_dask.errors import InvalidInput, OutputExists, SpaeWarning, StorageError
from spae_dask.storage.writing import publish as publishing
from spae_dask.storage.writing.publish import check_output, publish
from tests.storage.writing.small_outputs import listing, write_half_and_fail, write_store


def test_a_store_appears_under_its_name_only_after_the_block(tmp_path):
    with publish(tmp_path / "x.zarr", overwrite=False) as work:
        write_store(work, "new")
        assert work.parent == tmp_path
        assert listing(tmp_path) == [work.name, f"{work.name}.lock"]
        assert work.name.startswith(".x.zarr.partial-")
    assert listing(tmp_path) == ["x.zarr"]
    assert (tmp_path / "x.zarr" / "c" / "0").read_text() == "new"


def test_a_single_file_is_published_the_same_way(tmp_path):
    with publish(tmp_path / "report.html", overwrite=False) as work:
        work.write_text("whole")
    assert (tmp_path / "report.html").read_text() == "whole"
    with publish(tmp_path / "report.html", overwrite=True) as work:
        work.write_text("newer")
        assert (tmp_path / "report.html").read_text() == "whole"
    assert (tmp_path / "report.html").read_text() == "newer"
    assert listing(tmp_path) == ["report.html"]


@pytest.mark.parametrize("failure", [ValueError, KeyboardInterrupt, SystemExit, MemoryError])
def test_any_failure_leaves_nothing_and_is_passed_on(tmp_path, failure):
    with pytest.raises(failure):
        write_half_and_fail(tmp_path / "x.zarr", failure, overwrite=False)
    assert listing(tmp_path) == []


@pytest.mark.parametrize("failure", [ValueError, KeyboardInterrupt])
def test_a_failed_replacement_leaves_the_old_store_as_it_was(tmp_path, failure):
    write_store(tmp_path / "x.zarr", "old")
    with pytest.raises(failure):
        write_half_and_fail(tmp_path / "x.zarr", failure, overwrite=True)
    assert listing(tmp_path) == ["x.zarr"]
    assert (tmp_path / "x.zarr" / "c" / "0").read_text() == "old"


def test_a_replaced_store_is_new_in_every_file(tmp_path):
    write_store(tmp_path / "x.zarr", "old")
    (tmp_path / "x.zarr" / "c" / "1").write_text("a chunk the new store does not have")
    with publish(tmp_path / "x.zarr", overwrite=True) as work:
        write_store(work, "new")
    assert listing(tmp_path) == ["x.zarr"]
    assert listing(tmp_path / "x.zarr" / "c") == ["0"]


def test_the_old_store_is_restored_if_the_new_one_cannot_be_renamed_into_place(tmp_path, monkeypatch):
    write_store(tmp_path / "x.zarr", "old")
    rename = Path.rename

    def failing(self, target):
        if ".partial-" in self.name:
            raise OSError(errno.EIO, "Input/output error", str(self))
        return rename(self, target)

    monkeypatch.setattr(publishing, "exchange", lambda *_: False)
    monkeypatch.setattr(Path, "rename", failing)
    with pytest.raises(StorageError, match="Input/output error"), publish(tmp_path / "x.zarr", overwrite=True) as work:
        write_store(work, "new")
    assert listing(tmp_path) == ["x.zarr"]
    assert (tmp_path / "x.zarr" / "c" / "0").read_text() == "old"


def test_a_replaced_store_that_cannot_be_deleted_is_named(tmp_path, monkeypatch):
    write_store(tmp_path / "x.zarr", "old")
    monkeypatch.setattr(publishing.shutil, "rmtree", lambda *_, **__: None)
    with (
        pytest.warns(SpaeWarning, match=r"deleted and is now .*\.x\.zarr\."),
        publish(tmp_path / "x.zarr", overwrite=True) as work,
    ):
        write_store(work, "new")
    assert (tmp_path / "x.zarr" / "c" / "0").read_text() == "new"


def test_an_existing_output_is_refused_before_any_work_and_says_how_to_go_on(tmp_path):
    write_store(tmp_path / "x.zarr", "old")
    with (
        pytest.raises(OutputExists, match="--force") as caught,
        publish(tmp_path / "x.zarr", overwrite=False),
    ):
        pytest.fail("the block must not be entered")
    assert isinstance(caught.value, FileExistsError)
    assert "another name" in str(caught.value)


def test_an_output_that_appeared_meanwhile_is_not_overwritten(tmp_path):
    slow = publish(tmp_path / "out", overwrite=False)
    slow.__enter__().write_text("second")
    (tmp_path / "out").write_text("first")
    with pytest.raises(OutputExists):
        slow.__exit__(None, None, None)
    assert (tmp_path / "out").read_text() == "first"
    assert listing(tmp_path) == ["out"]


def test_a_directory_that_is_no_zarr_store_is_never_replaced(tmp_path):
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "thesis.tex").write_text("years of work")
    with pytest.raises(OutputExists, match="neither a file nor a Zarr store"):
        check_output(tmp_path / "home", overwrite=True)
    with pytest.raises(OutputExists, match="neither"):
        check_output("/dev/null", overwrite=True)
    (tmp_path / "empty").mkdir()
    with publish(tmp_path / "empty", overwrite=True) as work:
        write_store(work, "new")
    assert listing(tmp_path) == ["empty", "home"]


def test_a_missing_parent_directory_is_an_input_error(tmp_path):
    with pytest.raises(InvalidInput, match=r"does not exist.*mkdir -p"):
        check_output(tmp_path / "no" / "x.zarr", overwrite=False)
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidInput, match="is not a directory"):
        check_output(tmp_path / "file" / "x.zarr", overwrite=False)


def test_an_error_of_reading_another_file_is_not_blamed_on_the_output(tmp_path):
    with pytest.raises(FileNotFoundError) as caught, publish(tmp_path / "x.zarr", overwrite=False):
        (tmp_path / "source").read_text()
    assert not isinstance(caught.value, StorageError)


def test_a_storage_error_of_the_block_keeps_its_own_message(tmp_path):
    with pytest.raises(StorageError, match=r"^the source is broken$"), publish(tmp_path / "x", overwrite=False):
        raise StorageError("the source is broken")


def test_a_directory_without_permission_is_refused_before_any_work(tmp_path, monkeypatch):
    monkeypatch.setattr(publishing.os, "access", lambda *_: False)
    with pytest.raises(StorageError, match="no permission"):
        check_output(tmp_path / "x.zarr", overwrite=False)


CHILD = """
import sys, time
from pathlib import Path
from spae_dask.storage.writing.publish import publish
with publish(sys.argv[1], overwrite=True) as work:
    work.mkdir()
    (work / "zarr.json").write_text("{}")
    print("writing", flush=True)
    time.sleep(60)
"""


def interrupted_child(path: Path, how: signal.Signals) -> int:
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(path)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    with child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"writing\n"
        child.send_signal(how)
        return child.wait(timeout=30)


def test_a_process_killed_while_writing_leaves_the_name_as_it_was(tmp_path):
    write_store(tmp_path / "x.zarr", "old")
    assert interrupted_child(tmp_path / "x.zarr", signal.SIGKILL) == -signal.SIGKILL
    assert (tmp_path / "x.zarr" / "c" / "0").read_text() == "old"
    left, _ = [name for name in listing(tmp_path) if name != "x.zarr"]
    assert left.startswith(".x.zarr.partial-")
    with publish(tmp_path / "x.zarr", overwrite=True) as work:
        write_store(work, "new")
    assert (tmp_path / "x.zarr" / "c" / "0").read_text() == "new"


STEP_BY_STEP = """
import os, signal, sys
from pathlib import Path
from spae_dask.storage.writing.publish import publish
path, content, fatal, n = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), 0
CHANGES = ("os.rename", "os.link", "os.remove", "os.rmdir", "os.mkdir", "os.chmod", "os.walk", "open")
def step(event, arguments):
    global n
    if event in CHANGES or event.startswith("ctypes.dlsym"):
        n += 1
        if n == fatal:
            os.kill(os.getpid(), signal.SIGKILL)
sys.addaudithook(step)
with publish(path, overwrite=True) as work:
    if path.suffix == ".zarr":
        work.mkdir()
        (work / "zarr.json").write_text(content)
    else:
        work.write_text(content)
"""


def what_is_at(path: Path) -> str | None:
    file = path / "zarr.json" if path.suffix == ".zarr" else path
    return file.read_text() if os.path.lexists(path) else None


@pytest.mark.parametrize("name", ["x.zarr", "x.html"])
@pytest.mark.parametrize("old", [None, "old"])
def test_whatever_step_a_process_is_killed_at_the_name_has_all_of_the_old_or_all_of_the_new(tmp_path, name, old):
    seen, number, ended = [], 0, None
    while ended != 0:
        number += 1
        folder = tmp_path / str(number)
        folder.mkdir()
        if old is not None:
            with publish(folder / name, overwrite=False) as work:
                if name == "x.zarr":
                    work.mkdir()
                (work / "zarr.json" if name == "x.zarr" else work).write_text(old)
        ended = subprocess.run(
            [sys.executable, "-c", STEP_BY_STEP, str(folder / name), "new", str(number)], check=False
        ).returncode
        assert ended in (0, -signal.SIGKILL)
        seen.append(what_is_at(folder / name))
        with publish(folder / name, overwrite=True) as work:  # nothing that was left is in the way of another run
            work.write_text("again")
    assert seen[0] == old
    assert seen[-1] == "new"
    assert set(seen) == {old, "new"}
    assert number > 5


def test_of_two_writers_of_one_new_file_one_is_refused(tmp_path, monkeypatch):
    vacant = publishing.rename_if_vacant

    def overtaken(work, target):
        target.write_text("of the other")
        return vacant(work, target)

    monkeypatch.setattr(publishing, "rename_if_vacant", overtaken)
    with pytest.raises(OutputExists), publish(tmp_path / "x.csv", overwrite=False) as work:
        work.write_text("ours")
    assert (tmp_path / "x.csv").read_text() == "of the other"
    assert listing(tmp_path) == ["x.csv"]


def test_of_two_writers_of_one_new_store_one_is_refused(tmp_path, monkeypatch):
    vacant = publishing.rename_if_vacant

    def overtaken(work, target):
        write_store(target, "of the other")
        return vacant(work, target)

    monkeypatch.setattr(publishing, "rename_if_vacant", overtaken)
    with pytest.raises(OutputExists), publish(tmp_path / "x.zarr", overwrite=False) as work:
        write_store(work, "ours")
    assert (tmp_path / "x.zarr" / "c" / "0").read_text() == "of the other"
    assert listing(tmp_path) == ["x.zarr"]


def test_where_names_cannot_be_exchanged_a_store_is_replaced_all_the_same(tmp_path, monkeypatch):
    monkeypatch.setattr(publishing, "exchange", lambda *_: False)
    write_store(tmp_path / "x.zarr", "old")
    with publish(tmp_path / "x.zarr", overwrite=True) as work:
        write_store(work, "new")
    assert (tmp_path / "x.zarr" / "c" / "0").read_text() == "new"
    assert listing(tmp_path) == ["x.zarr"]


@pytest.mark.parametrize("name", ["x.zarr", "x.html"])
def test_what_replaces_an_output_has_its_permissions(tmp_path, name):
    for text in ("old", "new"):
        with publish(tmp_path / name, overwrite=True) as work:
            if name == "x.zarr":
                write_store(work, text)
            else:
                work.write_text(text)
        if text == "old":
            (tmp_path / name).chmod(0o700)
    assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o700


def test_a_process_interrupted_from_the_keyboard_cleans_up(tmp_path):
    assert interrupted_child(tmp_path / "x.zarr", signal.SIGINT) != 0
    assert listing(tmp_path) == []


@pytest.mark.parametrize(("mode", "expected"), [(0o644, 0o755), (0o600, 0o700), (0o640, 0o750)])
def test_a_store_in_place_of_a_file_can_be_entered_by_those_who_read_the_file(tmp_path, mode, expected):
    (tmp_path / "x.zarr").write_text("file")
    (tmp_path / "x.zarr").chmod(mode)
    with publish(tmp_path / "x.zarr", overwrite=True) as work:
        write_store(work, "new")
    assert stat.S_IMODE((tmp_path / "x.zarr").stat().st_mode) == expected


@pytest.mark.parametrize(("mode", "expected"), [(0o755, 0o644), (0o700, 0o600)])
def test_a_file_in_place_of_a_store_is_no_program(tmp_path, mode, expected):
    write_store(tmp_path / "x", "old")
    (tmp_path / "x").chmod(mode)
    with publish(tmp_path / "x", overwrite=True) as work:
        work.write_text("file")
    assert stat.S_IMODE((tmp_path / "x").stat().st_mode) == expected
