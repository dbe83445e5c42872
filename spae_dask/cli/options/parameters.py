"""The parameters of a fit as options of the command line, made from the fields of ``FitParameters``."""

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Annotated, Any, Literal, TypeVar

import typer

from spae_dask.cli.options import groups
from spae_dask.cli.options.data import columns_of
from spae_dask.features import pairs_in, point_in
from spae_dask.strategies.parameters import (
    OF_PATHS,
    PARAMETERS,
    Choice,
    Costs,
    Count,
    Counts,
    Features,
    Flag,
    Groups,
    Kind,
    Limits,
    Number,
    Numbers,
    OfRow,
    OfRows,
    Parameter,
    Positions,
    Scale,
    Steps,
    several,
)

TYPES: dict[type, Any] = {
    Flag: bool,
    Count: int,
    Counts: str,
    Number: float,
    Numbers: list[str],
    Steps: str,
    OfRows: str,
    OfRow: str,
    Scale: str,
    Features: str,
    Costs: str,
    Groups: str,
    Limits: str,
    Positions: str,
}
"""Types that typer parses values as; a `Choice` is of its names."""

PAIRED: dict[type, Callable[[str], Any]] = {Costs: float, Groups: str, Limits: int, Positions: point_in}
"""Types of the values of those that are given by name."""

FLAGS = {str(flag): flag for flag in (False, True)}
"""Texts of the flags among the values of an option that may stand alone."""

Group = TypeVar("Group", bound="FromFields")


def _checked(parameter: Parameter) -> Callable[[Any], Any]:
    """The callback that parses numbers with commas between, and refuses what is not allowed before data are opened."""

    def checked(given: Any) -> Any:
        if given is None or given == []:
            return None
        value = ",".join(given) if isinstance(given, list) else given
        if isinstance(parameter.kind, Counts | Numbers) or is_read(parameter.kind):
            value = numbers_in(value, parameter.kind)
        elif isinstance(parameter.kind, Scale):
            value = FLAGS.get(value, numbers_in(value, Numbers()))
        elif isinstance(parameter.kind, Features):
            value = columns_of(value) or ("",)
        elif type(parameter.kind) in PAIRED:
            value = pairs_in(value, PAIRED[type(parameter.kind)])
        if (wrong := parameter.kind.wrong(value)) is not None:
            raise typer.BadParameter(f"{value} is not allowed: {wrong}")
        return [value] if isinstance(given, list) and several(value) is None else value  # typer wants several

    return checked


def is_read(kind: Kind) -> bool:
    """Return True for a count that may also be a word, so that typer takes it for a text."""
    return isinstance(kind, Count) and (kind.or_chosen or kind.or_share)


def _number(text: str) -> float:
    """A whole number, or else a share."""
    try:
        return int(text)
    except ValueError:
        return float(text)


def numbers_in(text: str, kind: Kind) -> Any:
    """A number, or a tuple of several with commas between; a text that is neither comes back as it is."""
    number = _number if isinstance(kind, Count) and kind.or_share else int
    try:
        found = tuple(map(number if isinstance(kind, Count | Counts) else float, text.split(",")))
    except ValueError:
        return text
    return found if len(found) > 1 else found[0]


def _option(parameter: Parameter) -> Any:
    kind, known = parameter.kind, parameter.required or parameter.default is not None
    value = Literal[kind.names] if isinstance(kind, Choice) else str if is_read(kind) else TYPES[type(kind)]
    *short, long = parameter.options
    return Annotated[
        value if known else value | None,
        typer.Option(
            *short,
            f"{long}/--no-{long.removeprefix('--')}" if parameter.default is True else long,
            metavar=f"{parameter.metavar} [x>={kind.least}]" if isinstance(kind, Count) else parameter.metavar,
            callback=None if isinstance(kind, Flag | Choice) else _checked(parameter),
            help=parameter.help,
            show_default=not parameter.required and not isinstance(kind, Scale),
            rich_help_panel=getattr(groups, parameter.panel),
        ),
    ]


OPTIONS = {name: _option(each) for name, each in PARAMETERS.items()}
"""Options by the names of the fields."""


class FromFields:
    """A group of such options."""

    @property
    def parameters(self) -> dict[str, Any]:
        """Values as the library takes them."""
        given = {each.name: getattr(self, each.name) for each in fields(self)}  # type: ignore[arg-type]  # a dataclass
        found = {each.argument: given[each.option] for each in PARAMETERS.values() if each.option in given}
        listed = {name: tuple(value) for name, value in found.items() if isinstance(value, list)}
        return found | {name: values if len(values) > 1 else values[0] for name, values in listed.items()}


def made_of(*names: str) -> Callable[[type[Group]], type[Group]]:
    """Make a class a group of the options of these parameters."""

    def made(group: type[Group]) -> type[Group]:
        group.__annotations__ = {PARAMETERS[name].option: OPTIONS[name] for name in names}
        for each in (PARAMETERS[name] for name in names):
            if not each.required:
                setattr(group, each.option, each.default)
        return dataclass(frozen=True, kw_only=True)(group)

    return made


def in_panel(panel: str) -> list[str]:
    """Names of the parameters whose options are in a panel of the help."""
    return [name for name, each in PARAMETERS.items() if each.panel == panel]


@made_of(*in_panel("WHAT"))
class Sought(FromFields):
    """The encoder that a fit looks for."""


@made_of(*in_panel("DATA"))
class MissingEntries(FromFields):
    """Missing entries, and their treatment."""


@made_of(*in_panel("WHERE"))
class Reading(FromFields):
    """The strategy of a fit."""


@made_of("method", *(name for name in OF_PATHS if name not in in_panel("DATA")))
class Building(FromFields):
    """Encoders of many sizes."""


@made_of("strategy")
class OneStrategy(FromFields):
    """A strategy alone."""


@made_of("missing_value", "recipe")
class RawNumbers(FromFields):
    """Numbers that stand for missing, and the recipe for raw rows."""


@made_of("covariates")
class RowsCovariates(FromFields):
    """Covariates of rows that an encoder is applied to."""


@made_of("row_weights")
class Weights(FromFields):
    """Weights of rows that an encoder is evaluated on."""
