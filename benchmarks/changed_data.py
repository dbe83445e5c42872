"""Data that change under a run: between two passes, in the middle of one, before a resume, and while codes are written.

The chunk, the moment and the strategy are drawn anew each time. A run must end with `DataChanged`, or with
`OtherCheckpoint` where it resumes, and name the chunk. Nothing may be written.
"""

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import zarr

from benchmarks.faulty import CHUNK_ROWS, N_ROWS, make_store
from benchmarks.rows import Row
from spae_dask import SparseEncoder
from spae_dask.errors import DataChanged, OtherCheckpoint
from spae_dask.estimators.writing import transform_to_zarr
from spae_dask.passes.events import PassEnded, RowsDone
from tests.estimators.test_changed_data import Killed, once

STRATEGIES = ["gram", "tsqr", "sketch", "stream", "paper"]


def changed(runs: int, scratch: Path) -> Iterator[Row]:
    """Four moments, each many times."""
    rng = random.Random(0)  # noqa: S311 - no secret
    moments = {
        "between two passes": lambda: _under_a_fit(scratch, rng, PassEnded),
        "in the middle of a pass": lambda: _under_a_fit(scratch, rng, RowsDone),
        "before a resume": lambda: _before_a_resume(scratch, rng),
        "while codes are written": lambda: _under_a_transform(scratch, rng),
    }
    for name, noticed in moments.items():
        missed = sum(not noticed() for _ in range(runs))
        yield Row("changed", name, runs, missed, f"{runs - missed} noticed, the chunk named, nothing written")


def _change(path: Path, rng: random.Random) -> tuple[str, Callable[[], None]]:
    """Name a random chunk and give an action that writes other rows to it."""
    number = rng.randrange(N_ROWS // CHUNK_ROWS)
    array: Any = zarr.open_array(path, mode="r+")
    rows = slice(number * CHUNK_ROWS, (number + 1) * CHUNK_ROWS)
    factor = rng.choice([2.0, 1 + 1e-6, -1.0])

    def write() -> None:
        array[rows] = factor * np.asarray(array[rows])

    return f"'c/{number}/0'", write


def _under_a_fit(scratch: Path, rng: random.Random, moment: type) -> bool:
    path = scratch / f"{rng.random()}.zarr"
    make_store(path)
    chunk, write = _change(path, rng)
    encoder = SparseEncoder(2, n_nonzero=4, strategy=rng.choice(STRATEGIES), progress=once(moment, write))
    try:
        encoder.fit(str(path))
    except DataChanged as error:
        return chunk in str(error)
    return False


def _before_a_resume(scratch: Path, rng: random.Random) -> bool:
    path, place = scratch / f"{rng.random()}.zarr", scratch / f"{rng.random()}"
    make_store(path)
    chunk, write = _change(path, rng)
    options: dict[str, Any] = {"n_nonzero": 4, "strategy": rng.choice(STRATEGIES), "checkpoint": str(place)}

    def end() -> None:
        raise Killed

    try:
        SparseEncoder(2, **options, progress=once(PassEnded, end)).fit(str(path))
    except Killed:
        write()
    try:
        SparseEncoder(2, **options).fit(str(path))
    except OtherCheckpoint as error:
        return chunk in str(error)
    return False


def _under_a_transform(scratch: Path, rng: random.Random) -> bool:
    path, output = scratch / f"{rng.random()}.zarr", scratch / f"{rng.random()}.zarr"
    make_store(path)
    encoder = SparseEncoder(2, n_nonzero=4).fit(str(path))
    chunk, write = _change(path, rng)
    try:
        transform_to_zarr(str(path), encoder, str(output), progress=once(RowsDone, write))
    except DataChanged as error:
        return chunk in str(error) and not output.exists()
    return False
