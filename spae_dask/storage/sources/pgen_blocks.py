"""Row blocks of a PLINK 2 ``.pgen`` file, read by pgenlib."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pgenlib

from spae_dask.storage.sources.dosages import MISSING
from spae_dask.storage.sources.variant_blocks import DATA_ITEMSIZE, WINDOW_NBYTES, VariantBlocks

NOT_CALLED = -9
"""The number that pgenlib gives for a missing call."""

PLOIDY = 2


@dataclass(frozen=True, eq=False)
class PgenBlocks(VariantBlocks):
    """Samples by variants of a ``.pgen`` file: the number of alleles that are not the reference, -1 if it is missing.

    Parameters
    ----------
    n_alleles : ndarray of int, optional
        Alleles of each variant of the file, if a variant has more than two.
    dosages : bool
        True for dosages, float32; False for hard calls.
    """

    n_alleles: npt.NDArray[np.intp] | None = None
    dosages: bool = False

    @property
    def dtype(self) -> np.dtype[np.generic]:
        """Type of the entries as they are read."""
        return np.dtype(np.float32 if self.dosages else np.int8)

    @property
    def decodes_per_chunk(self) -> int:
        """Number of times that a pass decodes each variant: once for each block."""
        return len(self.bounds) - 1

    def _windows(self, start: int, stop: int) -> Iterator[npt.NDArray[Any]]:
        numbers = self._numbers.astype(np.uint32)
        step = max(1, WINDOW_NBYTES // (DATA_ITEMSIZE * (stop - start)))
        with opened(self.path, self.n_alleles, np.arange(start, stop, dtype=np.uint32)) as reader:
            read = reader.read_dosages_list if self.dosages else reader.read_list
            for left in range(0, numbers.size, step):
                wanted = numbers[left : left + step]
                calls = np.empty((wanted.size, stop - start), self.dtype)
                read(wanted, calls, allele_idx=0)
                missing = calls == NOT_CALLED
                np.subtract(PLOIDY, calls, out=calls)
                calls[missing] = MISSING
                yield calls


def opened(path: str, n_alleles: npt.NDArray[np.intp] | None, samples: npt.NDArray[np.uint32] | None = None) -> Any:
    """A reader of pgenlib, of all samples or of some."""
    starts = None if n_alleles is None else np.concatenate([[0], np.cumsum(n_alleles)]).astype(np.uintp)
    return pgenlib.PgenReader(os.fsencode(path), sample_subset=samples, allele_idx_offsets=starts)
