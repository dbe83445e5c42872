"""Covariates as they are given: looked up by name, or as values; and the part of the data that a fit removed."""

import csv
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from spae_dask.blocks import RowBlocks, asked_of
from spae_dask.errors import CovariatesExplainWarning, InvalidInput, NotFound, warn
from spae_dask.maths.linalg.design import Design
from spae_dask.passes.accumulators import Accumulator, Adjusted
from spae_dask.storage.open import is_anndata, open_matrix
from spae_dask.storage.row_values import (
    file_values,
    is_named_table,
    is_values_file,
    nameless,
    names_of_table,
    stored_values,
    values_in_group,
)
from spae_dask.storage.sources.changed import ChangedBlocks
from spae_dask.storage.sources.submatrix import Submatrix
from spae_dask.storage.tables.columns import near_or_listed
from spae_dask.storage.tables.frames import is_frame
from spae_dask.strategies.core_summary import Explained
from spae_dask.strategies.parameters import PARAMETERS, FitParameters

Floats: TypeAlias = npt.NDArray[np.float64]
Values: TypeAlias = npt.NDArray[Any]

MANY_LEVELS = 1000
"""Levels of a covariate above which it is more likely a name of rows than a group of them."""

AS_LABELS = re.compile(r"\s*C\((.+)\)\s*")
"""A name whose values are labels even if they are numbers, as in formulas: ``C(batch)``."""


@dataclass(frozen=True, eq=False)
class Covariate:
    """A covariate of all rows.

    Attributes
    ----------
    name : str
        Its name.
    values : ndarray (n,)
        Numbers, or codes of its levels.
    levels : tuple of str or None
        The levels; None for numbers.
    """

    name: str
    values: Values
    levels: tuple[str, ...] | None = None


@dataclass(frozen=True, eq=False)
class Removed:
    """Part of the data that covariates explain, and that a fit removed.

    A row x with covariates z becomes ``x - (z - mean) @ coefficients``, before it is centered and scaled. In z a
    covariate of labels has a column of zeros and ones for each level, in the order of ``levels``.

    Attributes
    ----------
    names : tuple of str
        Names of the covariates.
    levels : tuple of (tuple of str or None)
        Levels of each covariate of labels; None for those of numbers.
    mean : ndarray (p,)
        Means of the columns of z in the data of the fit.
    coefficients : ndarray (p, d)
        Change of each column of the data for a change of z by one, of least size where z is collinear.
    """

    names: tuple[str, ...]
    levels: tuple[tuple[str, ...] | None, ...]
    mean: Floats
    coefficients: Floats

    def design(self, covariates: Sequence[Covariate]) -> Design:
        """Columns of z of other rows, about the mean. Covariates of the same names may come in any order.

        Raises
        ------
        InvalidInput
            If they are other covariates, or a label is none of the fit.
        """
        found = [each.name for each in covariates]
        if len(found) != len(self.names):
            raise InvalidInput(
                f"the encoder was fitted with the covariates {', '.join(self.names)}, and {len(found)} are given"
                f"{': ' if found else ''}{', '.join(found)}. Give those of the fit, in the same order."
            )
        if sorted(found) == sorted(self.names):
            covariates = [covariates[found.index(name)] for name in self.names]
        values = [
            _on_levels(each, name, levels)
            for each, name, levels in zip(covariates, self.names, self.levels, strict=True)
        ]
        return Design(tuple(values), tuple(len(each or ()) for each in self.levels), self.mean, np.eye(self.mean.size))


