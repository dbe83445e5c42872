"""Recipes: steps that make data of raw rows, such as counts, as they are read.

A recipe is written as text, ``normalize_total(1e4), log1p``. Every step takes 0 to 0, so that sparse rows stay sparse.
``storage.sources.recipe_blocks`` does the arithmetic. This module is light: the command line is made from it.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, TypeAlias

from spae_dask.errors import InvalidInput
from spae_dask.toml.names import did_you_mean

ARGUMENTS = {
    "normalize_total": "target",
    "log1p": None,
    "sqrt": None,
    "arcsinh": "cofactor",
    "clip": "upper",
    "binarize": None,
}
"""Steps, and the name of the positive number that each takes, if any."""

MEDIAN = "median"
"""Target that the data give: the median of the sums of rows that are not 0, as in scanpy."""

OF_ROWS = "normalize_total"
"""The step that looks at whole rows; it comes first."""

NON_NEGATIVE = ("normalize_total", "log1p", "sqrt")
"""Steps that take no negative numbers."""

EXAMPLE = "'normalize_total(1e4), log1p'"

_STEP = re.compile(r"\s*(\w+)\s*(?:\(([^()]*)\))?\s*")


@dataclass(frozen=True)
class Step:
    """A step of a recipe.

    Attributes
    ----------
    name : str
        One of ``normalize_total``, ``log1p``, ``sqrt``, ``arcsinh``, ``clip`` and ``binarize``.
    argument : float, "median" or None
        Its number; None for steps that take none. The target of ``normalize_total`` may be ``"median"``, which a fit
        finds in a read of its own.

    Raises
    ------
    InvalidInput
        If there is no such step, or its number is not a positive one.
    """

    name: str
    argument: float | str | None = None

    def __post_init__(self) -> None:
        if self.name not in ARGUMENTS:
            near = did_you_mean(self.name, list(ARGUMENTS))
            raise InvalidInput(f"give steps out of {_allowed()}, such as {EXAMPLE}; {self.name!r} is none.{near}")
        wanted, given = ARGUMENTS[self.name], self.argument
        if wanted is None and given is not None:
            raise InvalidInput(f"give {self.name!r} alone: it takes no number.")
        if wanted is not None and not (_is_positive(given) or (given == MEDIAN and self.name == OF_ROWS)):
            raise InvalidInput(_asked_for(self.name, "" if given is None else f", and not {given!r}"))

    def __str__(self) -> str:
        """The step as it is written."""
        if self.argument is None:
            return self.name
        return f"{self.name}({self.argument if isinstance(self.argument, str) else _number(self.argument)})"


@dataclass(frozen=True)
class Recipe:
    """Steps that make data of raw rows, in their order. ``str`` gives the text that :meth:`of` takes.

    Attributes
    ----------
    steps : tuple of Step
        ``normalize_total`` first, if it is there; each at most once.

    Examples
    --------
    >>> recipe = Recipe.of("normalize_total(1e4), log1p")
    >>> str(recipe), recipe == Recipe.of(["normalize_total(10000)", "log1p"])
    ('normalize_total(10000), log1p', True)

    Raises
    ------
    InvalidInput
        If there are no steps, one comes twice, or rows are normalised after another step.
    """

    steps: tuple[Step, ...]

    def __post_init__(self) -> None:
        names = [step.name for step in self.steps]
        if not names:
            raise InvalidInput(f"give at least one step of {_allowed()}, such as {EXAMPLE}.")
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise InvalidInput(f"give each step once: {twice!r} is there {names.count(twice)} times.")
        if OF_ROWS in names[1:]:
            raise InvalidInput(f"give {OF_ROWS!r} first: rows are normalised before {names[0]!r}.")

    @classmethod
    def of(cls, given: Any) -> "Recipe":
        """The recipe that a text, a step, or several of them in a sequence, describe; a recipe itself.

        Raises
        ------
        InvalidInput
            If they describe none. The message says what is allowed.
        """
        return given if isinstance(given, Recipe) else cls(tuple(_steps_of(given)))

    @property
    def of_rows(self) -> bool:
        """True if an entry depends on all others of its row."""
        return self.steps[0].name == OF_ROWS

    @property
    def lacks_target(self) -> bool:
        """True if rows are normalised to a target that is yet to be found."""
        return self.steps[0].argument == MEDIAN

    def with_target(self, target: float) -> "Recipe":
        """The same, with the target that was found."""
        return Recipe((Step(OF_ROWS, target), *self.steps[1:])) if self.lacks_target else self

    @property
    def non_negative(self) -> str | None:
        """Name of the first step that takes no negative numbers, if there is one."""
        return next((step.name for step in self.steps if step.name in NON_NEGATIVE), None)

    @property
    def logs(self) -> bool:
        """True if it takes logarithms."""
        return any(step.name == "log1p" for step in self.steps)

    def __str__(self) -> str:
        """The steps with commas between."""
        return ", ".join(map(str, self.steps))


RecipeLike: TypeAlias = str | Recipe | Step | Sequence[str | Step | Recipe] | None
"""A recipe as users give it; None for none."""


def recipe_of(given: RecipeLike) -> Recipe | None:
    """The recipe that is given, if any."""
    return None if given is None else Recipe.of(given)


def recipe_text(given: RecipeLike) -> str | None:
    """The text of a recipe, as records keep it; None for none."""
    return None if given is None else str(Recipe.of(given))


def _steps_of(given: Any) -> list[Step]:
    if isinstance(given, Step):
        return [given]
    if isinstance(given, Recipe):
        return list(given.steps)
    if isinstance(given, str):
        return [_step(text) for text in re.split(r",(?![^()]*\))", given)] if given.strip() else []
    if isinstance(given, Sequence) and not isinstance(given, bytes):
        return [step for each in given for step in _steps_of(each)]
    raise InvalidInput(f"give the steps as text, such as {EXAMPLE}, or as a list of such texts.")


def _step(text: str) -> Step:
    found = _STEP.fullmatch(text)
    if found is None:
        raise InvalidInput(f"give steps with commas between, such as {EXAMPLE}; {text.strip()!r} is none.")
    name, argument = found[1], found[2]
    if argument is None or name not in ARGUMENTS:
        return Step(name)
    if not argument.strip():
        if ARGUMENTS[name] is None:
            return Step(name)
        raise InvalidInput(_asked_for(name))
    if argument.strip().strip("\"'") == MEDIAN:
        return Step(name, MEDIAN)
    try:
        return Step(name, float(argument))
    except ValueError as error:
        if isinstance(error, InvalidInput):
            raise
        raise InvalidInput(
            _asked_for(name, f", and not {argument.strip()!r}")
            if ARGUMENTS[name] is not None
            else f"give {name!r} alone: it takes no number."
        ) from None


def _asked_for(name: str, told: str = "") -> str:
    median = f", or {MEDIAN!r}" if name == OF_ROWS else ""
    return f"give {name} its {ARGUMENTS[name]}, a positive number as in '{name}(10)'{median}{told}."


def _is_positive(given: Any) -> bool:
    return isinstance(given, Real) and 0 < float(given) < math.inf


def _allowed() -> str:
    return ", ".join(name if wanted is None else f"{name}({wanted})" for name, wanted in ARGUMENTS.items())


def _number(value: float) -> str:
    return str(int(value)) if float(value).is_integer() and abs(value) < 1e15 else repr(float(value))
