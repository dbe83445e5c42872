"""AnnData objects, whatever holds their matrices: memory, a backed file, a lazily opened store, or a view of these."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from spae_dask.blocks import ArrayBlocks, RowBlocks, remember
from spae_dask.errors import InvalidInput, NotFound
from spae_dask.storage.conditions import INDEX
from spae_dask.storage.masks import find_mask, logged_by, under_mask
from spae_dask.storage.sources.submatrix import Submatrix
from spae_dask.storage.sources.zarr_blocks import ZarrBlocks


def open_anndata(
    adata: Any, array: str | None, open_member: Callable[[Any], RowBlocks], mask: str | None = None
) -> RowBlocks:
    """A matrix of an AnnData object, with the names of its variables; one that is on disk is read from there.

    Parameters
    ----------
    adata : anndata.AnnData
        The object. Of views of what is in memory anndata itself makes a copy. A matrix stored by columns is converted
        if it is in memory.
    array : str, optional
        ``X`` (the default), ``layers/NAME`` or ``raw/X``.
    open_member : callable
        Opens what the object holds: an array, a sparse matrix, or a group of a store.
    mask : str, optional
        As for ``open_matrix``.

    Raises
    ------
    NotFound
        If it has no such matrix.
    InvalidInput
        If the matrix is on disk by columns, a view of it takes rows out of their order, or there is no such mask.
    """
    path = array or "X"
    blocks = _whole(adata, path, open_member)
    var = (adata.raw if path == "raw/X" else adata).var
    where, d = "raw/var" if path == "raw/X" else "var", blocks.shape[1]
    found = find_mask(mask, where, list(var.columns), partial(column_of, var), d, "the AnnData object")
    return remember(under_mask(blocks, found), logged=logged_by(path, adata.uns))


def column_of(frame: Any, name: str) -> Any:
    """Values of a column of ``obs`` or ``var``, or their names."""
    return frame[name] if name in frame.columns or name != INDEX else frame.index


def _whole(adata: Any, path: str, open_member: Callable[[Any], RowBlocks]) -> RowBlocks:
    """The matrix with all its columns."""
    if adata.is_view and adata.isbacked and path == "X":
        whole = _whole(adata._adata_ref, "X", open_member)
        rows, columns = (_indices(each, n) for each, n in zip((adata._oidx, adata._vidx), whole.shape, strict=True))
        if bool((np.diff(rows) <= 0).any()):
            raise InvalidInput(
                "this view of a backed AnnData object repeats cells, or changes their order, but rows are read "
                "in the order of the file. Sort the cells first, or take the view into memory: adata.to_memory()."
            )
        return Submatrix(whole, rows, columns)
    matrix = _matrix(adata, path)
    names = tuple(str(name) for name in (adata.raw if path == "raw/X" else adata).var_names)
    kind = type(matrix).__module__.partition(".")[0]
    if kind == "h5py" or (kind == "anndata" and type(getattr(matrix, "group", None)).__module__.startswith("h5py")):
        from spae_dask.storage.h5_files import open_h5_object

        node = matrix if kind == "h5py" else matrix.group
        return open_h5_object(node, f"{adata.filename or node.file.filename}/{path}", names)
    blocks: Any = open_member(getattr(matrix, "group", matrix))
    if isinstance(blocks, ZarrBlocks):
        return replace(blocks, names=names)
    if isinstance(blocks, ArrayBlocks):
        return replace(blocks, name=f"{path} of the AnnData object", feature_names=names)
    named: RowBlocks = replace(blocks, feature_names=names)
    return named


def _matrix(adata: Any, path: str) -> Any:
    folder, _, name = path.partition("/")
    if path == "X":
        matrix = adata.X
    elif path == "raw/X":
        matrix = None if adata.raw is None else adata.raw.X
    else:
        matrix = adata.layers[name] if folder == "layers" and name in adata.layers else None
    if matrix is None:
        layers = sorted(key for key in adata.layers if key is not None)  # from anndata 0.13 on, X is the layer None
        has = [*(["X"] if adata.X is not None else []), *(f"layers/{key}" for key in layers)]
        has += [] if adata.raw is None else ["raw/X"]
        raise NotFound(f"the AnnData object has no matrix {path!r}; it has {', '.join(has) or 'none'}.")
    return matrix


def _indices(index: Any, n: int) -> np.ndarray[Any, np.dtype[np.intp]]:
    """Row or column numbers of what a view was made by: a slice, a mask or numbers."""
    return np.atleast_1d(np.arange(n)[index])
