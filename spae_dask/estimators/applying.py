"""Applying a fitted encoder to any kind of input: eager for arrays in memory, lazy for dask and Zarr."""

import os
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeGuard
from uuid import uuid4

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from dask.base import tokenize
from sklearn.utils.validation import validate_data

from spae_dask.blocks import ArrayBlocks, LazyRowBlocks, RowBlocks, asked_of, columns_alone, remember, stored_entries
from spae_dask.errors import InvalidInput, NonFiniteInput, SpaeWarning, warn
from spae_dask.estimators.covariates import columns_beside, without_covariates
from spae_dask.estimators.preparing import prepared, prepared_lazily, recipe_of_fit, with_top
from spae_dask.maths.encoders.codes import RowEncoder, decode_codes
from spae_dask.passes.accumulators import NonFinite
from spae_dask.passes.accumulators.nonfinite import all_finite, refuse_non_finite
from spae_dask.passes.checkpoint import digest_of
from spae_dask.passes.serial import SerialRunner
from spae_dask.passes.sweep import read_again
from spae_dask.storage.chosen import CHOSEN, under_columns
from spae_dask.storage.masks import ALL, Usual
from spae_dask.storage.open import dask_kind, dask_rows, open_as
from spae_dask.storage.open_stored import InGrid
from spae_dask.storage.sources.recipe_blocks import RecipeBlocks
from spae_dask.storage.sources.submatrix import chosen_columns
from spae_dask.storage.tables.columns import choose_columns
from spae_dask.storage.tables.frames import is_pandas
from spae_dask.strategies.parameters import OF_ROWS

if TYPE_CHECKING:
    import dask.array as da

    from spae_dask.storage.grids.xarray_blocks import GridCells

BY_NAME = "those of the fit, by name"
"""Told in place of a mask where data lack that of the fit."""

N_SHOWN = 5
"""Names listed in a message."""


def open_rows(estimator: Any, X: Any, beside: Sequence[str] = ()) -> RowBlocks:
    """Open rows to apply a fitted estimator to; their columns must be those of its fit, in number and in name.

    Columns of a table whose names are ``beside``, and that are none of the fit, are no data.
    """
    X = without_covariates(X, beside_of(estimator, beside), None)[0]
    source = open_like(estimator, X, beside=beside)
    names = getattr(source, "feature_names", None)
    _check_columns(estimator, X, source.shape[1], names)
    return prepared(source, *_asked_of_rows(estimator))


def open_like(estimator: Any, x: Any, *, mask: str | None = None, beside: Sequence[str] = (), **how: Any) -> RowBlocks:
    """Open data under the mask of the fit, or another one if it is given.

    Data whose mask is another one, or that have none, such as new cells, give the columns of the fit by their names.

    Parameters
    ----------
    estimator : object
        Fitted or loaded.
    x : object
        The data.
    beside : sequence of str
        As for `open_rows`.
    mask, **how
        As for ``open_matrix``.
    """
    x, how["columns"] = without_covariates(x, beside_of(estimator, beside), how.get("columns"))
    asked, expected = getattr(estimator, "_asked", {}), list(getattr(estimator, "feature_names_in_", ()))
    fitted = asked.get("mask", ALL)
    in_grid = _in_grid(estimator, x, mask, how)
    if fitted == CHOSEN and not expected and how.get("columns") is None and mask is None:
        whole = open_as(x, in_grid, mask=ALL, **how)
        return under_columns(whole, asked["columns"]) if whole.shape[1] == asked["n_columns"] else whole
    asks = mask is not None or how.get("columns") is not None
    usual = fitted if fitted == ALL else Usual(fitted)
    source = open_as(x, in_grid, mask=mask if asks else usual, **how)
    if in_grid.like is not None:
        if getattr(source, "layout", None) is not None:
            return source
        if in_grid.like.cells.factor is not None:
            warn(
                f"the encoder was fitted on weighted cells of a grid, and {source.describe()} is no grid. Its columns "
                "are taken as they are: give data that are weighted already.",
                SpaeWarning,
            )
    if "top" in asked and not expected:
        return with_top(source, np.array(asked["top"])) if source.shape[1] == asked["n_before"] else source
    if "top" not in asked and (asks or fitted == ALL or not expected):
        return source
    if _names(source) == expected:
        return source
    whole = source if set(expected) <= set(_names(source)) else open_as(x, in_grid, mask=ALL, **how)
    if not set(expected) <= set(_names(whole)):
        return source
    places = choose_columns(_names(whole), expected, whole.describe())
    asked = asked_of(whole) | {"mask": BY_NAME, "n_columns": whole.shape[1]}
    return remember(chosen_columns(whole, np.array(places)), **asked)


def fitted_grid(estimator: Any) -> "GridCells | None":
    """The cells that are columns of an encoder, of its fit or as they were stored with it; None if it has no grid."""
    grid = getattr(estimator, "_grid", None)
    return None if grid is None else grid.before_encoder


