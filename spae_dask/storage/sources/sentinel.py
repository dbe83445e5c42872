"""Sources in which a number stands for missing: genotypes of -1, counts of 255, temperatures of -9999."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from spae_dask.blocks import ArrayBlocks, Block, LazyRowBlocks, RowBlocks, columns_alone, largest_block_nbytes
from spae_dask.errors import InvalidInput
from spae_dask.storage.sources.counted import ArrayChange, ReadsZarr
from spae_dask.storage.sources.dask_blocks import DaskBlocks


def with_missing(source: RowBlocks, missing_value: float | None) -> RowBlocks:
    """The source with NaN where it has ``missing_value``; itself if that is None.

    Entries become float32, or float64 where float32 cannot hold the source's type. A matrix in memory is copied; others
    are converted block by block, as they are read.

    Parameters
    ----------
    source : RowBlocks
        Of any real type.
    missing_value : float or None
        The number that stands for missing. Of sparse rows only stored entries are looked at.

    Raises
    ------
    InvalidInput
        If it is not a number, or one that the source's type cannot hold, so that it would never be found.
    """
    if missing_value is None:
        return source
    check_missing_value(missing_value, source)
    if isinstance(source, DaskBlocks):
        return replace(source, array=lazily_marked(source.array, missing_value))
    if isinstance(source, ArrayBlocks):
        return replace(source, X=mark_missing(source.X, missing_value))
    return SentinelBlocks(source, float(missing_value))


def lazily_marked(array: Any, missing_value: float | None) -> Any:
    """A dask array with NaN where it has ``missing_value``; itself if that is None."""
    if missing_value is None:
        return array
    return array.map_blocks(mark_missing, missing_value, dtype=holding_nan(array.dtype))


def check_missing_value(missing_value: object, source: RowBlocks) -> None:
    """Refuse a number that cannot occur in the source."""
    if isinstance(missing_value, bool) or not isinstance(missing_value, int | float | np.integer | np.floating):
        raise InvalidInput(f"missing_value={missing_value!r} is not a number: give one, such as -1, or None for NaN.")
    if source.dtype.kind in "iub" and not _holds(source.dtype, float(missing_value)):
        raise InvalidInput(
            f"missing_value={missing_value!r} can never occur in {source.describe()}, whose entries are "
            f"{source.dtype}: give a number of that type, or None if nothing is missing."
        )


def _holds(dtype: np.dtype[Any], value: float) -> bool:
    if dtype.kind == "b":
        return value in (0.0, 1.0)
    limits = np.iinfo(dtype)
    return value.is_integer() and limits.min <= value <= limits.max


def holding_nan(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The smallest float type of at least 32 bits that holds every number of ``dtype``, and NaN."""
    return np.dtype(np.float32) if np.can_cast(dtype, np.float32) else np.dtype(np.float64)


def mark_missing(block: Any, missing_value: float) -> Any:
    """A float copy of some rows, dense or CSR, with NaN where an entry is ``missing_value``."""
    if sp.issparse(block):
        rows = sp.csr_array(block)
        return sp.csr_array((_marked(rows.data, missing_value), rows.indices, rows.indptr), shape=rows.shape)
    return _marked(np.asarray(block), missing_value)


def _marked(values: npt.NDArray[Any], missing_value: float) -> npt.NDArray[Any]:
    marked = values.astype(holding_nan(values.dtype))
    # a Python float is compared in the type of the values: float32 holds no -999.9, but the number nearest to it
    marked[values == float(missing_value)] = np.nan
    return marked


@dataclass(frozen=True, eq=False)
class SentinelBlocks:
    """Another source's blocks, with NaN where an entry is ``missing_value``.

    Parameters
    ----------
    source : RowBlocks
        What is read; it has no lazy blocks.
    missing_value : float
        What stands for missing there.
    """

    source: RowBlocks
    missing_value: float

    def __post_init__(self) -> None:
        assert not isinstance(self.source, LazyRowBlocks), "a lazy source is marked in its own graph"

    @property
    def shape(self) -> tuple[int, int]:
        """That of the source."""
        return self.source.shape

    @property
    def dtype(self) -> np.dtype[np.generic]:
        """A float type."""
        return holding_nan(self.source.dtype)

    @property
    def bounds(self) -> Sequence[int]:
        """Those of the source."""
        return self.source.bounds

    @property
    def read_nbytes(self) -> int:
        """A block as it is stored, and a mask, beside what reading it takes."""
        return self.source.read_nbytes + 2 * largest_block_nbytes(self.source)

    @property
    def in_process(self) -> bool:
        """That of the source."""
        return self.source.in_process

    def __getattr__(self, name: str) -> Any:
        """What only some sources have, such as column names and stored entries: that of the source."""
        if name.startswith("__") or name == "source":  # asked for by pickle before there is a source
            raise AttributeError(name)
        return getattr(self.source, name)

    def read(self, i: int) -> Block:
        """Block ``i``, marked."""
        block: Block = mark_missing(self.source.read(i), self.missing_value)
        return block

    def with_arrays(self, change: ArrayChange) -> RowBlocks:
        """The same with other arrays beneath."""
        return replace(self, source=self.source.with_arrays(change)) if isinstance(self.source, ReadsZarr) else self

    def of_columns(self, columns: npt.NDArray[np.intp]) -> RowBlocks | None:
        """Some of its columns, marked, if the source can read them alone."""
        alone = columns_alone(self.source, columns)
        return None if alone is None else SentinelBlocks(alone, self.missing_value)

    def describe(self) -> str:
        """Name of the source."""
        return self.source.describe()
