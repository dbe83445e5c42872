"""Counts of transcripts in cells: a CSR matrix in the layout of AnnData, made block by block."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
import zarr
from scipy.optimize import brentq

from benchmarks.problems import RANK, THREADS
from spae_dask.storage.ingesting.csr_ingest import CHUNK_ENTRIES, RunWriter

BLOCK_ROWS = 2000
"""Cells that are made at once."""

TICKETS = 1 << 20
"""Genes are drawn from a list of so many, on which each stands as often as it is expressed."""


@dataclass(frozen=True)
class CellCounts:
    """Multinomial counts: every cell mixes a few programs, and every program has its own profile of genes.

    Parameters
    ----------
    n_samples, n_features : int
        Cells and genes.
    density : float
        Share of entries that are not zero, about.
    seed : int
        Of the random numbers; each block of cells has its own stream.
    """

    n_samples: int
    n_features: int
    density: float = 0.05
    seed: int = 0

    def describe(self) -> str:
        """Shape and kind."""
        return f"{self.n_samples:,} x {self.n_features:,} float32 counts in CSR, about {self.density:.0%} stored"

    @cached_property
    def profiles(self) -> npt.NDArray[np.float64]:
        """Shares of the genes in each program, (8, d): lognormal, half of it common to all."""
        rng = np.random.default_rng(self.seed)
        common = rng.standard_normal(self.n_features)
        profiles = np.exp(common + rng.standard_normal((RANK, self.n_features)))
        return profiles / profiles.sum(axis=1, keepdims=True)

    @cached_property
    def tickets(self) -> list[npt.NDArray[np.int32]]:
        """For each program, its genes as often as they are expressed."""
        genes = np.arange(self.n_features, dtype=np.int32)
        cuts = np.rint(np.cumsum(self.profiles, axis=1) * TICKETS).astype(np.int64)
        return [np.repeat(genes, np.diff(cut, prepend=0)) for cut in cuts]

    @cached_property
    def depth(self) -> float:
        """Transcripts of an average cell: with so many, the wanted share of genes is seen if programs mix evenly."""
        profile = self.profiles.mean(axis=0)
        return float(brentq(lambda n: np.mean(-np.expm1(-n * profile)) - self.density, 1, 1e3 * self.n_features))

    def block(self, i: int) -> sp.csr_array:
        """Cells of block ``i``."""
        rng = np.random.default_rng([self.seed, i])
        m = min(BLOCK_ROWS, self.n_samples - i * BLOCK_ROWS)
        transcripts = rng.poisson(self.depth * rng.lognormal(0, 0.3, m))
        drawn = rng.multinomial(transcripts, rng.dirichlet(np.full(RANK, 0.5), m))
        cells = [np.repeat(np.arange(m, dtype=np.int32), drawn[:, program]) for program in range(RANK)]
        genes = [
            tickets[rng.integers(0, tickets.size, len(own), dtype=np.int32)]
            for tickets, own in zip(self.tickets, cells, strict=True)
        ]
        where = np.concatenate(cells), np.concatenate(genes)
        counts = sp.coo_array((np.ones(where[0].size, dtype=np.float32), where), shape=(m, self.n_features)).tocsr()
        counts.sum_duplicates()
        return counts

    def blocks(self) -> Iterator[sp.csr_array]:
        """All blocks in order, made in threads."""
        with ThreadPoolExecutor(THREADS) as pool:
            yield from pool.map(self.block, range(-(-self.n_samples // BLOCK_ROWS)))

    def make(self, scratch: Path) -> Path:
        """Write the store below ``scratch``, once, and return where it is."""
        path = scratch / f"cells-{self.n_samples}x{self.n_features}-{self.density}-{self.seed}.zarr"
        if path.exists():
            return path
        unfinished = path.with_suffix(".part")
        attributes: dict[str, Any] = {"encoding-type": "csr_matrix", "encoding-version": "0.1.0"}
        group = zarr.create_group(unfinished, attributes=attributes | {"shape": [self.n_samples, self.n_features]})
        writers = {
            name: RunWriter(group.create_array(name, shape=(0,), dtype=kind, chunks=(CHUNK_ENTRIES,)))
            for name, kind in (("data", "f4"), ("indices", "i4"), ("indptr", "i8"))
        }
        writers["indptr"].append(np.zeros(1, dtype=np.int64))
        n_entries = 0
        for block in self.blocks():
            writers["data"].append(block.data)
            writers["indices"].append(block.indices)
            writers["indptr"].append(block.indptr[1:].astype(np.int64) + n_entries)
            n_entries += block.nnz
        for writer in writers.values():
            writer.close()
        return unfinished.rename(path)