def _in_grid(estimator: Any, x: Any, mask: str | None, how: dict[str, Any]) -> InGrid:
    """The cells of the fit, if it was of a grid and data at a path may be one; takes what is about grids from ``how``.

    Raises
    ------
    InvalidInput
        If the mask or the weights are not those of the fit.
    """
    sample_dim, weights = how.pop("sample_dim", None), how.pop("weights", None)
    grid = fitted_grid(estimator) if isinstance(x, str | os.PathLike) else None
    if grid is None:
        return InGrid(sample_dim, weights)
    asked = getattr(estimator, "_asked", {})
    for name, given in (("mask", mask), ("weights", weights)):
        if given not in (None, asked.get(name)):
            raise InvalidInput(
                f"{name}={given!r} is not that of the fit. The encoder knows its cells and their weights. Leave it out."
            )
    return InGrid(like=grid)


def beside_of(estimator: Any, others: Sequence[str] = ()) -> list[str]:
    """Names of columns of a table that held no data in the fit, and of those ``others`` that it did not use."""
    covariates = getattr(estimator, "covariates", None) if hasattr(estimator, "covariates_") else None
    of_fit = (covariates, *(getattr(estimator, name, None) for name in OF_ROWS if name != "covariates"))
    used = set(getattr(estimator, "feature_names_in_", ()))
    return columns_beside(*of_fit, [name for name in others if name not in used])


def _names(source: RowBlocks) -> list[str]:
    return list(getattr(source, "feature_names", None) or ())


def open_lazily(estimator: Any, X: Any) -> "RowBlocks | da.Array":
    """The same where the result will be as lazy as X: rows of dask input need not be counted then."""
    array = dask_rows(X)
    if array is None:
        return open_rows(estimator, X)
    asked = getattr(estimator, "_asked", {})
    if "top" in asked and array.shape[1] == asked["n_before"] and dask_kind(X) == "array":
        return prepared_lazily(array, *_asked_of_rows(estimator))[:, np.array(asked["top"])]
    _check_columns(estimator, X, array.shape[1])
    return prepared_lazily(array, *_asked_of_rows(estimator))


def _asked_of_rows(estimator: Any) -> tuple[Any, Any]:
    """Missing value and recipe of the fit."""
    return getattr(estimator, "missing_value", None), recipe_of_fit(estimator)


def _check_columns(estimator: Any, X: Any, n_columns: int, names: Sequence[str] | None = None) -> None:
    # names are checked before the number of columns, because missing names say more
    if (is_pandas(X) or dask_kind(X) == "dataframe") and X.shape[1] == n_columns:
        # a dask DataFrame shows its names in the empty frame it is described by
        validate_data(estimator, getattr(X, "_meta", X), reset=False, skip_check_array=True)
    elif names is not None:  # of a store, or of a frame whose names not every release of scikit-learn can see
        check_names(names, estimator)
    if n_columns != estimator.n_features_in_:
        raise InvalidInput(
            f"X has {n_columns} features, but {type(estimator).__name__} is expecting "
            f"{estimator.n_features_in_} features as input. Give the columns it was fitted on, in the same "
            "order."
        )
    if (isinstance(X, np.ndarray) or sp.issparse(X)) and X.shape[1] == n_columns:
        validate_data(estimator, X, reset=False, skip_check_array=True)


def encode_rows(source: "RowBlocks | da.Array", encoder: RowEncoder) -> Any:
    """Codes (n, k) of all rows of ``source``.

    Returns
    -------
    ndarray, or a dask array of the same row chunks for lazy input
        float32 for float32 input, else float64. NaN and infinity in an array in memory are refused at once, as in
        scikit-learn. NaN is accepted if the encoder has values to fill in; in lazy input the selected columns are
        checked, when they are computed.
    """
    dtype, k = code_dtype(source.dtype), encoder.H_selected.shape[1]
    if is_array(source):
        if encoder.fill is None:
            refuse_non_finite_array(source)
        codes = np.empty((source.shape[0], k), dtype=dtype)
        for number, (start, stop) in enumerate(pairwise(source.bounds)):
            codes[start:stop] = encoder.encode(read_again(source, number), start)
        return codes
    selected = lazy_columns(source, encoder.columns).rechunk({1: -1})
    numbers: tuple[Any, ...] = (encoder.H_selected, encoder.mean, encoder.scale, encoder.fill)
    starts: tuple[int, ...] = ()
    if encoder.design is not None:
        numbers = (*numbers, encoder.offsets, digest_of(encoder.design))
        starts = (0, *np.cumsum(selected.chunks[0]).tolist())
    return selected.map_blocks(
        _encode_chunk,
        encoder,
        dtype,
        starts,
        chunks=(selected.chunks[0], (k,)),
        dtype=dtype,
        meta=np.empty((0, 0), dtype=dtype),
        name="encode-" + tokenize(selected.name, str(dtype), *numbers),
    )


