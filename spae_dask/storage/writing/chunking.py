"""Cut of a matrix into chunks and shards. Pure: shapes in, shapes out."""

import math
from dataclasses import dataclass

from spae_dask.errors import InvalidInput

CHUNK_NBYTES = 8 << 20
"""Decoded bytes of a chunk: large beside the price of a request, small beside a worker's memory."""

MAX_OBJECTS = 10_000
"""Objects a store may have before chunks are gathered in shards: file systems and quotas count files."""


@dataclass(frozen=True)
class Layout:
    """Chunks and shards of a matrix (n, d).

    Attributes
    ----------
    chunks : tuple of int
        Rows and columns of what is decoded at once.
    shards : tuple of int, optional
        Rows and columns of one stored object, if it holds several chunks.
    """

    chunks: tuple[int, int]
    shards: tuple[int, int] | None = None

    @property
    def unit(self) -> tuple[int, int]:
        """Rows and columns of one stored object, which is what must be written at once."""
        return self.shards or self.chunks

    def n_objects(self, shape: tuple[int, int]) -> int:
        """Stored objects of a matrix of that shape."""
        return math.prod(-(-length // step) for length, step in zip(shape, self.unit, strict=True))


def choose_layout(
    shape: tuple[int, int],
    itemsize: int,
    *,
    chunks: tuple[int, int] | None = None,
    max_chunk_nbytes: int = CHUNK_NBYTES,
    max_shard_nbytes: int = 4 * CHUNK_NBYTES,
) -> Layout:
    """Full-width chunks of equal numbers of rows, cut across columns only if one row is too large for a chunk.

    Parameters
    ----------
    shape : tuple of int
        ``(n, d)``; an estimate of n will do.
    itemsize : int
        Bytes of an entry.
    chunks : tuple of int, optional
        Rows and columns of a chunk, if the choice has been made.
    max_chunk_nbytes : int
        Decoded bytes of a chunk.
    max_shard_nbytes : int
        Decoded bytes of all columns of a row of shards, which a writer holds at once.

    Returns
    -------
    Layout
        Layout of the array. It has shards if there would be more than `MAX_OBJECTS` objects and the memory allows.

    Raises
    ------
    InvalidInput
        If ``chunks`` is not two positive integers.
    """
    n, d = shape
    if chunks is None:
        columns = min(d, max(1, max_chunk_nbytes // itemsize))
        rows = max(1, max_chunk_nbytes // (columns * itemsize))
        rows = -(-n // -(-n // rows))  # as many chunks, of equal height
    else:
        if len(chunks) != 2 or any(isinstance(c, bool) or not isinstance(c, int) or c < 1 for c in chunks):
            raise InvalidInput(f"chunks={chunks!r} must be two positive integers: rows and columns of a chunk.")
        rows, columns = min(n, chunks[0]), min(d, chunks[1])
    n_tall, n_wide = -(-n // rows), -(-d // columns)
    if n_tall * n_wide <= MAX_OBJECTS:
        return Layout((rows, columns))
    # rows first, as far as the memory allows, then columns
    tall = -(-n_tall // max(1, MAX_OBJECTS // n_wide))
    tall = min(tall, max(1, max_shard_nbytes // (rows * d * itemsize)))
    wide = -(-n_wide // max(1, MAX_OBJECTS // -(-n_tall // tall)))
    if tall * wide == 1:
        return Layout((rows, columns))
    return Layout((rows, columns), (rows * tall, columns * wide))
