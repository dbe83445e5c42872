"""Row blocks of files that hold the calls of one variant after another: rows are samples, columns are variants."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from spae_dask.blocks import RowBlocks, uniform_bounds
from spae_dask.errors import StorageError
from spae_dask.storage.remote.faults import read_failed
from spae_dask.storage.sources.zarr_blocks import FEWEST_ROWS, MAX_BLOCK_NBYTES

TARGET_BLOCK_NBYTES = 32 << 20
"""Bytes of a row block as data. Each block costs a read of every variant, so blocks are larger than elsewhere."""

DATA_ITEMSIZE = 4
"""Bytes of an entry as data, float32."""

WINDOW_NBYTES = 1 << 20
"""Bytes of variants that are decoded at a time, small enough for a cache."""

GROUP = 4
"""Samples that files pack into a byte: blocks begin at whole bytes."""


@dataclass(frozen=True, eq=False)
class VariantBlocks:
    """Samples by variants. Abstract: a format reads the calls of its variants.

    Parameters
    ----------
    path : str
        The file.
    companions : tuple of str
        The files beside it, that describe variants and samples.
    n_samples, n_variants : int
        Samples and variants of the file.
    feature_names : tuple of str
        Names of the variants that are read.
    variants : ndarray (d,) of int, optional
        Numbers of these variants in the file, ascending; all if not given.
    target_nbytes : int
        Bytes of a row block as data.
    passed_over : tuple of str
        Attributes that declare the coding of the numbers, if the stored numbers are read.
    """

    path: str
    companions: tuple[str, ...]
    n_samples: int
    n_variants: int
    feature_names: tuple[str, ...]
    variants: npt.NDArray[np.intp] | None = None
    target_nbytes: int = TARGET_BLOCK_NBYTES
    passed_over: tuple[str, ...] = ()
    in_process: bool = False

    @property
    def shape(self) -> tuple[int, int]:
        """``(n, d)``."""
        return self.n_samples, len(self.feature_names)

    @property
    def dtype(self) -> np.dtype[np.generic]:
        """Type of the entries as they are stored."""
        return np.dtype(np.int8)

    @property
    def rows_per_block(self) -> int:
        """Rows that take the usual bytes as data, in whole groups."""
        n, d = self.shape
        row_nbytes = max(1, d) * DATA_ITEMSIZE
        target = max(self.target_nbytes, min(FEWEST_ROWS * row_nbytes, MAX_BLOCK_NBYTES))
        return max(1, min(n, max(1, target // (GROUP * row_nbytes)) * GROUP))

    @property
    def bounds(self) -> range | tuple[int, ...]:
        """Row bounds of the blocks."""
        return uniform_bounds(self.n_samples, self.rows_per_block)

    @property
    def read_nbytes(self) -> int:
        """A few variants, packed and decoded."""
        return 4 * WINDOW_NBYTES

    @property
    def files(self) -> tuple[str, ...]:
        """The file, and those beside it."""
        return (self.path, *self.companions)

    def of_columns(self, columns: npt.NDArray[np.intp]) -> RowBlocks | None:
        """Some variants alone: the others are not read."""
        if len(columns) == self.shape[1]:
            return None
        names = tuple(self.feature_names[column] for column in columns)
        return replace(self, feature_names=names, variants=self._numbers[columns])

    def describe(self) -> str:
        """The path."""
        return self.path

    def read(self, i: int) -> npt.NDArray[np.generic]:
        """Rows of block ``i``.

        Raises
        ------
        StorageError
            If they cannot be read; TransientStorageError if another try may succeed.
        """
        start = i * self.rows_per_block
        stop = min(start + self.rows_per_block, self.n_samples)
        rows = np.empty((stop - start, self.shape[1]), self.dtype)
        first = 0
        try:
            for calls in self._windows(start, stop):
                rows[:, first : first + len(calls)] = calls.T
                first += len(calls)
        except (MemoryError, StorageError):
            raise
        except Exception as error:  # a library raises exceptions of any type
            raise read_failed(
                f"rows {start} to {stop - 1} of {self.path} cannot be read: {error}.",
                "The file was complete when it was opened.",
                error,
            ) from error
        return rows

    @property
    def _numbers(self) -> npt.NDArray[np.intp]:
        return np.arange(self.n_variants) if self.variants is None else self.variants

    def _windows(self, start: int, stop: int) -> Iterator[npt.NDArray[Any]]:
        """Calls (variants, samples) of the samples ``start`` to ``stop - 1``, a few variants after others."""
        raise NotImplementedError
