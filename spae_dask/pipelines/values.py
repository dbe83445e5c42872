"""Kinds of values that keys of a pipeline take. What does not fit raises one ValueError that says what would."""

import math
from collections.abc import Callable
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field, PlainValidator

from spae_dask.algorithms.comparison import COMPARED
from spae_dask.algorithms.parameters import (
    EVALUATIONS,
    METHODS,
    MISSING,
    PRECISIONS,
    PROJECTIONS,
    SPLITS,
    STRATEGIES,
)
from spae_dask.selection import SELECTIONS
from spae_dask.storage.writing.codecs import CODECS
from spae_dask.toml.names import did_you_mean

Check = Callable[[Any], Any]


def _one_of(names: Any) -> Check:
    allowed = list(names)

    def check(given: Any) -> str:
        if isinstance(given, str) and given in allowed:
            return given
        raise ValueError(f"give one of {', '.join(map(repr, allowed))}.{did_you_mean(given, allowed)}")

    return check


def _some_of(names: Any) -> Check:
    one, allowed = _one_of(names), ", ".join(map(repr, names))

    def check(given: Any) -> tuple[str, ...]:
        if not isinstance(given, list | tuple) or not given or len(set(map(repr, given))) != len(given):
            raise ValueError(f"give a list of at least one of {allowed}, each once.")
        return tuple(one(each) for each in given)

    return check


def _is_count(given: Any) -> bool:
    return isinstance(given, int) and not isinstance(given, bool) and given >= 1


def _counts(given: Any) -> tuple[int, ...]:
    if isinstance(given, list | tuple) and given and all(map(_is_count, given)):
        return tuple(given)
    raise ValueError("give a list of whole numbers of at least 1, such as [2, 5, 10].")


def _sizes(given: Any) -> int | tuple[int, ...]:
    if _is_count(given):
        return int(given)
    if isinstance(given, list | tuple) and given and all(map(_is_count, given)):
        return tuple(given)
    raise ValueError("give a whole number of at least 1, or a list of one a component, such as [12, 8, 8].")


def _missing_value(given: Any) -> float | tuple[float, ...]:
    numbers = given if isinstance(given, list | tuple) else [given]
    if numbers and all(
        isinstance(each, int | float) and not isinstance(each, bool) and math.isfinite(each) for each in numbers
    ):
        found = tuple(float(each) for each in numbers)
        return found if len(found) > 1 else found[0]
    raise ValueError("give a number, such as -1, or a list of numbers, such as [-1, -2].")


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

Count = Annotated[int, Field(ge=1)]
Seed = Annotated[int, Field(ge=0)]
MissingValue = Annotated[float | tuple[float, ...], PlainValidator(_missing_value)]
Excess = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Share = Annotated[float, Field(gt=0, lt=1)]
Text = Annotated[str, PlainValidator(_text)]
"""A name, a path or URL, or ``@NAME`` for what the step of that name writes."""
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,99}$")]
Names = Annotated[tuple[str, ...], PlainValidator(_names)]
Sizes = Annotated[int | tuple[int, ...], PlainValidator(_sizes)]
Counts = Annotated[tuple[int, ...], PlainValidator(_counts)]
Chunks = Annotated[tuple[int, int], PlainValidator(_pair)]
Type = Annotated[str, PlainValidator(_type)]
Method = Annotated[str, PlainValidator(_one_of(METHODS))]
CoreMethod = Annotated[str, PlainValidator(_one_of([name for name in METHODS if name != "doubly-sparse"]))]
ComparedMethods = Annotated[tuple[str, ...], PlainValidator(_some_of(COMPARED))]
Selection = Annotated[str, PlainValidator(_one_of(SELECTIONS))]
Strategy = Annotated[str, PlainValidator(_one_of(STRATEGIES))]
Evaluation = Annotated[str, PlainValidator(_one_of(EVALUATIONS))]
Projection = Annotated[str, PlainValidator(_one_of(PROJECTIONS))]
Split = Annotated[str, PlainValidator(_one_of(SPLITS))]
Precision = Annotated[str, PlainValidator(_one_of(PRECISIONS))]
Missing = Annotated[str, PlainValidator(_one_of(MISSING))]
Codec = Annotated[str, PlainValidator(_one_of(CODECS))]
Formats = Annotated[tuple[str, ...], PlainValidator(_formats)]
XIs = Annotated[Literal["matrix", "factor", "data"], PlainValidator(_one_of(("matrix", "factor", "data")))]
