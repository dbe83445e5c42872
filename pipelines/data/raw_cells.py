"""Counts of molecules in cells as an AnnData file: 600 simulated cells by 400 genes, raw, sparse, of four types.

Each type has its own 20 genes that it reads ten times as often. Cells differ in depth by a factor of about ten, and the
counts are Poisson. Every fifth cell is held out. The same seed gives the same counts.

    python pipelines/data/raw_cells.py      # writes made/raw_cells.h5ad and made/raw_cells_new.h5ad beside this file
"""

from pathlib import Path

import anndata
import numpy as np
import pandas as pd
import scipy.sparse as sp

MADE = Path(__file__).parent / "made"

TYPES = ("B", "T", "NK", "monocyte")


def simulate(n_cells: int = 600, n_genes: int = 400, seed: int = 0) -> anndata.AnnData:
    """Raw counts; ``obs`` has the ``type`` and the ``donor`` of each cell."""
    rng = np.random.default_rng(seed)
    kind, donor = rng.integers(0, len(TYPES), n_cells), rng.integers(0, 2, n_cells)
    usual = rng.gamma(0.5, size=n_genes)
    profiles = np.tile(usual, (len(TYPES), 1))
    for number, profile in enumerate(profiles):
        profile[20 * number : 20 * number + 20] = 10 * usual.mean()
    by_donor = np.exp(0.3 * rng.standard_normal((2, n_genes)))
    rates = profiles[kind] * by_donor[donor]
    depth = 600 * np.exp(0.6 * rng.standard_normal(n_cells))
    counts = rng.poisson(rates / rates.sum(axis=1, keepdims=True) * depth[:, None])
    obs = {"type": np.array(TYPES)[kind], "donor": np.array(["d1", "d2"])[donor]}
    return anndata.AnnData(
        sp.csr_matrix(counts.astype(np.float32)),
        obs=pd.DataFrame(obs, index=[f"cell{number}" for number in range(n_cells)]),
        var=pd.DataFrame(index=[f"gene{number}" for number in range(n_genes)]),
    )


def make(folder: Path = MADE) -> None:
    """Write the cells to fit and those held out."""
    cells = simulate()
    held_out = np.arange(cells.n_obs) % 5 == 0
    folder.mkdir(parents=True, exist_ok=True)
    for name, chosen in (("raw_cells.h5ad", ~held_out), ("raw_cells_new.h5ad", held_out)):
        cells[chosen].copy().write_h5ad(folder / name)


if __name__ == "__main__":
    make()
