"""Reasons why jobs wait in the queue of Slurm."""

from collections.abc import Sequence

from spae_dask.clusters.commands import run_program

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
