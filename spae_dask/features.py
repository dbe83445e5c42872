"""Features of the data as users tell of them: some of them by name, pattern, number or mask, and a value for each.

This module is light: the command line is made from it.
"""

import csv
import math
import operator
import reprlib
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from numbers import Real
from pathlib import Path
from typing import Any, TypeAlias

from spae_dask.errors import InvalidInput
from spae_dask.flags import is_flag
from spae_dask.plain_files import beside, refuse_pipes
from spae_dask.toml.names import did_you_mean

Feature: TypeAlias = str | int
"""Name, pattern or number of a feature."""

FeaturesLike: TypeAlias = str | int | Sequence[str | int | bool] | Any
"""Features as users give them; None for none."""

ValuesLike: TypeAlias = str | Mapping[Any, Any] | Sequence[Any] | Any
"""Values of features as users give them; None for none."""

LimitsLike: TypeAlias = int | str | Mapping[str, int]
"""Limits of groups as users give them: one for all, or one each."""

Values: TypeAlias = dict[Feature, Any] | tuple[Any, ...]
"""Values by feature, or of all features in order."""

FILE, TABLE = ".txt", ".csv"
"""Endings of a file of names, one a line, and of a file of names with values."""

EXAMPLE = "'MT-*', ['CD3E', 'CD8A'], a mask, or a file of names that ends in .txt"


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
        found: list[Any] = [each.strip() for each in _cells(given) or ("",)]
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
    """Features, or values, as they are given, with files in a folder where their paths are relative."""
    if isinstance(given, list):
        return [files_in(each, folder) for each in given]
    return str(folder / given) if isinstance(given, str) and given.endswith((FILE, TABLE)) else given


def is_table(given: Any) -> bool:
    """Return True for the name of a file of values."""
    return isinstance(given, str) and given.endswith(TABLE)


def costs_of(given: ValuesLike, n_features: int | None = None) -> Values | None:
    """Costs of features: positive numbers, by feature or of all in order. None if none are given.

    Raises
    ------
    InvalidInput
        If ``given`` tells of none. The message says what is allowed.
    """
    found = _values(given, "cost", "CD3E=2.5", n_features)
    try:
        return None if found is None else _each(found, _cost)
    except ValueError as error:
        raise InvalidInput(f"give positive numbers, as costs are; one is {error}.") from None


def groups_of(given: ValuesLike, n_features: int | None = None) -> Values | None:
    """Groups of features by name, by feature or of all in order; "" for a feature of none. None if none are given.

    Raises
    ------
    InvalidInput
        If ``given`` tells of none. The message says what is allowed.
    """
    found = _values(given, "group", "CD3E=T", n_features)
    return None if found is None else _each(found, _label)


def positions_of(given: ValuesLike, n_features: int | None = None) -> Values | None:
    """Positions of features, numbers or tuples of several, by feature or of all in order. None if none are given.

    Raises
    ------
    InvalidInput
        If ``given`` tells of none. The message says what is allowed.
    """
    found = _values(given, "position", "B1=442.5", n_features)
    if found is None:
        return None
    try:
        points = _each(found, _point)
    except ValueError as error:
        raise InvalidInput(f"give numbers, as positions are, or several for each feature; one is {error}.") from None
    sizes = {len(each) if isinstance(each, tuple) else 1 for each in _of(points)}
    if len(sizes) > 1:
        raise InvalidInput(f"give as many numbers for each position: these have {min(sizes)} and {max(sizes)}.")
    return points


def limits_of(given: LimitsLike | None) -> int | dict[str, int] | None:
    """A limit for all groups, or limits by group. None if none are given.

    Raises
    ------
    InvalidInput
        If ``given`` is none of these. The message says what is allowed.
    """
    if isinstance(given, str):
        given = pairs_in(given, int)
    try:
        if given is None:
            return None
        if isinstance(given, Mapping):
            return {str(group): _limit(limit) for group, limit in given.items()}
        return _limit(given)
    except ValueError:
        raise InvalidInput(
            "give a whole number of at least 0 for all groups, or one for each, as in T=2,B=1."
        ) from None


