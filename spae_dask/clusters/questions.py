"""Queue commands beside submitting and removing one job: dry runs, lists of jobs, and reasons why a job waits."""

import re
from contextlib import suppress
from pathlib import Path

from spae_dask.clusters.commands import run_program
from spae_dask.errors import ClusterUnavailable

TRIALS = {"slurm": ["sbatch", "--test-only"], "sge": ["qsub", "-w", "v"]}
"""Programs that say whether a job's script would be taken, and submit nothing."""

REMOVALS = {"slurm": ["scancel", "--name"], "sge": ["qdel"]}
"""Programs that remove all jobs of a name."""

HOLDINGS = {"slurm": ["squeue", "--noheader", "--format", "%A", "--name"], "sge": ["qstat"]}
"""Programs that list jobs that are not over: those of a name, or all of the user's."""

NOTHING = "the queue holds none of its jobs"

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
