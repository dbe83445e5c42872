"""Zarr groups that say what they hold, as AnnData writes them: a whole store, or one matrix in CSR or CSC form."""

from typing import Any

import numpy as np
import zarr

from spae_dask.blocks import RowBlocks
from spae_dask.errors import InvalidInput, NotFound
from spae_dask.storage.csr_blocks import open_csr
from spae_dask.storage.zarr_blocks import ZarrBlocks

SPARSE = ("csr_matrix", "csc_matrix")
"""Encodings of a single sparse matrix."""


def encoding_of(node: Any) -> str | None:
    """What a Zarr group says it is: ``csr_matrix``, ``csc_matrix``, ``anndata`` or anything else."""
    encoding = node.attrs.get("encoding-type")
    return encoding if isinstance(encoding, str) else None


def open_matrix_group(group: Any, name: str, feature_names: tuple[str, ...] | None = None) -> RowBlocks:
    """A group that is itself a sparse matrix.

    Raises
    ------
    InvalidInput
        If it is stored by columns, or is damaged.
    """
    if encoding_of(group) == "csc_matrix":
        raise InvalidInput(
            f"{name} is a csc_matrix: it is stored by columns, and rows are what is read. Convert it once with the "
            "library that made it: adata.X = adata.X.tocsr(), then adata.write_zarr(...)."
        )
    return open_csr(group, name, feature_names)


def open_anndata(root: Any, member: str | None, name: str) -> RowBlocks:
    """The matrix X of an AnnData store, or another of its shape such as ``layers/counts``; named by ``var``.

    Parameters
    ----------
    root : zarr.Group
        The store.
    member : str, optional
        Path of the matrix in the store; ``X`` if not given.
    name : str
        How messages call the store.

    Raises
    ------
    NotFound
        If there is no such matrix.
    InvalidInput
        If it is stored by columns, or is damaged.
    """
    path = member or "X"
    node = root.get(path)
    is_sparse = isinstance(node, zarr.Group) and encoding_of(node) in SPARSE
    if not is_sparse and not isinstance(node, zarr.Array):
        has = ", ".join(_matrices(root)) or "none"
        raise NotFound(f"the AnnData store {name} has no matrix {path!r}; it has {has}.")
    shape = node.shape if isinstance(node, zarr.Array) else node.attrs.get("shape", ())
    names = _names_of_var(root, shape[1]) if len(shape) == 2 else None
    return open_matrix_group(node, f"{name}/{path}", names) if is_sparse else ZarrBlocks(node, names=names)


def _matrices(root: Any) -> list[str]:
    """Paths of the matrices with a column for every variable."""
    layers = root.get("layers")
    inner = sorted(f"layers/{key}" for key in layers) if isinstance(layers, zarr.Group) else []
    return [*(["X"] if "X" in root else []), *inner]


def _names_of_var(root: Any, n_features: int) -> tuple[str, ...] | None:
    """The index of ``var``, whose attribute ``_index`` says which of its columns that is; None if there is none."""
    var = root.get("var")
    if not isinstance(var, zarr.Group):
        return None
    column = var.get(str(var.attrs.get("_index", "_index")))
    if not isinstance(column, zarr.Array) or column.shape != (n_features,):
        return None
    return tuple(str(each) for each in np.asarray(column[:]))
