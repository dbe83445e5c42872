"""Data that take their time, importable by workers."""

import time
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Slow:
    """Random rows, made of the number of their block; each block takes some time."""

    n_blocks: int
    seconds: float
    rows_per_block: int = 8192
    n_columns: int = 256
    in_process: bool = False
    read_nbytes: int = 0

    @property
    def shape(self) -> tuple[int, int]:
        return self.n_blocks * self.rows_per_block, self.n_columns

    @property
    def dtype(self) -> np.dtype[np.generic]:
        return np.dtype("float32")

    @property
    def bounds(self) -> range:
        return range(0, self.shape[0] + 1, self.rows_per_block)

    def read(self, i: int) -> NDArray[np.generic]:
        time.sleep(self.seconds)
        return np.random.default_rng(i).normal(size=(self.rows_per_block, self.n_columns)).astype(np.float32)

    def describe(self) -> str:
        return "slow numbers"
