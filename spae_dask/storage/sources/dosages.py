"""Calls of a VCF Zarr array (variants, samples, ploidy), seen as a matrix of samples by variants.

An entry is the number of alleles that are not the reference. The calls are transposed a few chunks at a time, as they
are read: no transposed copy of them is made.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from spae_dask.storage.sources.checked_store import ArrayChange, ZarrArray
from spae_dask.storage.sources.conversion import Conversion
from spae_dask.storage.sources.runs import n_at_once

MISSING, PADDING = -1, -2
"""Alleles that are not called, and that a sample of lower ploidy does not have."""

CALLED = Conversion(np.dtype(np.float32), (MISSING,), attributes={"missing_value": MISSING}, of_calls=True)
"""Genotypes as data: missing ones are NaN."""

Rows = slice
Columns = slice | npt.NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Dosages:
    """A matrix (samples, variants) with the members of a Zarr array that row blocks use.

    Parameters
    ----------
    calls : zarr.Array
        Numbers of alleles (variants, samples, ploidy): 0 is the reference, -1 is missing and -2 is padding.
    """

    calls: ZarrArray
    ndim: ClassVar[int] = 2
    dtype: ClassVar[np.dtype[Any]] = np.dtype(np.int8)

    @property
    def shape(self) -> tuple[int, int]:
        """``(n, d)``."""
        return _transposed(self.calls.shape)

    @property
    def chunks(self) -> tuple[int, int]:
        """Samples and variants of a chunk."""
        return _transposed(self.calls.chunks)

    @property
    def shards(self) -> tuple[int, int] | None:
        """Samples and variants of a shard, if there are shards."""
        return None if self.calls.shards is None else _transposed(self.calls.shards)

    @property
    def attrs(self) -> dict[str, Any]:
        """None: attributes of the calls describe alleles."""
        return {}

    @property
    def chunk_nbytes(self) -> int:
        """Bytes held for a chunk: its alleles as they are decoded and as they are put together, and work on them."""
        rows, columns = self.chunks
        ploidy = int(self.calls.shape[2])
        return rows * columns * (2 * ploidy * np.dtype(self.calls.dtype).itemsize + 4)

    @property
    def oindex(self) -> "Dosages":
        """Itself: it takes numbers of columns as well."""
        return self

    def __getitem__(self, where: Rows | tuple[Rows, Columns]) -> npt.NDArray[np.int8]:
        """Some rows, of all columns or of some."""
        rows, columns = where if isinstance(where, tuple) else (where, slice(None))
        n, d = self.shape
        wanted = np.arange(d)[columns]
        start, stop, _ = rows.indices(n)
        found = np.empty((max(0, stop - start), wanted.size), np.int8)
        last = 0
        while last < wanted.size:
            first, last = last, int(np.searchsorted(wanted, self._end_of_run(int(wanted[last]), start, stop)))
            found[:, first:last] = _dosages(self._alleles(wanted[first:last], start, stop)).T
        return found

    def _end_of_run(self, column: int, start: int, stop: int) -> int:
        """First column beyond those that are decoded together with one: as many chunks as Zarr decodes at once."""
        height, width = self.chunks
        n_chunks = max(1, n_at_once(self.calls) // max(1, -(-stop // height) - start // height))
        return (column // width + n_chunks) * width

    def _alleles(self, columns: npt.NDArray[np.intp], start: int, stop: int) -> npt.NDArray[Any]:
        first, last = int(columns[0]), int(columns[-1]) + 1
        if last - first == columns.size:
            return np.asarray(self.calls[first:last, start:stop])
        return np.asarray(self.calls.oindex[columns, start:stop])

    def keys(self, coordinates: tuple[int, ...]) -> Iterator[str]:
        """Store keys of the objects that hold a place of the grid of samples and variants."""
        length = (self.calls.shards or self.calls.chunks)[2]
        for place, allele in product((coordinates[::-1],), range(-(-self.calls.shape[2] // length))):
            yield self.calls.metadata.encode_chunk_key((*place, allele))

    def with_array(self, change: ArrayChange) -> "Dosages":
        """The same over another array."""
        return replace(self, calls=change(self.calls))


def _transposed(lengths: tuple[int, ...]) -> tuple[int, int]:
    return int(lengths[1]), int(lengths[0])


def _dosages(alleles: npt.NDArray[Any]) -> npt.NDArray[np.int8]:
    """Dosages (variants, samples) of alleles (variants, samples, ploidy); -1 where an allele is missing, or all are."""
    dosages = np.zeros(alleles.shape[:2], np.int8)
    missing = alleles[..., 0] == PADDING
    for allele in np.moveaxis(alleles, -1, 0):
        dosages += allele > 0
        missing |= allele == MISSING
    dosages[missing] = MISSING
    return dosages
