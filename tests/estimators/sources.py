"""Stores and row-block sources that the tests of the estimators read, or must not read."""

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import zarr

from spae_dask import SparseEncoder
from spae_dask.blocks import uniform_bounds

FloatArray = npt.NDArray[np.float64]
FLOAT32 = np.dtype(np.float32)


def batch_encoder(n_components: int = 2, **parameters: Any) -> SparseEncoder:
    """The paper's batch encoder, whose properties many tests state; fewer would hold for the default method."""
    return SparseEncoder(n_components, **({"method": "batch"} | parameters))


def zarr_array(
    store: Any, X: npt.NDArray[Any], chunks: tuple[int, int], *, zarr_format: int = 3, **options: Any
) -> "zarr.Array[Any]":
    """Write X to a new Zarr array of the given chunks."""
    array = zarr.create_array(
        store, shape=X.shape, chunks=chunks, dtype=X.dtype, zarr_format=zarr_format, overwrite=True, **options
    )
    array[...] = X
    return array


def spread(rng: np.random.Generator, n: int, d: int, *, rank: int = 3) -> FloatArray:
    """Rows of a few factors, noise, a mean of their own and columns of different sizes: nothing ties."""
    factors = rng.standard_normal((n, rank)) * np.arange(rank, 0, -1)
    sizes = 1.0 + np.arange(d) / d
    return (factors @ rng.standard_normal((rank, d)) + 0.3 * rng.standard_normal((n, d))) * sizes + 5.0 * np.cos(
        np.arange(d)
    )


@dataclass(frozen=True, eq=False)
class Unreadable:
    """A source of any shape that fails the test if it is read."""

    shape: tuple[int, int]
    rows_per_block: int
    dtype: np.dtype[Any] = FLOAT32
    read_nbytes: int = 0
    in_process: bool = False
    name: str = "a store that must not be read"

    @property
    def bounds(self) -> Sequence[int]:
        return uniform_bounds(self.shape[0], self.rows_per_block)

    def read(self, i: int) -> Any:
        raise AssertionError(f"block {i} was read")

    def describe(self) -> str:
        return self.name


@dataclass(eq=False)
class Watched:
    """Rows of an array, with a record of how often blocks were read and how many at once."""

    X: npt.NDArray[Any]
    rows_per_block: int
    read_nbytes: int = 0
    in_process: bool = True
    reads: list[int] = field(default_factory=list)
    most_at_once: int = 0
    pause: float = 0.0
    _now: int = 0
    _lock: Any = field(default_factory=threading.Lock)

    @property
    def shape(self) -> tuple[int, int]:
        return self.X.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.X.dtype

    @property
    def bounds(self) -> Sequence[int]:
        return uniform_bounds(self.shape[0], self.rows_per_block)

    def read(self, i: int) -> Any:
        with self._lock:
            self.reads.append(i)
            self._now += 1
            self.most_at_once = max(self.most_at_once, self._now)
        time.sleep(self.pause)
        with self._lock:
            self._now -= 1
        return self.X[i * self.rows_per_block : (i + 1) * self.rows_per_block]

    def describe(self) -> str:
        return "watched rows"


def gapped(rows: np.ndarray[Any, Any], missing: str) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Rows with gaps, and the same with the gaps filled as ``missing`` says."""
    gaps = rows.copy()
    gaps[::2, ::5] = np.nan
    return gaps, np.where(np.isnan(gaps), 0.0 if missing == "zero" else np.nanmean(gaps, axis=0), gaps)
