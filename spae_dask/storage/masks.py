"""Columns of a matrix that a boolean column of AnnData's ``var`` chooses: one of the ways to choose columns."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from spae_dask.blocks import RowBlocks, remember
from spae_dask.errors import InvalidInput
from spae_dask.storage.conditions import INDEX, is_condition, names_in, where
from spae_dask.storage.sources.submatrix import chosen_columns


class Usual(str):
    """A choice, such as a mask, that is used where it is there, and passed over where it is not."""


DEFAULT = Usual("var/highly_variable")
"""The mask if none is asked for, as in scanpy."""

ALL = "none"
"""Word for all columns."""

WITH_DATA = "cells with data"
"""Told in place of a mask of a grid where none was named, and cells without data, or of weight 0, were left out."""

LOGGED = "logged"
"""Name under which a source remembers what says that it holds logarithms, see ``blocks.remember``."""

LOG1P = "log1p"
"""Member of ``uns`` that scanpy writes when it has taken logarithms of ``X``."""


def logged_by(path: str, uns: Any) -> str | None:
    """The entry of ``uns``, if there, that says that the matrix at a path of AnnData holds logarithms."""
    return f"uns[{LOG1P!r}]" if path == "X" and uns is not None and LOG1P in uns else None


@dataclass(frozen=True, eq=False)
class Mask:
    """A choice of columns.

    Attributes
    ----------
    name : str
        Path of the column that chooses, such as ``var/highly_variable``, or a condition.
    chosen : ndarray (d,) of bool
        The columns.
    """

    name: str
    chosen: npt.NDArray[np.bool_]


def find_mask(
    mask: str | None,
    var: str,
    names: Collection[str],
    read: Callable[[str], Any],
    n_columns: int,
    called: str,
    advice: str = f"or --mask {ALL} (mask={ALL!r}) to use all columns",
) -> Mask | None:
    """The mask or condition that is asked for, or ``var/highly_variable`` if that is there; None for all columns.

    Parameters
    ----------
    mask : str or None
        As for ``open_matrix``.
    var : str
        Path of the table about the columns: ``var`` or ``raw/var``. The default mask is one of ``var``.
    names : collection of str
        Columns of that table.
    read : callable
        Function from the name of a column, or ``index``, to its values.
    n_columns : int
        d, of the matrix.
    called : str
        Name of the data in messages.
    advice : str
        Advice on the way to ask for all columns.

    Raises
    ------
    InvalidInput
        If there is no such column, it is not boolean, lacks values, or chooses nothing.
    """
    path = DEFAULT if mask is None else mask
    if is_condition(path):
        if isinstance(path, Usual) and not names_in(path) <= {*names, INDEX}:
            return None
        chosen = where(path, names, read, n_columns, var, called)
        return Mask(str(path), checked_mask(chosen, n_columns, f"the choice {path!r} of {called}", advice))
    name = path.removeprefix(f"{var}/")
    lacking = name == path or name not in names
    if path == ALL or (lacking and isinstance(path, Usual)):
        return None
    if lacking:
        has = ", ".join(f"{var}/{each}" for each in sorted(names) if not each.startswith("_")) or "none"
        raise InvalidInput(
            f"{called} has no mask {str(path)!r}; its columns of {var} are {has}. Give one that is boolean, {advice}."
        )
    found = Mask(str(path), checked_mask(read(name), n_columns, f"{path} of {called}", advice))
    return None if mask is None and found.chosen.all() else found


def checked_mask(values: Any, n_columns: int, called: str, advice: str) -> npt.NDArray[np.bool_]:
    """Values of a mask as booleans.

    Raises
    ------
    InvalidInput
        If they are not a boolean for each column, or none is True; ``advice`` says what else can be given.
    """
    given = np.asarray(values)
    if given.dtype == object and all(isinstance(each, bool | np.bool_) for each in given.ravel()):
        given = given.astype(bool)  # as columns of nullable type come
    if given.dtype != bool or given.shape != (n_columns,):
        raise InvalidInput(
            f"{called} is {given.dtype} of shape {given.shape}. A mask has one boolean for each of the "
            f"{n_columns:,} columns, none of them missing. Give such a mask, {advice}."
        )
    if not given.any():
        raise InvalidInput(f"{called} chooses no column. Give a mask with at least one column, {advice}.")
    return given


def under_mask(blocks: RowBlocks, mask: Mask | None) -> RowBlocks:
    """The columns of a matrix that a mask chooses; all without one."""
    if mask is None:
        return blocks
    chosen = chosen_columns(blocks, np.flatnonzero(mask.chosen))
    return remember(chosen, mask=mask.name, n_columns=blocks.shape[1])


def refuse_mask(mask: str | None, called: str) -> None:
    """Refuse a mask for data that have no ``var``.

    Raises
    ------
    InvalidInput
        If one is given.
    """
    if mask is not None and mask != ALL and not isinstance(mask, Usual):
        raise InvalidInput(
            f"mask={mask!r} names a column of var of AnnData, but {called} has none. Leave it out. Choose "
            "columns of tables by name: --columns 'a,b,expr_*' (columns=['a', 'b', 'expr_*'])."
        )
