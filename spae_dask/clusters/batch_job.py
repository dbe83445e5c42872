"""A run as a job of its own, on any batch system."""

import re
from dataclasses import dataclass

from spae_dask.clusters.specs import MEMORY_FOR_ROWS, Driver


@dataclass(frozen=True)
class BatchJob:
    """A command to be run unattended.

    Attributes
    ----------
    name : str
        Name of the job.
    words : tuple of str
        The command after ``spae``.
    folder : str
        Folder in which the job runs.
    driver : Driver
        Resources that the job asks for.
    grace : int
        Seconds before its time limit at which the job receives the signal to stop.
    max_resubmits : int
        Largest number of times that the job may start again.
    """

    name: str
    words: tuple[str, ...]
    folder: str
    driver: Driver
    grace: int
    max_resubmits: int


def job_name(stem: str) -> str:
    """A name that batch systems and Kubernetes allow, made of a file's."""
    kept = re.sub(r"[^a-z0-9]+", "-", stem.casefold()).strip("-")
    return f"spae-{kept or 'run'}"[:40].rstrip("-")


def own_processes(driver: Driver) -> tuple[str, ...]:
    """Options with which a command runs on the cores and in the memory of its own job."""
    nbytes = int(driver.memory * MEMORY_FOR_ROWS)
    if driver.cores == 1:
        return ("--cluster", "none", "--memory", f"{nbytes}B")
    # one share for the process that starts the others and finishes the work
    return ("--cluster", f"local:{driver.cores}", "--memory", f"{nbytes // (driver.cores + 1)}B")
