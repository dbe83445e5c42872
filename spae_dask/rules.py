"""Rules for the choice of features: those that are never chosen, and those that are there in any case.

Features are given by name, by pattern, by number or by a mask. `Rules.resolved` finds them among the features of the
data, before anything is read. This module is light: the command line is made from it.
"""

import csv
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, TypeAlias

from spae_dask.errors import InvalidInput
from spae_dask.flags import is_flag
from spae_dask.plain_files import beside, listed, refuse_pipes
from spae_dask.toml.names import did_you_mean

Feature: TypeAlias = str | int
"""Name, pattern or number of a feature."""

FeaturesLike: TypeAlias = str | int | Sequence[str | int | bool] | Any
"""Features as users give them; None for none."""

FILE = ".txt"
"""Ending of a file of names, one a line."""

RULES = ("include", "exclude")
"""Names of the rules."""

EXAMPLE = "'MT-*', ['CD3E', 'CD8A'], a mask, or a file of names that ends in .txt"


@dataclass(frozen=True)
class Rules:
    """Rules for the choice of features.

    Attributes
    ----------
    include, exclude : tuple of str or int
        Features that are there in any case, and those that are never chosen: names, patterns and numbers.

    Examples
    --------
    >>> rules = Rules.of(include="CD3E", exclude=["MT-*"])
    >>> str(rules)
    'include CD3E; exclude MT-*'
    >>> rules.resolved(["CD3E", "MT-CO1", "LYZ", "MT-ND1"], 4)
    Rules(include=(0,), exclude=(1, 3))
    """

    include: tuple[Feature, ...] = ()
    exclude: tuple[Feature, ...] = ()

    @classmethod
    def of(cls, include: FeaturesLike = None, exclude: FeaturesLike = None, n_features: int | None = None) -> "Rules":
        """The rules that parameters describe; a mask has to have ``n_features`` entries, if that is known.

        Raises
        ------
        InvalidInput
            If one of them describes no features. The message says what is allowed.
        """
        return cls(features_of(include, n_features), features_of(exclude, n_features))

    def __bool__(self) -> bool:
        """True if there is any rule."""
        return bool(self.include or self.exclude)

    def __str__(self) -> str:
        """The rules in words."""
        return "; ".join(f"{name} {listed(found)}" for name in RULES if (found := getattr(self, name)))

    def resolved(self, names: Sequence[object] | None, n_features: int) -> "Rules":
        """The same rules in ascending numbers of features.

        Parameters
        ----------
        names : sequence or None
            Names of the features, if they have names.
        n_features : int
            d.

        Raises
        ------
        InvalidInput
            If a feature is not there, the rules contradict each other, or they leave nothing to choose.
        """
        include = _places("include", self.include, names, n_features)
        exclude = _places("exclude", self.exclude, names, n_features)
        both = sorted(set(include) & set(exclude))
        if both:
            told = ", ".join(repr(both[i] if names is None else names[both[i]]) for i in range(min(3, len(both))))
            raise InvalidInput(
                f"include={listed(self.include)} and exclude={listed(self.exclude)} contradict each other: both name "
                f"{told}{' and others' if len(both) > 3 else ''}. Leave these features out of one of the two."
            )
        if len(exclude) == n_features:
            raise InvalidInput(
                f"exclude={listed(self.exclude)} leaves none of the {n_features:,} features to choose from. "
                "Exclude fewer."
            )
        return Rules(include, exclude)

    def on(self, columns: Sequence[int]) -> "Rules":
        """Resolved rules for some of the columns, ascending, by their new numbers; those of other columns fall away."""
        places = {column: place for place, column in enumerate(columns)}
        return Rules(*(tuple(places[j] for j in found if j in places) for found in (self.include, self.exclude)))


def features_of(given: FeaturesLike, n_features: int | None = None) -> tuple[Feature, ...]:
    """Names, patterns and numbers of features, each once; of a mask the numbers where it is true.

    Raises
    ------
    InvalidInput
        If ``given`` is none of these, or a file of names cannot be read. The message says what is allowed.
    """
    if given is None:
        return ()
    if isinstance(given, str):
        found: list[Any] = [each.strip() for each in next(csv.reader([given], skipinitialspace=True), ()) or ("",)]
    elif isinstance(given, Sequence) and not isinstance(given, bytes):
        found = list(given)
    elif getattr(given, "ndim", None) == 1:
        found = list(given.tolist())  # type: ignore[union-attr]  # of an array
    else:
        found = [given]
    if found and all(map(is_flag, found)):
        if n_features is not None and len(found) != n_features:
            raise InvalidInput(f"give a mask of {n_features} entries, one for each feature; it has {len(found)}.")
        return tuple(place for place, chosen in enumerate(found) if chosen)
    return tuple(dict.fromkeys(entry for each in found for entry in _entries(each)))


def files_in(given: Any, folder: Path) -> Any:
    """Features as they are given, with files of names in a folder where their paths are relative."""
    if isinstance(given, list):
        return [files_in(each, folder) for each in given]
    return str(folder / given) if isinstance(given, str) and given.endswith(FILE) else given


def _entries(given: Any) -> Sequence[Feature]:
    if isinstance(given, str) and given.endswith(FILE):
        return _lines(given)
    if isinstance(given, str) and given:
        return [given]
    try:
        return [operator.index(given)]
    except TypeError:
        raise InvalidInput(f"give names, patterns or numbers of features: {EXAMPLE}.") from None


def _lines(path: str) -> list[str]:
    refuse_pipes(path)
    try:
        lines = Path(path).read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text in UTF-8"
        raise InvalidInput(
            f"give names of features, or a file of names, one a line: {path} cannot be read ({reason}).{beside(path)}"
        ) from error
    return [line.strip() for line in lines if line.strip() and not line.startswith("#")]


def _places(rule: str, wanted: Sequence[Feature], names: Sequence[object] | None, n_features: int) -> tuple[int, ...]:
    """Numbers of the features that a rule names, ascending."""
    found: set[int] = set()
    places: dict[object, list[int]] = {}
    for place, name in enumerate(() if names is None else names):
        places.setdefault(name, []).append(place)
    for each in wanted:
        number = _number(each, places)
        if number is None:
            assert isinstance(each, str), "all else are numbers"
            fitting = places.get(each) or [
                place for name, there in places.items() if fnmatchcase(str(name), each) for place in there
            ]
            if not fitting:
                raise InvalidInput(_nothing(rule, each, names, n_features))
            found.update(fitting)
        elif 0 <= number < n_features:
            found.add(number)
        else:
            raise InvalidInput(
                f"{rule}={each} names no feature: the data have {n_features:,}, with numbers from 0 to "
                f"{n_features - 1}. Give one of these."
            )
    return tuple(sorted(found))


def _number(given: Feature, places: dict[object, list[int]]) -> int | None:
    """The number that is given, or written; a name that is there is never a number."""
    if isinstance(given, int):
        return given
    return int(given) if given.isdecimal() and given not in places else None


def _nothing(rule: str, wanted: str, names: Sequence[object] | None, n_features: int) -> str:
    if names is None:
        return (
            f"{rule}={wanted!r} is a name, but the data have no names of features. Give numbers from 0 to "
            f"{n_features - 1}, or a mask of {n_features} entries."
        )
    near = did_you_mean(wanted, [str(name) for name in names])
    return f"{rule}={wanted!r} fits none of the names of the {n_features:,} features. Give names that are there.{near}"
