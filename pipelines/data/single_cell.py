"""Blood cells as an AnnData store: 700 of the 68,000 peripheral blood cells of Zheng et al. (2017), and 765 genes.

The file is part of the package scanpy, which is found but not imported. Counts there are normalised to cells of equal
size and logarithmic; most are zero, and they stay sparse (CSR). Every fifth cell is held out.

    python pipelines/data/single_cell.py        # writes made/cells.zarr and made/cells_new.zarr beside this file

G. X. Y. Zheng et al., *Massively parallel digital transcriptional profiling of single cells*, Nature Communications 8
(2017), 14049.
"""

import warnings
from importlib.util import find_spec
from pathlib import Path

import anndata
import numpy as np

MADE = Path(__file__).parent / "made"


def load_cells() -> anndata.AnnData:
    """700 cells by 765 genes; ``obs["cell_type"]`` is what the cells were sorted as."""
    spec = find_spec("scanpy")
    folders = [] if spec is None else list(spec.submodule_search_locations or [])
    if not folders:
        raise SystemExit("the cells are part of the package scanpy, which is not installed. Run `pip install scanpy`.")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the file is of an old version, and anndata says so of each member
        stored = anndata.read_h5ad(Path(folders[0]) / "datasets" / "10x_pbmc68k_reduced.h5ad")
    cells = anndata.AnnData(stored.raw.X, var=stored.raw.var[[]])
    cells.obs_names = stored.obs_names
    cells.obs["cell_type"] = stored.obs["bulk_labels"].to_numpy()
    return cells


def make(folder: Path = MADE) -> None:
    """Write the cells to fit and those held out."""
    cells = load_cells()
    held_out = np.arange(cells.n_obs) % 5 == 0
    folder.mkdir(parents=True, exist_ok=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the Zarr format, which anndata is about to change
        for name, chosen in (("cells.zarr", ~held_out), ("cells_new.zarr", held_out)):
            cells[chosen].copy().write_zarr(folder / name)


if __name__ == "__main__":
    make()
