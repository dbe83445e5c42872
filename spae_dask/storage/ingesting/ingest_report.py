"""Report of an ingest: the written store, and the reasons for its layout."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from spae_dask.quantities import format_nbytes


@dataclass(frozen=True)
class IngestReport:
    """Store that an ingest wrote, and the reasons for its layout.

    Attributes
    ----------
    source, path : str
        Data that were read, and path of the new store.
    shape : tuple of int
        ``(n, d)``.
    dtype : str
        Type of the entries.
    chunks, shards : tuple of int
        Rows and columns of a chunk, and of a shard if there are shards.
    codec, reason : str
        Name of the codec, and why it was taken.
    n_objects : int
        Stored chunks or shards.
    nbytes, stored_nbytes : int
        Bytes of the matrix, decoded and as stored.
    decodes_per_chunk : int
        Number of times that each chunk of the source had to be decoded to stay within the budget.
    notes : tuple of str
        Findings about the source, for the user.
    """

    source: str
    path: str
    shape: tuple[int, int]
    dtype: str
    chunks: tuple[int, int]
    shards: tuple[int, int] | None
    codec: str
    reason: str
    n_objects: int
    nbytes: int
    stored_nbytes: int
    decodes_per_chunk: int
    notes: tuple[str, ...] = ()

    @property
    def ratio(self) -> float:
        """Uncompressed size divided by stored size, of the matrix."""
        return self.nbytes / self.stored_nbytes

    def as_dict(self) -> dict[str, Any]:
        """The fields by name and the ratio, for JSON."""
        return {**asdict(self), "ratio": self.ratio}

    def describe(self) -> str:
        """A few lines for people."""
        (n, d), (rows, columns) = self.shape, self.chunks
        chunk = format_nbytes(rows * columns * np.dtype(self.dtype).itemsize)
        gathered = f", gathered in shards of {self.shards[0]:,} x {self.shards[1]:,}" if self.shards else ""
        lines = [
            f"{self.source} -> {self.path}",
            f"  matrix   {n:,} x {d:,} {self.dtype}, {format_nbytes(self.nbytes)}",
            f"  chunks   {rows:,} x {columns:,}, {chunk} each{gathered}",
            f"  codec    {self.codec}: {self.reason}",
            f"  stored   {format_nbytes(self.stored_nbytes)} in {self.n_objects:,} objects, {self.ratio:.2f} times "
            "smaller; every one was read back and compared",
        ]
        lines += [f"  note     {note}" for note in self.notes]
        if self.decodes_per_chunk > 1:
            lines.append(
                f"  note     the source's chunks are tall, and each was decoded {self.decodes_per_chunk} times; a "
                "larger budget reads less"
            )
        return "\n".join(lines)


@dataclass(frozen=True)
class SparseIngestReport:
    """Sparse matrix that an ingest wrote.

    Attributes
    ----------
    source, path : str
        Data that were read, and path of the new store.
    shape : tuple of int
        ``(n, d)``.
    dtype : str
        Type of the entries.
    n_entries : int
        Stored entries.
    chunk_entries : int
        Entries of a chunk.
    codec, reason : str
        Name of the codec of the values, and why it was taken.
    n_objects : int
        Stored chunks or shards of all three arrays.
    nbytes, read_nbytes, stored_nbytes : int
        Bytes of the three arrays, of those of the source, and as stored.
    """

    source: str
    path: str
    shape: tuple[int, int]
    dtype: str
    n_entries: int
    chunk_entries: int
    codec: str
    reason: str
    n_objects: int
    nbytes: int
    read_nbytes: int
    stored_nbytes: int

    @property
    def ratio(self) -> float:
        """Uncompressed size divided by stored size, of the arrays."""
        return self.nbytes / self.stored_nbytes

    def as_dict(self) -> dict[str, Any]:
        """The fields by name and the ratio, for JSON."""
        return {**asdict(self), "ratio": self.ratio}

    def describe(self) -> str:
        """A few lines for people."""
        n, d = self.shape
        return "\n".join(
            [
                f"{self.source} -> {self.path}",
                f"  matrix   {n:,} x {d:,} {self.dtype}, sparse: {self.n_entries:,} entries "
                f"({self.n_entries / (n * d):.2%}), {format_nbytes(self.nbytes)}",
                f"  chunks   {self.chunk_entries:,} entries each",
                f"  codec    {self.codec}: {self.reason}",
                f"  stored   {format_nbytes(self.stored_nbytes)} in {self.n_objects:,} objects, {self.ratio:.2f} times "
                "smaller; every one was read back and compared",
            ]
        )
