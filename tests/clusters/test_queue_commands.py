"""What is made of a batch system's answers, which are as Grid Engine 8.1.9 gave them."""

import os
import signal
from types import SimpleNamespace

import pytest

from spae_dask.cli.signals import Interrupted
from spae_dask.clusters.queue import close
from spae_dask.clusters.queue_commands import NOTHING, check_taken, grid_engine_reasons, reason, remove_all
from spae_dask.errors import ClusterUnavailable

DISABLED = """==============================================================
job_number:                 21
exec_file:                  job_scripts/21
job_name:                   spae-x
env_list:                   TERM=NONE
script_file:                j.sh
scheduling info:            queue instance "all.q@vm" dropped because it is disabled
                            All queues dropped because of overload or full
"""
TURNED_OFF = DISABLED[: DISABLED.index("scheduling")] + (
    "scheduling info:            (Collecting of scheduler job information is turned off)\n"
)
IN_ERROR = """==============================================================
job_number:                 4
job_name:                   spae-x
error reason          1:    11/28/2026 12:50:00 [0:123]: error: can't chdir to /nowhere: No such file or directory
scheduling info:            Job is in error state
"""
LISTED = """job-ID  prior   name       user         state submit/start at     queue                          slots
-----------------------------------------------------------------------------------------------------------------
     21 0.50000 spae-x     root         qw    11/28/2026 12:26:53                                    1
"""


def fake(folder, name, said, code=0):
    """A program of a batch system that says this, and keeps what it was given."""
    program = folder / name
    (folder / f"{name}.said").write_text(said)
    program.write_text(f'#!/bin/sh\necho "$@" >> {folder}/{name}.given\ncat {folder}/{name}.said\nexit {code}\n')
    program.chmod(0o755)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}/usr/bin{os.pathsep}/bin")
    return tmp_path


def test_each_reason_is_told_once_without_the_description_of_jobs():
    assert grid_engine_reasons(DISABLED + DISABLED) == [
        'queue instance "all.q@vm" dropped because it is disabled',
        "All queues dropped because of overload or full",
    ]


def test_errors_of_a_job_are_reasons():
    assert grid_engine_reasons(IN_ERROR) == [
        "11/28/2026 12:50:00 [0:123]: error: can't chdir to /nowhere: No such file or directory",
        "Job is in error state",
    ]


@pytest.mark.parametrize("text", ["", "\n\n", TURNED_OFF, "nonsense", "scheduling info:", " : \n  scheduling info: x"])
def test_where_there_are_none_none_are_made_up(text):
    assert grid_engine_reasons(text) == []


def test_state_and_reasons_of_grid_engine_are_in_one_line(folder):
    fake(folder, "qstat", LISTED + DISABLED)
    assert reason("sge", "spae-x", []) == (
        'job 21 is qw; queue instance "all.q@vm" dropped because it is disabled; '
        "All queues dropped because of overload or full"
    )


def test_where_reasons_are_not_kept_the_queue_is_asked_to_try_the_job_again(folder):
    fake(folder, "qstat", LISTED + TURNED_OFF)
    fake(folder, "qalter", 'Job 21 queue instance "all.q@vm" dropped\nverification: no suitable queues\n', code=1)
    assert reason("sge", "spae-x", []) == (
        'job 21 is qw; Job 21 queue instance "all.q@vm" dropped; verification: no suitable queues'
    )
    assert (folder / "qalter.given").read_text() == "-w p 21\n"


def test_a_queue_without_the_jobs_says_so(folder):
    fake(folder, "qstat", "")
    assert reason("sge", "spae-x", []) == NOTHING
    fake(folder, "squeue", "\n")
    assert reason("slurm", "spae-x", []) == NOTHING


@pytest.mark.parametrize("kind", ["slurm", "sge", "lsf", "pbs"])
def test_a_queue_that_does_not_answer_is_told_as_that(kind, folder, monkeypatch):
    monkeypatch.setenv("PATH", str(folder))
    assert "is not installed on this machine" in reason(kind, "spae-x", ["1"])


@pytest.mark.parametrize(("kind", "program", "given"), [("slurm", "sbatch", "--test-only"), ("sge", "qsub", "-w v")])
def test_a_job_that_would_be_refused_is_refused_before_it_is_submitted(kind, program, given, folder):
    fake(folder, program, "unknown queue.\n", code=1)
    with pytest.raises(ClusterUnavailable, match=rf"{program} failed with exit code 1: unknown queue\.$"):
        check_taken(kind, "#!/bin/sh\n", str(folder))
    assert (folder / f"{program}.given").read_text() == f"{given} {folder}/worker.sh\n"


@pytest.mark.parametrize(("kind", "program", "words"), [("slurm", "scancel", "--name "), ("sge", "qdel", "")])
def test_what_is_left_of_a_name_is_removed_if_there_is_any(kind, program, words, folder):
    fake(folder, program, "", code=1)
    remove_all(kind, "spae-x")
    assert (folder / f"{program}.given").read_text() == f"{words}spae-x\n"


@pytest.mark.parametrize("fault", [TimeoutError("too slow"), RuntimeError("no answer"), AssertionError("created")])
def test_jobs_that_cannot_be_removed_one_by_one_are_removed_by_name_and_an_interrupt_goes_on(fault, folder):
    def fail(*, timeout):
        raise fault

    def interrupted():
        try:
            raise Interrupted(signal.SIGTERM)
        finally:
            close(SimpleNamespace(close=fail), "slurm", "spae-x")

    fake(folder, "scancel", "")
    with pytest.raises(Interrupted):
        interrupted()
    assert (folder / "scancel.given").read_text() == "--name spae-x\n"