def _on_levels(given: Covariate, name: str, levels: tuple[str, ...] | None) -> Values:
    if levels is None:
        if given.levels is not None:
            raise InvalidInput(f"the covariate {name!r} was of numbers in the fit, and labels are given. Give numbers.")
        return given.values
    if given.levels is None:  # numbers that stood for labels
        given = _covariate(name, given.values, as_labels=True)
    known = {level: code for code, level in enumerate(levels)}
    unseen = [level for level in given.levels or () if level not in known]
    if unseen:
        told = ", ".join(map(repr, unseen[:5])) + (", ..." if len(unseen) > 5 else "")
        raise InvalidInput(
            f"the covariate {name!r} has labels that the fit has not seen: {told}. It has seen "
            f"{', '.join(map(repr, levels[:10]))}{', ...' if len(levels) > 10 else ''}. Leave out these rows, or fit "
            "again with them."
        )
    codes = np.array([known[level] for level in given.levels or ()], dtype=np.int32)
    return codes[given.values]


@dataclass(frozen=True, eq=False)
class Adjustment:
    """Covariates of rows that an encoder is applied to, and what it removes by them."""

    design: Design
    coefficients: Floats

    def adjusted(self, recipe: Accumulator[Any]) -> Accumulator[Any]:
        """The recipe on rows less what the covariates explain."""
        return Adjusted(recipe, self.design, self.coefficients)


def names_in(given: Any) -> tuple[str, ...]:
    """Names of covariates, as they are given; none if values are given. One with a comma stands in double quotes."""
    if isinstance(given, str):
        return tuple(each.strip() for each in next(csv.reader([given], skipinitialspace=True), ()))
    if isinstance(given, list | tuple) and given and all(isinstance(each, str) for each in given):
        return tuple(given)
    return ()


def columns_named(given: Any) -> tuple[str, ...]:
    """Names of the columns that hold covariates, without marks; none if values or a file are given."""
    names = names_in(given)
    return () if len(names) == 1 and is_values_file(names[0]) else tuple(_bare(name) for name in names)


def columns_beside(*given: Any) -> list[str]:
    """Names of the columns that tell something of rows, such as covariates, and are no data; no values or files."""
    return list(dict.fromkeys(name for each in given for name in columns_named(each)))


def _bare(name: str) -> str:
    found = AS_LABELS.fullmatch(name)
    return name if found is None else found[1].strip()


def open_without(x: Any, given: Any, *, columns: Sequence[str] | None = None, **how: Any) -> RowBlocks:
    """Open data as ``open_matrix`` does, without the columns of a table that hold covariates.

    Raises
    ------
    NotFound
        If a table has no column of a name.
    """
    x, columns = without_covariates(x, given, columns, needed=True)
    return open_matrix(x, columns=columns, **how)


def resolved(params: FitParameters, x: Any, source: RowBlocks) -> tuple[FitParameters, list[Covariate]]:
    """Parameters of a fit whose covariates are those of the rows, and these by name; as they are without.

    Row weights are known by then: they count in the means and the spread of covariates.

    Raises
    ------
    InvalidInput
        If there are none of that name, or not one for each row, or values are missing.
    """
    PARAMETERS["covariates"].check(params.covariates)
    if params.covariates is None:
        return params, []
    found = read_covariates(params.covariates, x, source)
    weights = None if params.row_weights is None else params.row_weights.weights
    design = Design.orthogonal([each.values for each in found], [len(each.levels or ()) for each in found], weights)
    return replace(params, covariates=design), found


def removed(found: Sequence[Covariate], design: Design, explained: Explained, names: Sequence[object]) -> Removed:
    """Part of the data that a fit removed, in terms of the covariates as they are given.

    Warns of columns that are removed wholly.
    """
    columns = np.flatnonzero(explained.wholly)
    if columns.size:
        shown = ", ".join(str(names[column]) if len(names) else str(int(column)) for column in columns[:5])
        warn(
            f"covariates explain {columns.size} column(s) to rounding: {shown}{', ...' if columns.size > 5 else ''}. "
            "They are left out as constant, which is right for columns that were made of the covariates. Else use "
            "strategy='tsqr', which keeps more digits than 'gram' and 'sketch'.",
            CovariatesExplainWarning,
        )
    return Removed(
        tuple(each.name for each in found),
        tuple(each.levels for each in found),
        design.center,
        design.basis @ explained.effects,
    )


