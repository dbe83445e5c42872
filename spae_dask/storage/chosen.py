"""Rows and columns that the user chooses of any matrix: by a condition, a mask, numbers or names."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from spae_dask.blocks import RowBlocks, asked_of, remember
from spae_dask.errors import InvalidInput
from spae_dask.storage.conditions import EXAMPLE, where
from spae_dask.storage.readable import within_hdf5
from spae_dask.storage.row_values import is_named_table, names_of_table, stored_values
from spae_dask.storage.sources.submatrix import beneath_choice, chosen_columns, chosen_rows
from spae_dask.storage.tables.columns import choose_columns

Indices: TypeAlias = npt.NDArray[np.intp]
Numbers: TypeAlias = Sequence[int] | Sequence[bool] | npt.NDArray[Any]

CHOSEN = "chosen by name or number"
"""Told in place of a mask where columns are chosen by name or number."""

ROWS = "chosen rows"
"""Name under which a source remembers a digest of the rows that were chosen of it, see ``blocks.remember``."""


def under_rows(source: RowBlocks, rows: str | Numbers, x: Any, options: Mapping[str, Any] | None) -> RowBlocks:
    """The rows of a source that a condition, a mask or numbers choose.

    Parameters
    ----------
    source : RowBlocks
        The source, perhaps under a mask of its columns.
    rows : str or array
        A condition on ``obs``, columns of a table or coordinates of a grid, or booleans, or ascending numbers of rows.
    x : object
        Object that was opened as the source.
    options : mapping, optional
        Access to a URL.

    Raises
    ------
    InvalidInput
        If they choose nothing, or are not allowed.
    """
    n = source.shape[0]
    kept = _where(x, rows, source, options) if isinstance(rows, str) else _numbers(rows, n, "rows")
    if not kept.size:
        raise InvalidInput(f"rows={rows!r} chooses no row of {source.describe()}. Give a weaker condition.")
    if bool((np.diff(kept) <= 0).any()):
        raise InvalidInput("rows are read in their order. Give their numbers ascending, each once.")
    digest = hashlib.sha256(kept.astype("<i8").tobytes()).hexdigest()[:24]
    text = rows if isinstance(rows, str) else None
    chosen = beneath_choice(source, lambda whole: chosen_rows(whole, kept))
    return remember(chosen, **(asked_of(source) | {"rows": text, "n_rows": n, ROWS: digest}))


def under_columns(source: RowBlocks, columns: Sequence[str] | Numbers) -> RowBlocks:
    """Columns of a source by name or pattern, by a mask, or by number; in the order in which they are asked for.

    Raises
    ------
    InvalidInput
        If there is no such column.
    """
    d, names = source.shape[1], getattr(source, "feature_names", None)
    wanted: Any = [columns] if isinstance(columns, str) else list(columns)
    if names is not None and all(isinstance(each, str) for each in wanted):
        places = np.array(choose_columns(names, wanted, source.describe()), dtype=np.intp)
    else:
        told = [int(each) if isinstance(each, str) and each.isdecimal() else each for each in wanted]
        if any(isinstance(each, str) for each in told):
            raise InvalidInput(
                f"columns={wanted} names columns, but {source.describe()} has no names. Give numbers of columns, from "
                f"0 to {d - 1}."
            )
        places = _numbers(told, d, "columns")
    if not places.size or len(set(places.tolist())) < places.size:
        raise InvalidInput(f"columns={wanted} chooses no column, or one of them twice. Name each column once.")
    listed = [int(place) for place in places] if names is None else [str(names[place]) for place in places]
    return remember(chosen_columns(source, places), columns=listed, mask=CHOSEN, n_columns=d)


def _numbers(given: Any, n: int, called: str) -> Indices:
    """Numbers of the rows or columns that a mask or an array of numbers chooses."""
    try:
        found = np.asarray(given)
    except ValueError:
        found = np.zeros((0, 0))
    if found.dtype == bool and found.shape == (n,):
        return np.flatnonzero(found)
    if found.dtype.kind in "iu" and found.ndim == 1 and found.size and found.min() >= 0 and found.max() < n:
        return found.astype(np.intp)
    raise InvalidInput(
        f"{called} are {found.dtype} of shape {found.shape}. Give a boolean for each of the {n:,}, or numbers from 0 "
        f"to {n - 1}."
    )


def as_text(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Times as texts in their order, such as ``1990-01-31T12:00:00``; other values as they are."""
    if values.dtype.kind == "M":
        texts = values.astype("datetime64[s]").astype(str).astype(object)
        texts[np.isnat(values)] = None
        return texts
    if values.dtype == object:
        return np.array([each.isoformat() if hasattr(each, "isoformat") else each for each in values], dtype=object)
    return values


def _where(x: Any, condition: str, source: RowBlocks, options: Mapping[str, Any] | None) -> Indices:
    """Numbers of the rows of AnnData, of a table at a path, or samples of a grid at one, that a condition chooses."""
    n, called, table = source.shape[0], source.describe(), "obs"

    def told(names: Sequence[str], read: Callable[[str], Any]) -> Indices:
        return np.flatnonzero(where(condition, names, read, n, table, called))

    none = InvalidInput(
        f"rows={condition!r} is a condition on obs of AnnData, or on columns of a table or a grid at a path. {called} "
        f"has none of these. Give a mask or numbers of rows. Conditions are such as {EXAMPLE}."
    )
    if hasattr(x, "obs") and hasattr(x, "var"):
        from spae_dask.storage.anndata_objects import column_of

        return told(list(x.obs.columns), lambda name: column_of(x.obs, name))
    from spae_dask.storage.groups import table_of

    path = x.removeprefix("file://") if isinstance(x, str) else None
    if path is not None and getattr(source, "layout", None) is not None:
        from spae_dask.storage.grids.xarray_files import coordinate_names, coordinates_in

        table = "its coordinates"
        return told(coordinate_names(path), lambda name: as_text(coordinates_in(path, [name])[0]))
    if path is not None and is_named_table(path):
        table = "its columns"
        return told(names_of_table(path), lambda name: as_text(stored_values(path, [name])[0]))
    if path is not None and within_hdf5(path) is not None:
        from spae_dask.storage.h5_files import opened

        with opened(path) as file:
            return told(*table_of(file, "obs", called))
    if path is not None:
        from spae_dask.storage.sources.store_at import root_at

        x = root_at(path, options)
    if not hasattr(x, "attrs") or hasattr(x, "shape") or "obs" not in x:
        raise none
    return told(*table_of(x, "obs", called))
