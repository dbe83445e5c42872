"""Named problems: matrices that anybody can make again, bit for bit, from their fields alone."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import numpy.typing as npt
import zarr
from dask.delayed import delayed
from dask.system import CPU_COUNT
from zarr.codecs import BloscCodec

CODECS: dict[str, Any] = {"zstd": "auto", "lz4": BloscCodec(cname="lz4", clevel=5, shuffle="shuffle")}
"""What the chunks are compressed with: Zarr's own default, and what decodes fastest."""

THREADS = int(CPU_COUNT)
"""Threads that make a store, read it, or fit it without a cluster."""

RANK = 8
"""Directions that the problems' columns share."""


@dataclass(frozen=True)
class SensorCounts:
    """A Zarr store of 12-bit digital numbers kept as float32, as sensors and converted integer images have.

    Columns share eight directions and have noise of thirty counts. Zstd makes the chunks half as large. Of counts of
    8 to 14 bits, rounded temperatures, rounded smooth fields and logarithms of gene counts, these decode slowest: at
    0.7 GB/s in a bare codec on a quiet server core, where the others reach 0.8 to 1.0. The faster reading is, the
    larger is a fit's ratio to it, though the fit itself is faster too.

    Parameters
    ----------
    n_features : int
        d.
    nbytes : int
        Decoded bytes of the store.
    codec : {"zstd", "lz4"}
        See ``CODECS``.
    chunk_nbytes : int
        Decoded bytes of a chunk, of a row of chunks if they are narrow.
    seed : int
        Of the random numbers; each row of chunks has its own stream.
    chunk_columns : int, optional
        Columns of a chunk; chunks are full width if not given.
    dtype : {"f4", "u1"}
        Type of the entries. The first eight bits of the numbers are kept as u1.
    """

    n_features: int
    nbytes: int
    codec: str = "zstd"
    chunk_nbytes: int = 8 << 20
    seed: int = 0
    chunk_columns: int | None = None
    dtype: str = "f4"

    @property
    def chunk_rows(self) -> int:
        """Rows of a chunk."""
        return self.chunk_nbytes // (np.dtype(self.dtype).itemsize * self.n_features)

    @property
    def n_chunks(self) -> int:
        """Chunks of the store, or rows of chunks."""
        return self.nbytes // self.chunk_nbytes

    @property
    def shape(self) -> tuple[int, int]:
        """``(n, d)``."""
        return self.chunk_rows * self.n_chunks, self.n_features

    def describe(self) -> str:
        """Shape, chunks and size."""
        (n, d), columns, dtype = self.shape, self.chunk_columns or self.n_features, np.dtype(self.dtype)
        return (
            f"{n:,} x {d:,} {dtype}, {n * d * dtype.itemsize / 1e9:.3g} GB, {self.codec} chunks of "
            f"{self.chunk_rows} x {columns:,}"
        )

    @cached_property
    def directions(self) -> npt.NDArray[np.float32]:
        """What the columns share, (8, d), falling off."""
        directions = np.random.default_rng(self.seed).standard_normal((RANK, self.n_features))
        return (directions / np.arange(1, RANK + 1)[:, None]).astype(np.float32)

    def chunk(self, i: int) -> npt.NDArray[Any]:
        """Rows of chunk ``i``."""
        rng = np.random.default_rng([self.seed, i])
        scores = rng.standard_normal((self.chunk_rows, RANK), dtype=np.float32)
        counts = rng.standard_normal((self.chunk_rows, self.n_features), dtype=np.float32)
        # in place, because making a store takes longer than any fit of it
        counts *= 30
        counts += 2000 + 600 * scores @ self.directions
        np.rint(counts, out=counts)
        np.clip(counts, 0, 4095, out=counts)
        return counts if self.dtype == "f4" else (counts / 16).astype(self.dtype)

    def make(self, scratch: Path) -> Path:
        """Write the store below ``scratch``, once, and return where it is."""
        n, d = self.shape
        columns, rows = self.chunk_columns or d, self.chunk_rows
        path = scratch / f"counts-{n}x{d}-{self.chunk_nbytes}x{columns}-{self.seed}-{self.codec}-{self.dtype}.zarr"
        if path.exists():
            return path
        unfinished = path.with_suffix(".part")
        array = zarr.create_array(
            unfinished, shape=self.shape, chunks=(rows, columns), dtype=self.dtype, compressors=CODECS[self.codec]
        )

        def write(i: int) -> None:
            array[i * rows : (i + 1) * rows] = self.chunk(i)

        with ThreadPoolExecutor(THREADS) as pool:
            list(pool.map(write, range(self.n_chunks)))
        return unfinished.rename(path)


@dataclass(frozen=True)
class GaussianBlocks:
    """A dask array of float32 Gaussian rows, tall blocks of full width.

    Parameters
    ----------
    n_features : int
        d.
    n_blocks : int
        Blocks.
    block_nbytes : int
        Bytes of a block.
    seed : int
        Of the random numbers; each block has its own stream.
    """

    n_features: int
    n_blocks: int
    block_nbytes: int = 8 << 20
    seed: int = 0

    @property
    def block_rows(self) -> int:
        """Rows of a block."""
        return self.block_nbytes // (4 * self.n_features)

    def block(self, i: int) -> npt.NDArray[np.float32]:
        """Rows of block ``i``."""
        rng = np.random.default_rng([self.seed, i])
        return rng.standard_normal((self.block_rows, self.n_features), dtype=np.float32)

    def in_memory(self) -> da.Array:
        """All blocks made now, so that computing with them times nothing else."""
        return da.concatenate([da.from_array(self.block(i), chunks=-1) for i in range(self.n_blocks)])

    def made_when_read(self) -> da.Array:
        """Blocks made by the tasks that need them, so that n rows take no memory."""
        shape = (self.block_rows, self.n_features)
        return da.concatenate(
            [
                da.from_delayed(delayed(self.block, pure=False)(i), shape=shape, dtype=np.float32)
                for i in range(self.n_blocks)
            ]
        )
