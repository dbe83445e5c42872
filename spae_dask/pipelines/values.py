"""Kinds of values that keys of a pipeline take. A wrong value raises one ValueError that names the allowed ones."""

from collections.abc import Callable
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field, PlainValidator

from spae_dask.features import costs_of, features_of, groups_of, positions_of
from spae_dask.storage.tables.csv_rows import SUFFIXES
from spae_dask.storage.tables.table_files import ARROW, PARQUET
from spae_dask.storage.writing.chunking import CODECS
from spae_dask.strategies.comparison import COMPARED
from spae_dask.strategies.parameters import (
    EVALUATIONS,
    METHODS,
    PARAMETERS,
    Choice,
    Costs,
    Count,
    Features,
    Flag,
    Groups,
    Kind,
    Number,
    Numbers,
    OfRow,
    OfRows,
    Positions,
    is_scale_file,
)

Check = Callable[[Any], Any]


READ: dict[type, Check] = {Costs: costs_of, Groups: groups_of, Positions: positions_of}
"""Functions that read values of features, from files too."""


def _of(kind: Kind) -> Check:
    """Check values of a kind; numbers that need not be whole become floats, lists tuples, and files of names names."""

    def check(given: Any) -> Any:
        value = tuple(given) if isinstance(given, list) else given
        if (wrong := kind.wrong(value)) is not None:
            raise ValueError(wrong)
        if isinstance(kind, OfRows) and not _are_names(value):
            raise ValueError(
                "give names of columns of the data, such as 'batch,age'. Files are for the command line: a pipeline "
                "does not see that they change."
            )
        if isinstance(kind, OfRow) and not (is_scale_file(value) or _are_names(value)):
            raise ValueError("give the name of a column of the data, such as 'weight', or a .npy or .csv file.")
        if isinstance(kind, Number | Numbers):
            found = tuple(map(float, value)) if isinstance(value, tuple) else (float(value),)
            return found if len(found) > 1 else found[0]
        if type(kind) in READ:
            return READ[type(kind)](value)
        return features_of(value) or None if isinstance(kind, Features) else value

    return check


def _are_names(given: Any) -> bool:
    """True for names of columns: a text, or several, and none of them a file."""
    texts = (given,) if isinstance(given, str) else given
    return all(isinstance(each, str) and not each.endswith((".npy", *SUFFIXES, *PARQUET, *ARROW)) for each in texts)


def parameter_keys(*names: str) -> dict[str, Any]:
    """Keys of a step that are parameters of a fit: their types and defaults, as ``create_model`` takes them."""
    found: dict[str, Any] = {}
    for name in names:
        each = PARAMETERS[name]
        value = bool if isinstance(each.kind, Flag) else Annotated[Any, PlainValidator(_of(each.kind))]
        found[name] = (value, ...) if each.required else (value | None if each.default is None else value, each.default)
    return found


def _some_of(names: Any) -> Check:
    one, allowed = _of(Choice(tuple(names))), ", ".join(map(repr, names))

    def check(given: Any) -> tuple[str, ...]:
        if not isinstance(given, list | tuple) or not given or len(set(map(repr, given))) != len(given):
            raise ValueError(f"give a list of at least one of {allowed}, each once.")
        return tuple(one(each) for each in given)

    return check


def _counts(given: Any) -> tuple[int, ...]:
    if isinstance(given, list | tuple) and given and not any(map(Count().wrong, given)):
        return tuple(given)
    raise ValueError("give a list of whole numbers of at least 1, such as [2, 5, 10].")


def _text(given: Any) -> str:
    if isinstance(given, str) and given and given.isprintable():
        return given
    raise ValueError("give a string of at least one character.")


def _names(given: Any) -> tuple[str, ...]:
    if isinstance(given, list | tuple) and given and all(isinstance(each, str) and each for each in given):
        return tuple(given)
    raise ValueError("give a list of names or patterns of columns, such as ['age', 'expr_*'].")


def _type(given: Any) -> str:
    try:
        return np.dtype(_text(given)).name
    except (TypeError, ValueError) as error:
        raise ValueError("give the name of a numpy type, such as 'float32'.") from error


def _pair(given: Any) -> tuple[int, int]:
    if len(counts := _counts(given)) == 2:
        return counts[0], counts[1]
    raise ValueError("give two whole numbers, the rows and the columns of a chunk.")


def _formats(given: Any) -> tuple[str, ...]:
    return () if given in ([], ()) else tuple(_some_of(FORMATS)(given))


FORMATS = ("svg", "png")
"""Formats of figures."""

WholeNumber = Annotated[int, PlainValidator(_of(Count()))]
Text = Annotated[str, PlainValidator(_text)]
"""A name, a path or URL, or ``@NAME`` for what the step of that name writes."""
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,99}$")]
Names = Annotated[tuple[str, ...], PlainValidator(_names)]
Counts = Annotated[tuple[int, ...], PlainValidator(_counts)]
Chunks = Annotated[tuple[int, int], PlainValidator(_pair)]
Type = Annotated[str, PlainValidator(_type)]
CoreMethod = Annotated[str, PlainValidator(_of(Choice(tuple(name for name in METHODS if name != "doubly-sparse"))))]
ComparedMethods = Annotated[tuple[str, ...], PlainValidator(_some_of(COMPARED))]
Evaluation = Annotated[str, PlainValidator(_of(Choice(EVALUATIONS)))]
Codec = Annotated[str, PlainValidator(_of(Choice(tuple(CODECS))))]
Formats = Annotated[tuple[str, ...], PlainValidator(_formats)]
XIs = Annotated[Literal["matrix", "factor", "data"], PlainValidator(_of(Choice(("matrix", "factor", "data"))))]