def adjustment_of(estimator: Any, x: Any, source: Any, given: Any) -> Adjustment | None:
    """Covariates of rows that a fitted estimator is applied to; None if it has removed none.

    Those of a fit by name are looked up by the same names.

    Raises
    ------
    InvalidInput
        If there are none where the estimator needs some, or some where it needs none; or as `Removed.design`.
    """
    fitted: Removed | None = getattr(estimator, "covariates_", None)
    if fitted is None:
        if given is not None:
            raise InvalidInput("covariates are given, but the encoder was fitted without. Leave them out.")
        return None
    wanted = getattr(estimator, "covariates", None) if given is None else given
    if given is None and not columns_named(wanted):
        raise InvalidInput(
            f"the encoder was fitted with covariates ({', '.join(fitted.names)}), and removes what they explain of new "
            "rows as well. Give those of these rows: covariates=... (--covariates FILE)."
        )
    if np.isnan(source.shape[0]):
        raise InvalidInput(
            "covariates need the number of rows, and the dask array has chunks of unknown length. Call "
            "x.compute_chunk_sizes() first, which reads the data once."
        )
    return Adjustment(fitted.design(read_covariates(wanted, x, source)), fitted.coefficients)


def read_covariates(given: Any, x: Any, source: Any) -> list[Covariate]:
    """Covariates of all rows of a source, or of a dask array.

    Parameters
    ----------
    given : object
        Names, a file, or values: an array, a DataFrame or Series, or a mapping of names to arrays.
    x : object
        The data as they are given, in which names are looked up.
    source : RowBlocks
        The same, opened.
    """
    columns = values_of_rows(given, x, source, "covariate")
    if not columns:
        raise InvalidInput("the covariates have no columns. Give at least one, or leave them out.")
    return [_covariate(_bare(name), values, as_labels=_bare(name) != name) for name, values in columns]


def labels_of(given: Any, x: Any, source: Any, called: str = "label", most: int = MANY_LEVELS) -> Covariate:
    """Labels of all rows by a name or by their values, as covariates are given; numbers are labels too, and ascend.

    Raises
    ------
    InvalidInput
        If there is not one for each row, some are missing, or there are more different ones than ``most``.
    """
    given = [given] if isinstance(given, str) and not is_values_file(given) else given
    columns = values_of_rows(given, x, source, called)
    if len(columns) != 1:
        raise InvalidInput(
            f"{len(columns)} columns of {called}s are given: {', '.join(name for name, _ in columns)}. Give one column."
        )
    name, values = columns[0]
    labels = _covariate(_bare(name), values, as_labels=True, what=called, most=most)
    levels = labels.levels or ()
    try:
        order = sorted(range(len(levels)), key=lambda code: float(levels[code]))
    except ValueError:
        return labels
    places = np.argsort(order)
    return replace(labels, values=places[labels.values], levels=tuple(levels[code] for code in order))


def values_of_rows(given: Any, x: Any, source: Any, called: str) -> list[tuple[str, Any]]:
    """Values of all rows of a source, by the names that were given.

    Parameters
    ----------
    given, x, source
        As of `read_covariates`.
    called : str
        Word for a column of values, for messages.

    Raises
    ------
    NotFound, InvalidInput
        If there are none of that name, or not one for each row.
    """
    names, n = names_in(given), source.shape[0]
    if len(names) == 1 and is_values_file(names[0]):
        columns = list(file_values(names[0]).items())
    elif names:
        columns = list(zip(names, _named(x, source, [_bare(name) for name in names]), strict=True))
    else:
        columns = _columns_of(given, called)
    kept = [(name, _of_kept_rows(values, source)) for name, values in columns]
    for name, values in kept:
        if len(values) != n:
            of = source.describe() if isinstance(source, RowBlocks) else "the dask array"
            raise InvalidInput(
                f"the {called_by(called, name)} has {len(values):,} values, but {of} has {n:,} rows. Give one "
                "for each row, in the same order."
            )
    return kept


