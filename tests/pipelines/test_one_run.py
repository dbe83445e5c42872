"""Two runs at once in one folder: one does the work, the other is told who does; a killed one holds nothing."""

import multiprocessing
import os
import signal
from contextlib import contextmanager

import pytest

from spae_dask.cli.main import main
from spae_dask.errors import StorageError
from spae_dask.pipelines.runner import NAME, only_run

FORKS = multiprocessing.get_context("forkserver")


def hold(folder, pipe):
    with only_run(folder):
        pipe.send("held")
        pipe.poll(None)


@contextmanager
def another_run(folder):
    """A process that holds the folder until its pipe is closed."""
    pipe, theirs = FORKS.Pipe()
    process = FORKS.Process(target=hold, args=(folder, theirs))
    process.start()
    theirs.close()
    assert pipe.recv() == "held"
    yield process
    pipe.close()
    process.join()


def test_a_second_run_is_refused_and_told_who_is_at_work(tmp_path):
    with another_run(tmp_path) as process:
        said = rf"another run is working in .*\(process {process.pid} of .*\)\. Wait until it ends"
        with pytest.raises(StorageError, match=said), only_run(tmp_path):
            pytest.fail("two runs")
    with only_run(tmp_path):
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_run_that_was_killed_holds_nothing(tmp_path):
    with another_run(tmp_path) as process:
        process.kill()
        process.join()
        assert process.exitcode == -signal.SIGKILL
    assert (tmp_path / NAME).exists()
    with only_run(tmp_path):
        pass
    assert list(tmp_path.iterdir()) == []


def test_where_no_file_can_be_made_nobody_is_refused(tmp_path):
    (tmp_path / NAME).symlink_to("/proc/none")
    with only_run(tmp_path):
        assert os.readlink(tmp_path / NAME) == "/proc/none"


def test_spae_run_ends_at_once_beside_another_and_leaves_its_work_alone(tmp_path, capsys):
    (tmp_path / "out").mkdir()
    (tmp_path / "x.csv").write_text("a,b\n1,2\n3,5\n4,4\n")
    (tmp_path / "p.toml").write_text('output = "out"\n\n[[step]]\nkind = "ingest"\nname = "m"\nsource = "x.csv"\n')
    words = ["run", str(tmp_path / "p.toml")]
    with another_run(tmp_path / "out"):
        assert main(words) == 5
        assert "another run is working" in capsys.readouterr().err
        assert main([*words, "--dry-run"]) == 0
        assert [each.name for each in (tmp_path / "out").iterdir()] == [NAME]
    assert main(words) == 0
    assert NAME not in os.listdir(tmp_path / "out")
