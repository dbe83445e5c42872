"""Row blocks of a PLINK 1 ``.bed`` file.

The file holds three bytes, then a record for each variant: two bits a sample, four samples a byte, the first sample in
the lowest bits. See https://www.cog-genomics.org/plink/1.9/formats#bed.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from spae_dask.storage.remote.byte_files import LocalFile, Piece
from spae_dask.storage.sources.dosages import MISSING
from spae_dask.storage.sources.variant_blocks import GROUP, WINDOW_NBYTES, VariantBlocks

MAGIC = b"\x6c\x1b"
BY_VARIANT, BY_SAMPLE = b"\x01", b"\x00"
"""The third byte: the order of the file."""

HEADER_NBYTES = 3

WHOLE_NBYTES = 8 << 10
"""A record of up to so many bytes is read whole, with its neighbours: that takes no longer than a call for a part."""

DOSAGES = np.array([2, MISSING, 1, 0], np.int8)
"""Number of A1 alleles, the first of the ``.bim`` file, by the two bits of a sample."""

BYTES = DOSAGES[np.arange(256)[:, None] >> np.arange(0, 8, 2) & 3].view(np.int32)[:, 0]
"""The four dosages in each byte, as one number."""


@dataclass(frozen=True, eq=False)
class BedBlocks(VariantBlocks):
    """Samples by variants of a ``.bed`` file: the number of A1 alleles, -1 where it is missing."""

    def _windows(self, start: int, stop: int) -> Iterator[npt.NDArray[Any]]:
        record, first, last = record_nbytes(self.n_samples), start // GROUP, -(-stop // GROUP)
        whole = self.variants is None and record <= WHOLE_NBYTES
        if whole:
            first, last = 0, record
        width = last - first
        step = max(1, WINDOW_NBYTES // (GROUP * width))
        numbers, file = self._numbers, LocalFile(self.path)
        packed = np.empty((step, width), np.uint8)
        for left in range(0, numbers.size, step):
            wanted = numbers[left : left + step]
            room = packed[: wanted.size]
            pieces: list[Piece] = [(HEADER_NBYTES + int(wanted[0]) * record, room.reshape(-1).data)]
            if not whole:
                pieces = [
                    (HEADER_NBYTES + int(number) * record + first, part.data)
                    for number, part in zip(wanted, room, strict=True)
                ]
            file.fill(pieces)
            calls = BYTES[room[:, start // GROUP - first : -(-stop // GROUP) - first]].view(np.int8)
            yield calls[:, : stop - start]


def record_nbytes(n_samples: int) -> int:
    """Bytes of a variant."""
    return -(-n_samples // GROUP)