def called_by(what: str, name: str) -> str:
    """Words for a column of values in messages: its name too, if the user gave one."""
    if name == what or name.startswith(f"{what} "):
        return name
    return f"{what} {name!r}"


def _columns_of(given: Any, called: str) -> list[tuple[str, Any]]:
    """Values by name, one column after another; ``called`` is the name of those without."""
    if isinstance(given, Mapping):
        return [(str(name), values) for name, values in given.items()]
    if is_frame(given):
        return [(name, given[name]) for name in _columns_in(given)]
    if not hasattr(given, "shape"):
        given = np.asarray(given)
    if getattr(given, "ndim", 1) == 2:
        table = np.asarray(given)
        return [(f"{called} {number + 1}", table[:, number]) for number in range(table.shape[1])]
    if getattr(given, "ndim", 1) != 1:
        raise InvalidInput(f"the {called}s have {given.ndim} dimensions. Give one row for each row of the data.")
    name = getattr(given, "name", None)
    return [(called if name is None else str(name), given)]


def _named(x: Any, source: Any, names: Sequence[str]) -> list[Any]:
    """Values of the rows by names, wherever the data come from."""
    if is_anndata(x):
        return [_column_of(x.obs, name, "obs of the AnnData object") for name in names]
    if is_frame(x):
        return [_column_of(x, name, f"the {type(x).__name__}") for name in names]
    if type(x).__module__.startswith("xarray"):
        return [_along_rows(x, name) for name in names]
    if hasattr(x, "attrs") and hasattr(x, "keys"):  # a group of Zarr or HDF5
        return list(values_in_group(x, names, "the group"))
    path = os.fsdecode(x) if isinstance(x, str | os.PathLike) else asked_of(source).get("path")
    if path is None:
        raise nameless(source.describe() if isinstance(source, RowBlocks) else "the dask array", names)
    return list(stored_values(path, names))


def named_values(given: Any, x: Any) -> Any:
    """Covariates that are given by names of columns of AnnData, as values by name; others as they are."""
    if not columns_named(given):
        return given
    names = names_in(given)
    return dict(zip(names, _named(x, None, [_bare(name) for name in names]), strict=True))


def _column_of(frame: Any, name: str, called: str) -> Any:
    _check_known(name, _columns_in(frame), called)
    return frame[name]


def _along_rows(array: Any, name: str) -> Any:
    from spae_dask.storage.grids.grid_layout import coordinate_of  # xarray is an optional library

    found = coordinate_of(array, name, "the DataArray")
    if found.dims != array.dims[:1]:
        raise InvalidInput(f"{name!r} is along {found.dims}, and not along the rows, {array.dims[:1]}.")
    return found.values


def _of_kept_rows(values: Any, source: Any) -> Any:
    """Values of the rows that a source has, if they are those of all rows of which some were chosen."""
    kept, beneath = None, source
    while isinstance(beneath, ChangedBlocks | Submatrix):
        rows = beneath.kept_rows if isinstance(beneath, Submatrix) else None
        if rows is not None:
            kept = rows if kept is None else rows[kept]
        beneath = beneath.source
    if kept is None or len(values) == source.shape[0] or len(values) != beneath.shape[0]:
        return values
    return np.asarray(values)[kept]


