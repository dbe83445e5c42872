"""Pipelines on a Slurm whose jobs are ended: a worker's, the pipeline's own by its walltime, and that with no warning.

Slurm counts walltime in whole minutes and looks at it twice a minute: a job of one minute that is to be told 10 seconds
before its end is told after 20 to 50 seconds, and killed after 60 to 95. On a machine that has other things to do it
takes several turns, of which the start of processes takes most.
"""

import os
import pwd
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.rows import Row
from benchmarks.slurm_lab import missing, running_lab
from benchmarks.slurm_site import N_BLOCKS, Site, wait_until

Faults = list[str]

Case = Callable[[Path, dict[str, str]], tuple[Faults, str]]

N_WORKERS = 2

STOPPED = "error: interrupted (SIGTERM)"

AGAIN = "the job is queued again"

PATIENCE = 540
"""Seconds for all turns of a job."""


def worker_cancelled(folder: Path, environment: dict[str, str]) -> tuple[Faults, str]:
    """A worker's job is cancelled in the middle of the fit."""
    site = Site(folder, environment, 0.5, "10m")
    job = site.submit()
    wait_until(lambda: site.n_read() > N_BLOCKS // 6 and len(site.workers()) == N_WORKERS, 90, "a fit on two workers")
    before = site.workers()
    victim = min(before)
    site.run("scancel", victim)
    wait_until(lambda: site.workers() - before, 60, "another worker")
    at = site.n_read()
    wait_until(lambda: not site.queue(), 120, "an empty queue")
    faults = site.faults()
    if at >= N_BLOCKS:
        faults.append("the worker came late")
    if "Traceback" in site.log(job):
        faults.append("a traceback")
    again = site.n_read() - N_BLOCKS
    return faults, f"another job took its place; {again} of {N_BLOCKS} spans were read twice"


def walltime_too_short(folder: Path, environment: dict[str, str]) -> tuple[Faults, str]:
    """The job's time is over before the work is done, again and again."""
    site = Site(folder, environment, 2.4, "60s")
    job = site.submit("--grace", "10", "--max-resubmits", "20")
    wait_until(lambda: not site.queue(), PATIENCE, "an empty queue")
    log = site.log(job)
    faults = site.faults()
    turns = log.count(AGAIN) + 1
    if turns < 2:
        faults.append("it was never queued again")
    if log.count(STOPPED) != turns - 1 or "TIME LIMIT" in log or "Traceback" in log:
        faults.append("it did not stop cleanly")
    again = site.n_read() - N_BLOCKS
    if again > N_WORKERS * (turns - 1):
        faults.append(f"{again} spans were read twice")
    return faults, f"one submission, {turns} turns, each stopped before its end; {again} spans were read twice"


def killed_at_walltime(folder: Path, environment: dict[str, str]) -> tuple[Faults, str]:
    """The job hears no warning, is killed when its time is over, and is queued again by hand."""
    site = Site(folder, environment, 4.4, "60s")  # 106 seconds of reading, more than the 95 after which it is dead
    site.deaf.touch()
    job = site.submit("--grace", "10", "--max-resubmits", "20")
    wait_until(lambda: f"JOB {job} ON" in site.log(job) and not site.queue(), 180, "the end of the job and its workers")
    faults = []
    state = site.run("scontrol", "show", "job", job)
    if "JobState=TIMEOUT" not in state or STOPPED in site.log(job):
        faults.append(f"it was not killed by the limit: {re.findall('JobState=.*', state)}")
    at = site.n_read()
    if (folder / "out/enc.zarr").exists():
        faults.append("the fit was done before")
    site.deaf.unlink()
    site.run("scontrol", "requeue", job)
    wait_until(lambda: not site.queue(), PATIENCE, "an empty queue")
    log = site.log(job)
    turns = log.count(AGAIN) + 2
    faults += site.faults()
    again = site.n_read() - N_BLOCKS
    if "resumed" not in log or again > N_WORKERS * (turns - 1):
        faults.append(f"{again} spans were read twice")
    return faults, f"killed with {at} of {N_BLOCKS} spans read; {turns} turns in all; {again} spans were read twice"


CASES: dict[str, Case] = {
    "pipeline to its report, scancel of a worker's job": worker_cancelled,
    "the same, longer than its walltime": walltime_too_short,
    "the same, killed at its walltime without warning": killed_at_walltime,
}


def slurm(runs: int, scratch: Path) -> Iterator[Row]:
    """Jobs on a Slurm of this machine are ended; none of the rows where there is none."""
    lacking = missing()
    if lacking:
        print(f"slurm: needs root and Debian's slurm-wlm and munge; not here: {lacking}")
        return
    with running_lab() as environment:
        for case, run in CASES.items():
            yield row(case, [_ended(run, scratch / "site", environment) for _ in range(runs)])


def row(case: str, found: list[tuple[Faults, str]]) -> Row:
    """A row of what came of the runs of a case; of the last one in words."""
    faults = [each for each, _ in found if each]
    said = f"{found[-1][1]}; report, bits and loss as of a serial run; queue empty"
    return Row("slurm", case, len(found), len(faults), "; ".join(faults[0]) if faults else said)


def _ended(run: Case, folder: Path, environment: dict[str, str]) -> tuple[Faults, str]:
    """What came of a run in a new folder; that it came to no end is a fault too, and its jobs are cancelled."""
    shutil.rmtree(folder, ignore_errors=True)
    try:
        return run(folder, environment)
    except (TimeoutError, RuntimeError, subprocess.SubprocessError) as error:
        words = [shutil.which("scancel") or "scancel", f"--user={pwd.getpwuid(os.getuid()).pw_name}"]
        subprocess.run(words, env=os.environ | environment, check=True, timeout=60)
        time.sleep(10)  # its processes end
        return [str(error)], ""
