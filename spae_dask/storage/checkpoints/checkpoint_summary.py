"""Progress of a checkpoint, for people."""

import json
import re
import time
from dataclasses import asdict, dataclass, field
from typing import Any

from spae_dask.errors import NotFound
from spae_dask.storage.checkpoints.checkpoint_record import LARGEST_RECORD, Job, States, read_job, states_at

MOST_SPANS = 1 << 20
"""Largest number of spans that a record may name for a pass, far above any real number."""


@dataclass(frozen=True)
class PassProgress:
    """Progress of a pass.

    Attributes
    ----------
    name : str
        Name of the pass.
    n_spans, n_done : int
        Spans, and those whose states are stored.
    """

    name: str
    n_spans: int
    n_done: int


@dataclass(frozen=True)
class CheckpointSummary:
    """A checkpoint, for people.

    Attributes
    ----------
    place : str
        Path or URL.
    job : Job
        Job of the checkpoint.
    created, seconds_old : str, float
        Time at which the checkpoint was begun, and seconds since it was last written to.
    nbytes : int
        Size of all files, in bytes.
    passes : tuple of PassProgress
        Those that were begun.
    """

    place: str
    job: Job
    created: str
    seconds_old: float
    nbytes: int
    passes: tuple[PassProgress, ...] = field(default=())

    def as_dict(self) -> dict[str, Any]:
        """The fields by name, for JSON."""
        return asdict(self)


def summarize(place: str) -> CheckpointSummary:
    """Return the job of a checkpoint, and its progress.

    Raises
    ------
    NotFound
        If there is nothing.
    InvalidInput
        If it is no checkpoint.
    """
    store = states_at(place)
    found = read_job(store)
    if found is None:
        raise NotFound(f"there is no checkpoint at {place}. `spae fit --checkpoint {place} ...` makes one.")
    files = store.all_files()
    return CheckpointSummary(
        place=store.describe(),
        job=found[0],
        created=found[1],
        seconds_old=max(0.0, time.time() - max(each.time for each in files)),
        nbytes=sum(each.nbytes for each in files),
        passes=tuple(each for folder in store.folders() if (each := _progress(store, folder)) is not None),
    )


def _progress(store: States, folder: str) -> PassProgress | None:
    try:
        with store.open(f"{folder}/about.json") as file:
            about = json.loads(file.read(LARGEST_RECORD))
        name, n_spans, fan_in = str(about["name"]), int(about["n_spans"]), int(about["fan_in"])
    except (FileNotFoundError, ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return None
    if not (0 < n_spans <= MOST_SPANS and 0 < fan_in <= MOST_SPANS):
        return None
    done: set[int] = set()
    for each in store.files(folder):
        if match := re.fullmatch(r"(\d{1,2})-(\d+)\.state", each):
            stride = fan_in ** int(match[1])
            first = int(match[2]) * stride
            done.update(range(first, min(first + stride, n_spans)))
    return PassProgress(name, n_spans, len(done))
