"""Scripts for ``sbatch``: pure text, compared whole in tests."""

import shlex
import sys
from pathlib import Path

from spae_dask.clusters.batch_job import BatchJob
from spae_dask.clusters.job_options import prologue
from spae_dask.clusters.specs import QueueSpec
from spae_dask.clusters.values import clock

RUN = """\
# Slurm sends USR1 before the time limit. The command then stops and leaves only complete results. The job returns to
# the queue under its own number and resumes. scancel sends TERM, after which the job does not return to the queue.
over=
trap 'over=1; kill -TERM "${{command:-}}" 2> /dev/null' USR1
trap 'kill -TERM "${{command:-}}" 2> /dev/null' TERM
{command} &
command=$!
code=0
wait "$command" || code=$?
while kill -0 "$command" 2> /dev/null; do
  code=0
  wait "$command" || code=$?
done
if [ -n "$over" ] && [ "$code" -gt 128 ]; then
  if [ "${{SLURM_RESTART_COUNT:-0}}" -lt {max_resubmits} ]; then
    echo "spae: the time is over and work is left, so the job is queued again" >&2
    scontrol requeue "$job" && sleep 60
  else
    echo "spae: the time is over and work is left; submit again to resume, or allow more with --max-resubmits" >&2
  fi
fi
exit "$code"
"""


def batch_script(spec: QueueSpec, job: BatchJob) -> str:
    """Job script that runs the command, stops it before its time limit, and resumes it in a new job.

    Parameters
    ----------
    spec : QueueSpec
        The queue: partition, account, modules, environment and further options come from it.
    job : BatchJob
        The command.
    """
    command = shlex.join([*_python(spec), *job.words])
    return _script(spec, job, f"{job.name}-%j", [], 'job="$SLURM_JOB_ID"\n' + _run(command, job))


def array_script(spec: QueueSpec, job: BatchJob, n_parts: int) -> str:
    """An array of jobs that each run the command with its part, ``I/N``, as first argument.

    Parameters
    ----------
    spec : QueueSpec
        The queue.
    job : BatchJob
        The command without the part: its verb, then its other words.
    n_parts : int
        N.
    """
    verb, *words = job.words
    command = f'{shlex.join([*_python(spec), verb])} "$SLURM_ARRAY_TASK_ID/{n_parts}" {shlex.join(words)}'
    name_of_job = 'job="${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID"\n'
    return _script(spec, job, f"{job.name}-%A-%a", [f"--array=1-{n_parts}"], name_of_job + _run(command, job))


def _python(spec: QueueSpec) -> list[str]:
    return [spec.python or sys.executable, "-m", "spae_dask"]


def _run(command: str, job: BatchJob) -> str:
    return RUN.format(command=command, max_resubmits=job.max_resubmits)


def _script(spec: QueueSpec, job: BatchJob, log: str, options: list[str], body: str) -> str:
    options = [
        f"--job-name={job.name}",
        f"--output={Path(spec.logs).expanduser()}/{log}.log",
        "--open-mode=append",
        "--requeue",
        f"--time={clock(job.driver.walltime)}",
        f"--signal=B:USR1@{job.grace}",
        "--ntasks=1",
        f"--cpus-per-task={job.driver.cores}",
        f"--mem={job.driver.memory >> 20}M",
        *([f"--partition={spec.queue}"] if spec.queue else []),
        *([f"--account={spec.account}"] if spec.account else []),
        *options,
        *spec.options,
    ]
    lines = ["#!/usr/bin/env bash", *(f"#SBATCH {each}" for each in options), "set -u"]
    lines += [f"cd {shlex.quote(job.folder)} || exit 5", *prologue(spec), body]
    return "\n".join(lines)
