"""Queue commands beside submitting and removing one job: dry runs, lists of jobs, and reasons why a job waits."""

import re
import shutil
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from spae_dask.errors import ClusterUnavailable
from spae_dask.quantities import format_seconds

SECONDS = 60
"""Longest time, in seconds, that a program may take to answer."""


def run_program(words: list[str], *, text: str | None = None, answers: tuple[int, ...] = (0,)) -> str:
    """Run a program and return its output. Its arguments reach it unchanged, through no shell.

    Parameters
    ----------
    words : list of str
        The program and its arguments.
    text : str, optional
        Its standard input.
    answers : tuple of int
        Exit codes with which it has answered; all others are failures.

    Raises
    ------
    ClusterUnavailable
        If it is not there, does not answer in time or fails; with what it said.
    """
    if shutil.which(words[0]) is None:
        raise ClusterUnavailable(
            f"the program {words[0]} is not installed on this machine. Run on a machine from which jobs are "
            "submitted, such as a login node, or check PATH."
        )
    try:
        done = subprocess.run(  # noqa: S603 - no shell, and the words are checked where they come from
            words,
            input=(text or "").encode(errors="surrogateescape"),  # paths as they are on the disk
            capture_output=True,
            timeout=SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise ClusterUnavailable(f"{words[0]} did not answer within {format_seconds(SECONDS)}.") from error
    if done.returncode not in answers:
        said = " ".join((done.stderr or done.stdout).decode(errors="replace").split()).rstrip(".")
        raise ClusterUnavailable(f"{words[0]} failed with exit code {done.returncode}: {said or 'it printed nothing'}.")
    return done.stdout.decode(errors="replace")


TRIALS = {"slurm": ["sbatch", "--test-only"], "sge": ["qsub", "-w", "v"]}
"""Programs that say whether a job's script would be taken, and submit nothing."""

REMOVALS = {"slurm": ["scancel", "--name"], "sge": ["qdel"]}
"""Programs that remove all jobs of a name."""

HOLDINGS = {"slurm": ["squeue", "--noheader", "--format", "%A", "--name"], "sge": ["qstat"]}
"""Programs that list jobs that are not over: those of a name, or all of the user's."""

NOTHING = "the queue contains none of its jobs"

MOST_LINES = 6
"""Largest number of lines that are quoted from a batch system's answer."""

SILENT = "Collecting of scheduler job information is turned off"
"""Instead of reasons, where a site saves Grid Engine the work of keeping them."""


def check_taken(kind: str, script: str, folder: str) -> None:
    """Have the batch system say whether it would take the job; later on its refusal would only be logged.

    Raises
    ------
    ClusterUnavailable
        If it would not; with its words.
    """
    if kind in TRIALS:
        path = Path(folder) / "worker.sh"
        path.write_text(script, encoding="utf-8", errors="surrogateescape")
        run_program([*TRIALS[kind], str(path)])


def remove_all(kind: str, name: str) -> None:
    """Remove what is left of a name: a job that was being submitted when the work was interrupted."""
    if kind in REMOVALS:
        with suppress(ClusterUnavailable):
            run_program([*REMOVALS[kind], name])


def held_numbers(kind: str, name: str) -> set[str]:
    """Numbers of jobs that are not over, those of a name among them; of a kind in `HOLDINGS`.

    Raises
    ------
    ClusterUnavailable
        If the batch system does not say.
    """
    words = [*HOLDINGS[kind], name] if kind == "slurm" else HOLDINGS[kind]
    return set(re.findall(r"^ *(\d+)\b", run_program(words), re.MULTILINE))


def reason(kind: str, name: str, ids: list[str]) -> str:
    """Return the batch system's reasons why jobs wait.

    Parameters
    ----------
    kind : str
        Kind of the batch system.
    name : str
        Name of all the jobs.
    ids : list of str
        Their numbers.
    """
    questions = {
        "slurm": ["squeue", "--noheader", "--states=all", "--name", name, "--format", "job %i is %T (%r)"],
        "pbs": ["qstat", *ids],
        "lsf": ["bjobs", *ids],
    }
    try:
        said = _grid_engine_reason(name) if kind == "sge" else run_program(questions[kind])
    except ClusterUnavailable as error:
        return str(error)
    lines = [line.strip() for line in said.split("\n") if line.strip()]
    if len(lines) > MOST_LINES:
        lines = [*lines[:MOST_LINES], f"and {len(lines) - MOST_LINES} more lines"]
    return "; ".join(lines) or NOTHING


def _grid_engine_reason(name: str) -> str:
    states = dict(re.findall(r"^ *(\d+) +\S+ +\S+ +\S+ +(\S+)", run_program(["qstat"]), re.MULTILINE))
    try:
        described = run_program(["qstat", "-j", name])
    except ClusterUnavailable:  # it fails if there is no such job
        return NOTHING
    ids = re.findall(r"^job_number: +(\d+)", described, re.MULTILINE)
    found = grid_engine_reasons(described)
    if not found and ids:
        with suppress(ClusterUnavailable):  # "no suitable queues" is an answer, with exit code 1
            found = run_program(["qalter", "-w", "p", ids[0]], answers=(0, 1)).strip().split("\n")
    jobs = ", ".join(f"job {each} is {states.get(each, 'gone')}" for each in ids)
    return "\n".join([jobs, *found])


def grid_engine_reasons(described: str) -> list[str]:
    """Each reason once, of what ``qstat -j`` says about jobs: why none starts, and errors of those that tried."""
    reasons: dict[str, None] = {}
    inside = False
    for line in described.split("\n"):
        key, colon, rest = line.partition(": ")
        if line.startswith(" "):
            rest = line
        else:
            inside = bool(colon) and (key == "scheduling info" or key.startswith("error reason"))
        if inside and rest.strip() and SILENT not in rest:
            reasons[" ".join(rest.split())] = None
    return list(reasons)


PASSING = {"None", "Priority", "Resources", "Dependency", "BeginTime"}
"""Reasons for which a job waits that go away by themselves, and the word for no reason."""


def lasting_reasons(numbers: Sequence[str]) -> list[str]:
    """Lines about those jobs that wait for what may never come, such as a partition that takes jobs of their length.

    Raises
    ------
    ClusterUnavailable
        If Slurm does not say.
    """
    said = run_program(["squeue", "--noheader", "--states=PENDING", "--jobs", ",".join(numbers), "--format", "%i %r"])
    pairs = [line.split(maxsplit=1) for line in said.splitlines() if line.strip()]
    return [f"job {number} is held by {reason}" for number, reason in pairs if reason not in PASSING]
