"""Parser from a table to the model of its kind. It reports errors by key, in the words of this package."""

import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from spae_dask.toml.file import Problem
from spae_dask.toml.lines import KeyPath
from spae_dask.toml.names import did_you_mean

Model = TypeVar("Model", bound=BaseModel)


def checked_table(
    path: KeyPath,
    table: Mapping[str, Any],
    models: Mapping[str, type[Model]],
    defaults: Callable[[str], dict[str, Any]],
) -> Model | list[Problem]:
    """The model of a table, or all that is wrong with it.

    Parameters
    ----------
    path : tuple
        Keys down to the table.
    table : Mapping
        Parsed table. Its key ``kind`` names the model.
    models : Mapping
        Models by kind.
    defaults : callable
        Given the kind, values for keys that the table does not have.
    """
    kind = table.get("kind")
    allowed = list(models)
    if not isinstance(kind, str) or kind not in models:
        given = "it is missing" if kind is None else f"{kind!r} is not allowed"
        names = ", ".join(map(repr, allowed))
        return [Problem((*path, "kind"), f"{given}: give one of {names}.{did_you_mean(kind, allowed)}")]
    model = models[kind]
    try:
        return model.model_validate(defaults(kind) | dict(table))
    except ValidationError as error:
        return [Problem((*path, *each["loc"]), _said(each, model)) for each in error.errors()]


def _said(error: Any, model: type[BaseModel]) -> str:
    """Return pydantic's finding in the words of this package."""
    if error["type"] == "missing":
        return "it is missing from the table that starts here."
    if error["type"] == "extra_forbidden":
        return _unknown(error["loc"], model)
    said = re.sub(r"^Input should (be|have) (?=greater|less)", "give a number ", error["msg"])
    said = re.sub(r"^(Value error, |Input should (be|have) )", lambda m: "" if "V" in m[0] else "give ", said)
    said = said.replace("a valid integer", "a whole number").replace("a valid boolean", "true or false")
    said = said.replace("a valid tuple", "a list, such as ['one', 'two']")
    said = f"{said[:1].lower()}{said[1:]}{'' if said.endswith(('.', '?')) else '.'}"
    if not error["loc"] or isinstance(error["input"], dict):
        return said
    return f"{error['input']!r} is not allowed: {said}"


def _unknown(loc: KeyPath, model: type[BaseModel]) -> str:
    """An unknown key: which the table has, and which of them may be meant."""
    for key in loc[:-1]:  # down to the model of the table it stands in
        if isinstance(key, str):
            parts = (model.model_fields[key].annotation, *_arguments(model.model_fields[key].annotation))
            model = next(each for each in parts if isinstance(each, type) and issubclass(each, BaseModel))
    keys = list(model.model_fields)
    return f"this key is not known.{did_you_mean(loc[-1], keys)} Allowed are {', '.join(keys)}."


def _arguments(annotation: Any) -> tuple[Any, ...]:
    return getattr(annotation, "__args__", ())
