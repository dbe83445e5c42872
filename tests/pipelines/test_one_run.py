"""Two runs at once in one folder: one does the work, the other is told who does; a killed one holds nothing."""

import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

from spae_dask.cli.main import main
from spae_dask.errors import StorageError
from spae_dask.pipelines.runner import NAME, only_run

HOLD = """
import sys
from pathlib import Path
from spae_dask.pipelines.runner import only_run
with only_run(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.readline()
"""


@contextmanager
def another_run(folder):
    """A process that holds the folder until its input ends."""
    words = [sys.executable, "-c", HOLD, str(folder)]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout.readline() == "held\n"
        yield process
        process.stdin.close()


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
        process.send_signal(signal.SIGKILL)
        process.wait()
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
