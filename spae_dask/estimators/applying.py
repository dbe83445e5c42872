"""Applying a fitted encoder to any kind of input: eager for arrays in memory, lazy for dask and Zarr."""

from itertools import pairwise
from typing import Any

import dask.array as da
import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.utils.validation import validate_data

from spae_dask.blocks import ArrayBlocks, LazyRowBlocks, RowBlocks
from spae_dask.encoding.codes import RowEncoder
from spae_dask.errors import InvalidInput, NonFiniteInput
from spae_dask.storage.open import open_matrix


def apply_rows(encoder: RowEncoder, X: Any, n_features: int, *, refuse_nan: bool) -> Any:
    """Codes of the rows of X.

    Parameters
    ----------
    encoder : RowEncoder
        Selected columns and their coefficients.
    X : object
        Anything ``open_matrix`` opens, of ``n_features`` columns.
    n_features : int
        d.
    refuse_nan : bool
        Whether NaN anywhere in an array in memory is an error, as scikit-learn has it; lazy input is checked in the
        selected columns, when it is computed.

    Returns
    -------
    ndarray (n, k), or a dask array of the same row chunks for lazy input
    """
    source = open_matrix(X)
    check_width(source.shape, n_features, "SparseEncoder")
    dtype = code_dtype(source.dtype)
    if isinstance(source, ArrayBlocks):
        if refuse_nan:
            _refuse_nan(source.X)
        return encoder.encode(source.X).astype(dtype, copy=False)
    selected = lazy_array(source)[:, encoder.columns].rechunk({1: -1})
    k = encoder.H_selected.shape[1]
    return selected.map_blocks(
        _encode_chunk,
        encoder,
        dtype,
        chunks=(selected.chunks[0], (k,)),
        dtype=dtype,
        meta=np.empty((0, 0), dtype=dtype),
        name="encode-" + da.core.tokenize(selected.name, encoder.columns, encoder.H_selected),
    )


def _encode_chunk(rows: Any, encoder: RowEncoder, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    return encoder.encode_selected(rows).astype(dtype, copy=False)


def lazy_array(source: RowBlocks) -> da.Array:
    """A dask array of the rows of ``source``, in its own row blocks."""
    if isinstance(source, LazyRowBlocks):
        return source.array  # type: ignore[attr-defined]
    bounds = tuple(source.bounds)
    return da.map_blocks(
        _read_block,
        source,
        chunks=(tuple(stop - start for start, stop in pairwise(bounds)), (source.shape[1],)),
        dtype=source.dtype,
        meta=np.empty((0, 0), dtype=source.dtype),
    )


def _read_block(source: RowBlocks, block_info: Any = None) -> Any:
    return source.read(block_info[None]["chunk-location"][0])


def code_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """float32 stays float32; everything else becomes float64."""
    return np.dtype(np.float32 if dtype == np.float32 else np.float64)


def check_width(shape: tuple[int, ...], expected: int, estimator: Any) -> None:
    """Refuse anything but a matrix of ``expected`` columns."""
    name = estimator if isinstance(estimator, str) else type(estimator).__name__
    if len(shape) != 2:
        raise InvalidInput(f"Expected 2D array of {expected} columns, got shape {shape}. Reshape your data.")
    if shape[1] != expected:
        raise InvalidInput(
            f"X has {shape[1]} features, but {name} is expecting {expected} features as input: "
            "give the columns the encoder was fitted on, in the same order."
        )


def check_names(estimator: Any, X: Any) -> None:
    """scikit-learn's checks of column count and names, for arrays and tables in memory."""
    if isinstance(X, np.ndarray) or sp.issparse(X) or hasattr(X, "columns"):
        validate_data(estimator, X, reset=False, skip_check_array=True)


def _refuse_nan(X: Any) -> None:
    values = X.data if sp.issparse(X) else X
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        what = "NaN" if np.isnan(values).any() else "infinity"
        raise NonFiniteInput(
            f"Input X contains {what}: {int((~np.isfinite(values)).sum())} entries. Mend the data, or fit with "
            "missing='mean' or missing='zero' to fill NaN."
        )
