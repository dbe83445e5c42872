"""Files whose rows have values beside the data."""

from pathlib import Path
from typing import Any

import anndata as ad
import numpy as np
import pandas as pd
import scipy.sparse as sp

KINDS = ("h5ad", "parquet", "csv")


def write_beside(path: Path, rows: np.ndarray, names: list[str], values: dict[str, Any]) -> Path:
    """Write rows with these values: as obs of AnnData, or as more columns of a table, by the ending of the path."""
    frame = pd.DataFrame(rows, columns=names).assign(**values)
    if path.suffix == ".h5ad":
        obs = pd.DataFrame(values, index=[str(i) for i in range(len(rows))])
        ad.AnnData(sp.csr_matrix(rows), obs=obs, var=pd.DataFrame(index=names)).write_h5ad(path)
    elif path.suffix == ".parquet":
        frame.to_parquet(path)
    else:
        frame.to_csv(path, index=False)
    return path
