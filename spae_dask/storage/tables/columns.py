"""Choice of the columns of a table, by name or pattern; and checks that they hold numbers."""

from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase

from spae_dask.errors import InvalidInput, NotNumbers
from spae_dask.toml.names import did_you_mean

NUMERIC, NOT = "@numeric", "!"
"""Words of a choice of columns: all that hold numbers, and all but."""

N_SHOWN = 5
"""Columns named in a message."""


def choose_columns(
    names: Sequence[str],
    wanted: Sequence[str] | None,
    table: str,
    *,
    is_numeric: Callable[[int], bool] | None = None,
    everything: Sequence[int] | None = None,
) -> tuple[int, ...]:
    """Places of the wanted columns, in the order in which they are asked for, each once; all if none are.

    Parameters
    ----------
    names : sequence of str
        Names of all columns.
    wanted : sequence of str, optional
        Names, or patterns such as ``expr_*`` that stand for all names they fit, in the order of the table.
        ``@numeric`` stands for all columns of numbers. ``!name`` or ``!pattern`` takes columns away again: from all
        columns, if it comes first. A name that is there is never anything else.
    table : str
        Name of the table in messages.
    is_numeric : callable, optional
        Function that returns True if the column at a place holds numbers. ``@numeric`` needs it.
    everything : sequence of int, optional
        Places of all columns that are data, if some are not, such as row labels.

    Raises
    ------
    InvalidInput
        If a name is not there, a pattern fits none, nothing is left, or a chosen name is there twice; the nearest names
        are told.
    """
    every = range(len(names)) if everything is None else everything
    if wanted is None:
        check_names(names, table)
        return tuple(range(len(names)))
    if isinstance(wanted, str) or not all(isinstance(each, str) for each in wanted):
        raise InvalidInput(f"columns={wanted!r} is not a list of names. Give one, such as ['a', 'b'] or ['expr_*'].")
    if not wanted:
        raise InvalidInput("columns=[] chooses nothing. Name at least one column, or leave it out to use all of them.")
    chosen: dict[int, None] = {}
    for number, each in enumerate(wanted):
        if each in names:
            chosen |= dict.fromkeys(_fitting(each, names, table))
        elif each == NUMERIC and is_numeric is not None:
            chosen |= dict.fromkeys(place for place in every if is_numeric(place))
        elif each.startswith(NOT):
            left_out = set(_fitting(each.removeprefix(NOT), names, table))
            chosen = {place: None for place in (chosen if number else every) if place not in left_out}
        else:
            chosen |= dict.fromkeys(_fitting(each, names, table))
    if not chosen:
        raise InvalidInput(f"{table}: columns={list(wanted)} chooses nothing. It has {listed(names)}.")
    _refuse_twice(names, chosen, table)
    return tuple(chosen)


def _fitting(wanted: str, names: Sequence[str], table: str) -> list[int]:
    exact = [place for place, name in enumerate(names) if name == wanted]
    found = exact or [place for place, name in enumerate(names) if fnmatchcase(name, wanted)]
    if not found:
        raise InvalidInput(_nothing_called(wanted, names, table))
    return found


def check_names(names: Sequence[object], table: str) -> None:
    """Refuse names of columns that a later table cannot be compared with.

    Raises
    ------
    InvalidInput
        If one is there twice, or if only some of them are strings.
    """
    strings = [name for name in names if isinstance(name, str)]
    others = [name for name in names if not isinstance(name, str)]
    if strings and others:
        raise InvalidInput(
            f"{table} has columns whose names are strings, such as {strings[0]!r}, and columns whose names "
            f"are not, such as {others[0]!r}. Either all names must be strings, or none. Rename the columns: "
            "frame.columns = [str(name) for name in frame.columns]."
        )
    _refuse_twice(names, range(len(names)), table)


def _nothing_called(wanted: str, names: Sequence[str], table: str) -> str:
    what = "no column matches the pattern" if any(mark in wanted for mark in "*?[") else "there is no column"
    return f"{table}: {what} {wanted!r}.{near_or_listed(wanted, names)}"


def near_or_listed(wanted: str, names: Sequence[str]) -> str:
    """A closing sentence of the names that are near to one that is not there, or else of the first few."""
    return did_you_mean(wanted, names, most=3) or f" It has {listed(names)}."


def _refuse_twice(names: Sequence[object], places: range | Mapping[int, None], table: str) -> None:
    seen: set[object] = set()
    for place in places:
        if names[place] in seen:
            raise InvalidInput(
                f"{table} has several columns named {names[place]!r}. Columns are identified by name. Write the "
                "table with a different name for each column."
            )
        seen.add(names[place])


def refuse_non_numeric(kinds: Mapping[str, str], n_columns: int, table: str) -> None:
    """Refuse columns that are no numbers.

    Parameters
    ----------
    kinds : mapping of str to str
        Names of those columns, and what they hold.
    n_columns : int
        Columns asked for in all.
    table : str
        Name of the table in messages.

    Raises
    ------
    NotNumbers
        If there are any; the first are named, with their types.
    """
    if not kinds:
        return
    shown = ", ".join(f"{name!r} ({kind})" for name, kind in list(kinds.items())[:N_SHOWN])
    more = f" and {len(kinds) - N_SHOWN} more" if len(kinds) > N_SHOWN else ""
    one = len(kinds) == 1
    raise NotNumbers(
        f"{table}: {len(kinds)} of {n_columns} column{'' if n_columns == 1 else 's'} "
        f"{'is' if one else 'are'} not numbers: {shown}{more}. Allowed are integers, floats, decimals and "
        "booleans. Use all numeric columns, --columns @numeric (columns=['@numeric']). Or choose some by "
        "name or pattern, --columns 'a,b,expr_*' (columns=['a', 'b', 'expr_*']). Or convert the others."
    )


def listed(names: Sequence[str]) -> str:
    """The first few names, and how many there are."""
    shown = ", ".join(map(repr, names[:N_SHOWN]))
    return f"{len(names)} columns: {shown}, ..." if len(names) > N_SHOWN else f"the columns {shown}"
