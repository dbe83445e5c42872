"""Stores of the AnnData layout, written by hand with zarr."""

from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
import zarr


def sparse_counts(
    n: int = 200, d: int = 12, density: float = 0.1, seed: int = 0, dtype: str = "float32"
) -> sp.csr_array:
    """Counts with empty rows, an empty column and a few full rows."""
    rng = np.random.default_rng(0)
    X = np.where(rng.random((n, d)) < density, rng.integers(1, 9, (n, d)), 0)
    X[n // 3 : n // 3 + 5] = 0
    X[n // 2] = 1
    X[:, 3] = 0
    return sp.csr_array(X.astype(dtype))


def write_csr(
    parent: Any,
    name: str,
    X: sp.csr_array,
    chunk: int = 37,
    pointer_chunk: int = 50,
    encoding: str = "csr_matrix",
    **arrays: Any,
) -> Any:
    """A sparse matrix as a member of a group; ``arrays`` replace its own."""
    group = parent.create_group(name)
    group.attrs.update({"encoding-type": encoding, "encoding-version": "0.1.0", "shape": list(X.shape)})
    given = {"data": X.data, "indices": X.indices, "indptr": X.indptr} | arrays
    for key, values in given.items():
        group.create_array(key, data=np.asarray(values), chunks=(pointer_chunk if key == "indptr" else chunk,))
    return group


def csr_store(path: Path, X: sp.csr_array, zarr_format: int = 3, **options: Any) -> Any:
    """A store that is one CSR matrix, opened for reading."""
    root = zarr.open_group(path.parent, mode="a", zarr_format=zarr_format)
    write_csr(root, path.name, X, **options)
    return zarr.open_group(path, mode="r")


def anndata_store(
    path: Path, X: Any, names: list[str], layers: dict[str, sp.csr_array] | None = None, zarr_format: int = 3
) -> Path:
    """A whole store: X dense or sparse, layers, and an index of variables."""
    root = zarr.open_group(path, mode="w", zarr_format=zarr_format)
    root.attrs.update({"encoding-type": "anndata", "encoding-version": "0.1.0"})
    if sp.issparse(X):
        write_csr(root, "X", X)
    else:
        root.create_array("X", data=X, chunks=(50, X.shape[1])).attrs.update({"encoding-type": "array"})
    inside = root.create_group("layers")
    for name, layer in (layers or {}).items():
        write_csr(inside, name, layer)
    var = root.create_group("var")
    var.attrs.update({"encoding-type": "dataframe", "_index": "gene_id", "column-order": []})
    index = var.create_array("gene_id", shape=(len(names),), dtype=str, chunks=(len(names),))
    index[:] = np.array(names, dtype=object)
    index.attrs.update({"encoding-type": "string-array"})
    return path