def _covariate(
    name: str, given: Any, *, as_labels: bool = False, what: str = "covariate", most: int = MANY_LEVELS
) -> Covariate:
    values = np.asarray(given)
    as_labels |= hasattr(getattr(given, "dtype", None), "categories")  # of pandas; they may be numbers
    if values.ndim != 1:
        raise InvalidInput(f"the {called_by(what, name)} has {values.ndim} dimensions. Give one value for each row.")
    if values.dtype.kind == "O":
        values = _of_objects(values)
    if values.dtype.kind in "fiu" and not as_labels:
        numbers = values.astype(np.float64)
        _refuse_missing(~np.isfinite(numbers), called_by(what, name), "NaN or infinite")
        return Covariate(name, numbers)
    if values.dtype.kind not in "fiubUSTO":
        raise InvalidInput(
            f"the {called_by(what, name)} holds {values.dtype}, and neither numbers nor labels. Convert it: a date to "
            "a number of days, or to its month as text."
        )
    if values.dtype.kind == "f":
        _refuse_missing(np.isnan(values), called_by(what, name), "NaN")
        whole = bool(np.all(np.mod(values, 1) == 0))
        values = values.astype(np.int64) if whole and np.all(np.abs(values) < 2**53) else values
    if values.dtype.kind == "O":
        _refuse_missing(np.array([_is_missing(each) for each in values], dtype=bool), called_by(what, name), "missing")
    texts = np.array([each.decode() if isinstance(each, bytes) else str(each) for each in values.tolist()])
    levels, codes = np.unique(texts, return_inverse=True)
    if levels.size > most:
        raise InvalidInput(
            f"the {called_by(what, name)} has {levels.size:,} labels, and {most:,} are allowed. Names of single rows "
            "explain everything; give groups of rows, or numbers."
        )
    small = np.min_scalar_type(max(1, levels.size - 1))
    return Covariate(name, codes.astype(small), tuple(str(each) for each in levels))


def _of_objects(values: Values) -> Values:
    """Python objects as numbers, if none is text; missing ones are NaN then."""
    if any(isinstance(each, str | bytes | bool | np.bool_) for each in values):
        return values
    try:
        return np.array([np.nan if _is_missing(each) else each for each in values], dtype=np.float64)
    except (TypeError, ValueError):
        return values


def _is_missing(value: Any) -> bool:
    """True for None, NaN, and for NA and NaT of pandas."""
    return (
        value is None or type(value).__name__ in ("NAType", "NaTType") or (isinstance(value, float) and value != value)
    )


def _refuse_missing(missing: npt.NDArray[np.bool_], called: str, what: str) -> None:
    if missing.any():
        rows = np.flatnonzero(missing)
        raise InvalidInput(
            f"the {called} is {what} in row {int(rows[0])}"
            f"{f', and in {rows.size - 1:,} more' if rows.size > 1 else ''}. Fill it, or leave out these rows."
        )


def without_covariates(
    x: Any, given: Any, columns: Sequence[str] | None, *, needed: bool = False
) -> tuple[Any, Sequence[str] | None]:
    """The data, and a choice of columns, without the columns of a table that hold covariates.

    Columns that are chosen by name stay as they are chosen. Names that the table lacks are refused if they are
    ``needed``.
    """
    names = columns_named(given)
    path = os.fsdecode(x) if isinstance(x, str | os.PathLike) else None
    of_file = path is not None and is_named_table(path)
    if not names or columns is not None or not (is_frame(x) or of_file):
        return x, columns
    known = names_of_table(str(path)) if of_file else _columns_in(x)
    for name in names if needed else ():
        _check_known(name, known, str(path) if of_file else f"the {type(x).__name__}")
    found = [name for name in names if name in known]
    if of_file:
        return x, [f"!{name}" for name in found] or None
    if not found:
        return x, columns
    return (x.drop(columns=found) if hasattr(x, "iloc") else x.drop(found)), columns


def _columns_in(frame: Any) -> list[str]:
    """Names of the columns of a table in memory."""
    return [str(each) for each in (frame.column_names if hasattr(frame, "column_names") else frame.columns)]


def _check_known(name: str, known: Sequence[str], called: str) -> None:
    if name not in known:
        raise NotFound(f"{called} has no column {name!r}.{near_or_listed(name, known)}")
