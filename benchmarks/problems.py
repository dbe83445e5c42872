"""Named problems: matrices that anybody can make again, bit for bit, from their fields alone."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import numpy.typing as npt
import zarr
from dask.delayed import delayed
from zarr.codecs import BloscCodec

CODECS: dict[str, Any] = {"zstd": "auto", "lz4": BloscCodec(cname="lz4", clevel=5, shuffle="shuffle")}
"""What the chunks are compressed with: Zarr's own default, and what decodes fastest."""

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
        Decoded bytes of a chunk; chunks are full width.
    seed : int
        Of the random numbers; each chunk has its own stream.
    """

    n_features: int
    nbytes: int
    codec: str = "zstd"
    chunk_nbytes: int = 8 << 20
    seed: int = 0

    @property
    def chunk_rows(self) -> int:
        """Rows of a chunk."""
        return self.chunk_nbytes // (4 * self.n_features)

    @property
    def n_chunks(self) -> int:
        """Chunks of the store."""
        return self.nbytes // self.chunk_nbytes

    @property
    def shape(self) -> tuple[int, int]:
        """``(n, d)``."""
        return self.chunk_rows * self.n_chunks, self.n_features

    def chunk(self, i: int) -> npt.NDArray[np.float32]:
        """Rows of chunk ``i``."""
        directions = np.random.default_rng(self.seed).standard_normal((RANK, self.n_features))
        directions /= np.arange(1, RANK + 1)[:, None]
        rng = np.random.default_rng([self.seed, i])
        signal = rng.standard_normal((self.chunk_rows, RANK)) @ directions
        noise = rng.standard_normal((self.chunk_rows, self.n_features))
        return np.clip(np.rint(2000 + 600 * signal + 30 * noise), 0, 4095).astype(np.float32)

    def make(self, scratch: Path) -> Path:
        """Write the store below ``scratch``, once, and return where it is."""
        n, d = self.shape
        path = scratch / f"counts-{n}x{d}-{self.chunk_nbytes}-{self.seed}-{self.codec}.zarr"
        if path.exists():
            return path
        unfinished = path.with_suffix(".part")
        array = zarr.create_array(
            unfinished, shape=self.shape, chunks=(self.chunk_rows, d), dtype="f4", compressors=CODECS[self.codec]
        )
        for i in range(self.n_chunks):
            array[i * self.chunk_rows : (i + 1) * self.chunk_rows] = self.chunk(i)
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