def _encode_chunk(
    rows: Any, encoder: RowEncoder, dtype: np.dtype[Any], starts: tuple[int, ...], block_id: tuple[int, ...] = (0,)
) -> npt.NDArray[Any]:
    first_row = starts[block_id[0]] if starts else 0
    try:
        return encoder.encode_selected(rows, first_row).astype(dtype, copy=False)
    except NonFiniteInput as error:
        raise NonFiniteInput(f"in row chunk {block_id[0]}, with rows numbered from 0: {error}") from error


def decode_rows(
    codes: "RowBlocks | da.Array", G: npt.NDArray[Any], mean: npt.NDArray[Any], scale: npt.NDArray[Any]
) -> Any:
    """Rows (n, d) of codes (n, k): an array for arrays, a dask array of the same row chunks for lazy input."""
    k, d = G.shape
    if codes.shape[1] != k:
        raise InvalidInput(f"the codes have {codes.shape[1]} columns, not {k}. Give the output of transform.")
    if isinstance(codes, ArrayBlocks):
        return _decode_chunk(codes.X, G, mean, scale)
    lazy = lazy_array(codes).rechunk({1: -1})
    return lazy.map_blocks(
        _decode_chunk, G, mean, scale, chunks=(lazy.chunks[0], (d,)), dtype=np.float64, meta=np.empty((0, 0))
    )


def _decode_chunk(
    codes: Any, G: npt.NDArray[Any], mean: npt.NDArray[Any], scale: npt.NDArray[Any]
) -> npt.NDArray[np.float64]:
    return decode_codes(codes.toarray() if sp.issparse(codes) else codes, G, mean, scale)


def is_lazy(x: object) -> TypeGuard["da.Array"]:
    """Return True for a dask array."""
    return dask_kind(x) == "array"


def lazy_columns(source: "RowBlocks | da.Array", columns: npt.NDArray[np.intp]) -> "da.Array":
    """A dask array of some columns, ascending; of stores cut by columns, only chunks that hold them are read."""
    alone = None if is_lazy(source) else columns_alone(source, columns)
    return lazy_array(source)[:, columns] if alone is None else lazy_array(alone)


def lazy_array(source: "RowBlocks | da.Array") -> "da.Array":
    """A dask array of the rows of ``source``, in its own row blocks."""
    if is_lazy(source):
        return source
    if isinstance(source, LazyRowBlocks):
        return source.array  # type: ignore[attr-defined]
    import dask.array as da

    bounds = tuple(source.bounds)
    kind = np.empty if stored_entries(source) is None else sp.csr_array
    return da.map_blocks(
        _read_block,
        source,
        chunks=(tuple(stop - start for start, stop in pairwise(bounds)), (source.shape[1],)),
        dtype=source.dtype,
        meta=kind((0, 0), dtype=source.dtype),
        # a store may change under the same address, so dask must not take two reads for the same
        name=f"rows-{uuid4().hex}",
    )


def _read_block(source: RowBlocks, block_id: tuple[int, ...] = (0,)) -> Any:
    return read_again(source, block_id[0])


def code_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """float32 stays float32; everything else becomes float64."""
    return np.dtype(np.float32 if dtype.kind == "f" and dtype.itemsize == 4 else np.float64)


def check_names(names: Sequence[str], estimator: Any) -> None:
    """Refuse columns with other names than those of the fit, or in another order, in scikit-learn's words."""
    expected = list(getattr(estimator, "feature_names_in_", names))
    if list(names) == expected:
        return
    unseen, gone = [n for n in names if n not in set(expected)], [n for n in expected if n not in set(names)]
    said = "The feature names should match those that were passed during fit.\n"
    if not unseen and not gone:
        said += "Feature names must be in the same order as they were in fit.\n"
    for title, which in (("unseen at fit time", unseen), ("seen at fit time, yet now missing", gone)):
        if which:
            shown = [*which[:N_SHOWN], "..."] if len(which) > N_SHOWN else which
            said += f"Feature names {title}:\n" + "".join(f"- {name}\n" for name in shown)
    raise InvalidInput(
        f"{said}Choose the columns of the fit, in the same order: --columns NAME,... (columns=[...]) of a "
        "table, or --mask var/COLUMN (mask='var/COLUMN') of AnnData."
    )


def is_array(source: "RowBlocks | da.Array") -> bool:
    """Return True for an array in memory, whose rows may follow a recipe."""
    return isinstance(source.source if isinstance(source, RecipeBlocks) else source, ArrayBlocks)


def refuse_non_finite_array(source: RowBlocks) -> None:
    """Raise ``NonFiniteInput`` if an array in memory holds NaN or infinity."""
    for number in range(len(source.bounds) - 1):
        block: Any = read_again(source, number)
        if not all_finite(block.data if sp.issparse(block) else block):
            # checked again in full, to name the place
            refuse_non_finite(SerialRunner(source).run_pass(NonFinite(source.shape[1])))
