"""A source that fails by a script: what each reading of each block does, counted across processes."""

import os
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from spae_dask.blocks import Block, RowBlocks
from spae_dask.errors import InvalidInput, StorageError, TransientStorageError


def _wait() -> None:
    time.sleep(0.2)


def _wait_long() -> None:
    time.sleep(4)


def _wait_longer() -> None:
    time.sleep(10)


def _wait_a_second() -> None:
    time.sleep(1)


def _lose_a_chunk_late() -> None:
    time.sleep(4)
    _lose_a_chunk()


def _hang() -> None:
    time.sleep(300)  # longer than any test may take


def _falter() -> None:
    raise TransientStorageError("chunk 'c/3/0' cannot be read: SlowDown.")


def _kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _leave() -> None:
    os._exit(3)


def _lose_a_chunk() -> None:
    raise StorageError("chunk 'c/3/0' cannot be read")


def _refuse() -> None:
    raise InvalidInput("the block holds words, not numbers")


ACTIONS = {
    "read": lambda: None,
    "slow": _wait,
    "a second": _wait_a_second,
    "very slow": _wait_long,
    "slower still": _wait_longer,
    "hangs": _hang,
    "falter": _falter,
    "killed": _kill,
    "exit": _leave,
    "storage error": _lose_a_chunk,
    "slow fault": _lose_a_chunk_late,
    "invalid input": _refuse,
}


@dataclass(frozen=True, eq=False)
class Scripted:
    """``inner``, whose block ``i`` does ``script[i][n]`` before its reading number n; the last entry is repeated.

    Attributes
    ----------
    inner : RowBlocks
        What is read in the end.
    folder : Path
        Where readings are counted, one file each, so that they outlive a worker.
    script : dict of int to tuple of str
        Timing map; blocks that are not in it are just read.
    """

    inner: RowBlocks
    folder: Path
    script: dict[int, tuple[str, ...]] = field(default_factory=dict)

    @property
    def shape(self) -> tuple[int, int]:
        return self.inner.shape

    @property
    def dtype(self) -> np.dtype[np.generic]:
        return self.inner.dtype

    @property
    def bounds(self) -> Sequence[int]:
        return self.inner.bounds

    @property
    def read_nbytes(self) -> int:
        return self.inner.read_nbytes

    @property
    def in_process(self) -> bool:
        return self.inner.in_process

    def read(self, i: int) -> Block:
        number = self._count(i)
        actions = self.script.get(i, ("read",))
        ACTIONS[actions[min(number, len(actions) - 1)]]()
        return self.inner.read(i)

    def readings(self, i: int) -> int:
        """How often block ``i`` has been asked for, by anybody."""
        return len(list(self.folder.glob(f"{i}-*")))

    def all_readings(self) -> int:
        """How often any block has been asked for."""
        return len(list(self.folder.iterdir()))

    def describe(self) -> str:
        return "a scripted source"

    def _count(self, i: int) -> int:
        number = 0
        while True:
            try:
                (self.folder / f"{i}-{number}").touch(exist_ok=False)
            except FileExistsError:
                number += 1
            else:
                return number
