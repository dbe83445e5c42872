"""Sources whose numbers are converted as they are read, such as those in which -1, 255 or -9999 stands for missing."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from spae_dask.blocks import ArrayBlocks, Block, RowBlocks, asked_of, columns_alone, largest_block_nbytes, remember
from spae_dask.errors import InvalidInput
from spae_dask.storage.sources.changed import ChangedBlocks
from spae_dask.storage.sources.conversion import Conversion
from spae_dask.storage.sources.dask_blocks import DaskBlocks

MissingValue: TypeAlias = float | Sequence[float] | None
"""A number that stands for missing, several of them, or None."""


def with_missing(source: RowBlocks, missing_value: MissingValue) -> RowBlocks:
    """The source with NaN where it has ``missing_value``; itself if that is None.

    Entries become float32, or float64 where float32 cannot hold the source's type. A matrix in memory is copied; others
    are converted block by block, as they are read.

    Parameters
    ----------
    source : RowBlocks
        Source of any real type.
    missing_value : float, sequence of float or None
        The number that stands for missing, or several. Of sparse rows only stored entries are looked at.

    Raises
    ------
    InvalidInput
        If one is not a number, or one that the source's type cannot hold, so that it would never be found.
    """
    if missing_value is None:
        return source
    check_missing_value(missing_value, source)
    marked: Callable[[MissingValue], RowBlocks] | None = getattr(source, "marked", None)
    if marked is not None:  # what the source does to its entries comes after
        return marked(missing_value)
    if isinstance(source, DaskBlocks):
        return remember(replace(source, array=lazily_marked(source.array, missing_value)), **asked_of(source))
    if isinstance(source, ArrayBlocks):
        return remember(replace(source, X=mark_missing(source.X, missing_value)), **asked_of(source))
    return SentinelBlocks(source, _marking(source.dtype, missing_value))


def lazily_marked(array: Any, missing_value: MissingValue) -> Any:
    """A dask array with NaN where it has ``missing_value``; itself if that is None."""
    if missing_value is None:
        return array
    return array.map_blocks(mark_missing, missing_value, dtype=holding_nan(array.dtype))


def check_missing_value(missing_value: object, source: RowBlocks) -> None:
    """Refuse numbers that cannot occur in the source."""
    several = isinstance(missing_value, list | tuple | np.ndarray)
    numbers = _listed(missing_value)
    if not numbers or any(
        isinstance(each, bool) or not isinstance(each, int | float | np.integer | np.floating) for each in numbers
    ):
        raise InvalidInput(
            f"missing_value={missing_value!r} is not a {'list of numbers' if several else 'number'}. Give "
            "one, such as -1, several, such as [-1, -2], or None for NaN."
        )
    for each in numbers if source.dtype.kind in "iub" else ():
        if not _holds(source.dtype, float(each)):
            raise InvalidInput(
                f"missing_value={each!r} can never occur in {source.describe()}, whose entries are "
                f"{source.dtype}. Give a number of that type, or None if nothing is missing."
            )


def _listed(missing_value: Any) -> tuple[Any, ...]:
    return tuple(missing_value) if isinstance(missing_value, list | tuple | np.ndarray) else (missing_value,)


def _holds(dtype: np.dtype[Any], value: float) -> bool:
    if dtype.kind == "b":
        return value in (0.0, 1.0)
    limits = np.iinfo(dtype)
    return value.is_integer() and limits.min <= value <= limits.max


def holding_nan(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The smallest float type of at least 32 bits that holds every number of ``dtype``, and NaN."""
    return np.dtype(np.float32) if np.can_cast(dtype, np.float32) else np.dtype(np.float64)


def mark_missing(block: Any, missing_value: MissingValue) -> Any:
    """A float copy of some rows, dense or CSR, with NaN where an entry is ``missing_value``, or one of several."""
    return _marking(block.dtype, missing_value).block(block)


def _marking(dtype: np.dtype[Any], missing_value: MissingValue) -> Conversion:
    # a Python float is compared in the type of the values: float32 holds no -999.9, but the number nearest to it
    return Conversion(holding_nan(dtype), tuple(float(each) for each in _listed(missing_value)))


@dataclass(frozen=True, eq=False)
class SentinelBlocks(ChangedBlocks):
    """Another source's blocks, converted as they are read.

    Parameters
    ----------
    source : RowBlocks
        Source to read. It has no lazy blocks.
    conversion : Conversion
        Arithmetic that makes data of what is read.
    """

    conversion: Conversion

    @property
    def dtype(self) -> np.dtype[np.generic]:
        """Type of the data."""
        return self.conversion.dtype

    @property
    def read_nbytes(self) -> int:
        """A block as it is stored, and again if its bits are read as another type, and a mask, beside what it takes."""
        copies = 2 if self.conversion.integers is None else 3
        return self.source.read_nbytes + copies * largest_block_nbytes(self.source)

    @property
    def missing_value(self) -> float | list[float] | None:
        """Numbers that a caller says stand for missing; None where the store declares what it holds."""
        if self.conversion.attributes is not None:
            return None
        numbers = list(self.conversion.sentinels)
        return numbers[0] if len(numbers) == 1 else numbers

    @property
    def decoded(self) -> dict[str, Any] | None:
        """Declaration of the store about its numbers, and the numbers they are read as; None if it declares nothing."""
        if self.conversion.attributes is None:
            return getattr(self.source, "decoded", None)
        return {
            "stored_dtype": str(self.source.dtype),
            "dtype": str(self.dtype),
            "attributes": dict(self.conversion.attributes),
        }

    @property
    def decoding(self) -> str | None:
        """The same in one line for people."""
        if self.conversion.attributes is None:
            return getattr(self.source, "decoding", None)
        return self.conversion.describe(self.source.dtype)

    @property
    def missing_told(self) -> str | None:
        """Sentences of the error about NaN; None if the store declares no missing entries."""
        if self.conversion.attributes is None:
            return getattr(self.source, "missing_told", None)
        return self.conversion.missing_told()

    def read(self, i: int) -> Block:
        """Block ``i``, converted."""
        block: Block = self.conversion.block(self.source.read(i))
        return block

    def of_columns(self, columns: npt.NDArray[np.intp]) -> RowBlocks | None:
        """Some of its columns, converted, if the source can read them alone."""
        alone = columns_alone(self.source, columns)
        return None if alone is None else replace(self, source=alone)