def pairs_in(text: str, kind: Callable[[str], Any]) -> Any:
    """Pairs such as ``A=1,B=2`` as a dictionary, or values of a kind with commas between; other texts as they are."""
    cells = [each.strip() for each in _cells(text)]
    if not is_table(text) and cells and all("=" in each for each in cells):
        pairs = [each.rpartition("=") for each in cells]
        return {name.strip(): _converted(value.strip(), kind) for name, _, value in pairs}
    found = [_converted(each, kind) for each in cells]
    if is_table(text) or not found or (len(found) < 2 if kind is str else any(isinstance(each, str) for each in found)):
        return text
    return tuple(found) if len(found) > 1 else found[0]


def point_in(text: str) -> float | tuple[float, ...]:
    """A number, or several with blanks between."""
    found = tuple(map(float, text.split()))
    if not found:
        raise ValueError(text)
    return found if len(found) > 1 else found[0]


class Known:
    """The features that the data have.

    Parameters
    ----------
    names : sequence or None
        Their names, if they have names.
    n_features : int
        d.
    """

    def __init__(self, names: Sequence[object] | None, n_features: int) -> None:
        self.names, self.n_features = names, n_features
        self._places: dict[object, list[int]] = {}
        for place, name in enumerate(() if names is None else names):
            self._places.setdefault(name, []).append(place)

    def told(self, places: Sequence[int]) -> str:
        """The first of some features by name, and that there are others."""
        first = ", ".join(repr(each if self.names is None else self.names[each]) for each in places[:3])
        return f"{first}{' and others' if len(places) > 3 else ''}"

    def places(self, rule: str, wanted: Sequence[Feature]) -> tuple[int, ...]:
        """Numbers of the features that a rule names, ascending.

        Raises
        ------
        InvalidInput
            If one of them is not there.
        """
        found: set[int] = set()
        for each in wanted:
            fitting = self._exactly(rule, each)
            if not fitting and isinstance(each, str):
                fitting = [
                    place for name, there in self._places.items() if fnmatchcase(str(name), each) for place in there
                ]
            if not fitting:
                raise InvalidInput(self._nothing(rule, str(each)))
            found.update(fitting)
        return tuple(sorted(found))

    def values(self, rule: str, given: Values) -> dict[int, Any]:
        """Values by number of the feature. Names that are not there are passed over.

        Raises
        ------
        InvalidInput
            If they are not as many as the features, or none of them is of a feature.
        """
        if isinstance(given, tuple):
            if len(given) != self.n_features:
                raise InvalidInput(
                    f"{rule}: give one for each of the {self.n_features:,} features, not {len(given):,}."
                )
            return dict(enumerate(given))
        found = {place: value for each, value in given.items() for place in self._exactly(rule, each)}
        if not found:
            raise InvalidInput(self._nothing(rule, str(next(iter(given), ""))))
        return found

    def _exactly(self, rule: str, given: Feature) -> list[int]:
        """The features of a name, or a number; a name that is there is never a number."""
        if given in self._places:
            return self._places[given]
        if isinstance(given, str) and not given.isdecimal():
            return []
        if 0 <= int(given) < self.n_features:
            return [int(given)]
        raise InvalidInput(
            f"{rule}={given} names no feature: the data have {self.n_features:,}, with numbers from 0 to "
            f"{self.n_features - 1}. Give one of these."
        )

    def _nothing(self, rule: str, wanted: str) -> str:
        if self.names is None:
            return (
                f"{rule}={wanted!r} is a name, but the data have no names of features. Give numbers from 0 to "
                f"{self.n_features - 1}, or a mask of {self.n_features} entries."
            )
        near = did_you_mean(wanted, [str(name) for name in self.names])
        return (
            f"{rule}={wanted!r} fits none of the names of the {self.n_features:,} features. Give names that are there."
            f"{near}"
        )


def _cells(line: str) -> list[str]:
    return next(csv.reader([line], skipinitialspace=True), [])


def _entries(given: Any) -> Sequence[Feature]:
    if isinstance(given, str) and given.endswith(FILE):
        lines = _text(given, "names of features, or a file of names, one a line").splitlines()
        return [line.strip() for line in lines if line.strip() and not line.startswith("#")]
    if isinstance(given, str) and given:
        return [given]
    try:
        return [operator.index(given)]
    except TypeError:
        raise InvalidInput(f"give names, patterns or numbers of features: {EXAMPLE}.") from None


