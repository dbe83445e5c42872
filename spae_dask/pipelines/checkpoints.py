"""Checkpoints of steps, from which a killed step resumes."""

from collections.abc import Callable
from typing import TypeVar

from spae_dask.errors import OtherCheckpoint
from spae_dask.pipelines.schema import Resumable
from spae_dask.pipelines.work import Work
from spae_dask.storage.checkpoints.checkpoint_removal import end_checkpoint, remove_checkpoint

Found = TypeVar("Found")


def resumed(step: Resumable, work: Work, sweep: Callable[[str | None], Found]) -> Found:
    """Run a function that resumes from the step's checkpoint, and return its result.

    Parameters
    ----------
    step : Resumable
        The step.
    work : Work
        Its share.
    sweep : callable
        Given the checkpoint's folder or URL, or None for no checkpoint. Called again, if the step's own checkpoint is
        of parameters or data that it had before.
    """
    place = checkpoint_of(step, work)
    try:
        return sweep(place)
    except OtherCheckpoint:
        if place is None or step.checkpoint is not None:
            raise
        remove_checkpoint(place)
        return sweep(place)


def forget(step: Resumable, work: Work) -> None:
    """Remove the checkpoint of a step whose outputs are written."""
    place = checkpoint_of(step, work)
    if place is not None:
        end_checkpoint(place)


def checkpoint_of(step: Resumable, work: Work) -> str | None:
    """Return the folder or URL of a step's checkpoint; None if the step keeps none."""
    if step.checkpoint is False:
        return None
    name = step.checkpoint or f"{step.name}.checkpoint"
    return name if "://" in name else str(work.outputs[step.suffix].parent / name)