def _text(path: str, wanted: str) -> str:
    refuse_pipes(path)
    try:
        return Path(path).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text in UTF-8"
        raise InvalidInput(f"give {wanted}: {path} cannot be read ({reason}).{beside(path)}") from error


def _values(given: ValuesLike, what: str, example: str, n_features: int | None) -> Values | None:
    """Values as they are given, by feature or of all in order."""
    if given is None:
        return None
    if isinstance(given, str):
        if is_table(given):
            return _table(given, what)
        read: Mapping[str, Callable[[str], Any]] = {"cost": float, "group": str, "position": point_in}
        given = pairs_in(given, read[what])
    if isinstance(given, Mapping) and given:
        return {name if isinstance(name, str) else _place(name): value for name, value in given.items()}
    is_list = isinstance(given, Sequence) and not isinstance(given, str | bytes)
    if is_list or getattr(given, "ndim", 0) in ((1, 2) if what == "position" else (1,)):
        found = tuple(given.tolist() if hasattr(given, "tolist") else given)
        if n_features is not None and len(found) != n_features:
            raise InvalidInput(f"give one {what} for each of the {n_features} features; these are {len(found)}.")
        return found
    raise InvalidInput(
        f"give a {what} for each feature: by name, as in {example}, an array in their order, or a .csv file of names "
        f"and {what}s."
    )


def _place(given: Any) -> int:
    try:
        return operator.index(given)
    except TypeError:
        raise InvalidInput(f"give names or numbers of features, not {given!r}.") from None


def _table(path: str, what: str) -> Values:
    """Names and values in columns; a first line without a number is a header where values are numbers."""
    several = what == "position"
    wanted = f"a file of {'two columns or more' if several else 'two columns'}, names of features and {what}s"
    rows = [
        [cell.strip() for cell in row]
        for row in csv.reader(_text(path, wanted).splitlines(), skipinitialspace=True)
        if any(cell.strip() for cell in row)
    ]
    if what != "group" and rows and isinstance(_converted(rows[0][-1], float), str):
        rows = rows[1:]
    found: dict[Feature, Any] = {}
    for name, *cells in rows:
        fits = len(cells) > 0 if several else len(cells) == 1
        value = " ".join(cells)
        if not fits or found.get(name, value) != value:
            why = f"names {name!r} a second time" if fits else f"has {1 + len(cells)} cells"
            raise InvalidInput(f"give {wanted}: a line of {path} {why}: {reprlib.repr(','.join([name, *cells]))}.")
        found[name] = value
    if not found:
        raise InvalidInput(f"give {wanted}: {path} holds none.")
    return {name: _converted(value, float) for name, value in found.items()} if what == "cost" else found


def _each(found: Values, checked: Any) -> Values:
    if isinstance(found, tuple):
        return tuple(map(checked, found))
    return {feature: checked(value) for feature, value in found.items()}


def _converted(text: str, kind: Callable[[str], Any]) -> Any:
    try:
        return kind(text)
    except ValueError:
        return text


def _cost(given: Any) -> float:
    if isinstance(given, Real) and not is_flag(given) and 0 < float(given) < math.inf:
        return float(given)
    raise ValueError(repr(given))


def _point(given: Any) -> Any:
    """A number, or a tuple of several; texts have blanks between."""
    read = _converted(given, point_in) if isinstance(given, str) else given
    cells = read.tolist() if hasattr(read, "tolist") else read
    found = list(cells) if isinstance(cells, Sequence) and not isinstance(cells, str) else [cells]
    if not found or not all(isinstance(each, Real) and not is_flag(each) and math.isfinite(each) for each in found):
        raise ValueError(repr(given))
    return float(found[0]) if len(found) == 1 else tuple(map(float, found))


def _of(found: Values) -> Sequence[Any]:
    return found if isinstance(found, tuple) else list(found.values())


def _label(given: Any) -> str:
    return "" if given is None or given != given else str(given)


def _limit(given: Any) -> int:
    try:
        number = -1 if is_flag(given) else operator.index(given)
    except TypeError:
        number = -1
    if number < 0:
        raise ValueError(given)
    return number
