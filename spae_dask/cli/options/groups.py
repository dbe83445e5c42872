"""Options that come together: a frozen dataclass declares them, and a verb takes them as one argument.

Its fields are options, or further groups. The command line sees the options in the places of their groups.
"""

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import wraps
from typing import Any, TypeVar, get_type_hints

WHAT, DATA, WHERE, OUTPUT, SCREEN = (
    "Encoder to find",
    "Data",
    "Execution",
    "Output",
    "Console",
)


Group = TypeVar("Group")


def takes_groups(verb: Callable[..., None]) -> Callable[..., None]:
    """Have a verb that takes groups be given single options, by keyword."""
    own = inspect.signature(verb, eval_str=True).parameters.values()
    parameters = [option for each in own for option in _options_in(each)]

    @wraps(verb)
    def called(**given: Any) -> None:
        verb(**_taken(own, given))

    called.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # what inspect looks for
    called.__annotations__ = {each.name: each.annotation for each in parameters}
    return called


def options_of(group: type) -> list[inspect.Parameter]:
    """The options of a group, as parameters of a function."""
    return [option for each in _members(group) for option in _options_in(each)]


def gathered(group: type[Group], given: Mapping[str, Any]) -> Group:
    """A group, from options by name; those that are not given have their defaults."""
    return group(**_taken(_members(group), given))


def told(group: object) -> Iterator[tuple[inspect.Parameter, Any]]:
    """The options of a group that was given, with their values."""
    for each in _members(type(group)):
        value = getattr(group, each.name)
        if is_dataclass(each.annotation):
            yield from told(value)
        else:
            yield each, value


def _members(group: type) -> list[inspect.Parameter]:
    hints = get_type_hints(group, include_extras=True)
    return [
        inspect.Parameter(
            each.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if each.default is MISSING else each.default,
            annotation=hints[each.name],
        )
        for each in fields(group)
    ]


def _options_in(member: inspect.Parameter) -> list[inspect.Parameter]:
    if is_dataclass(member.annotation):
        return options_of(member.annotation)  # type: ignore[arg-type]  # the class, not one of its objects
    return [member.replace(kind=inspect.Parameter.KEYWORD_ONLY)]


def _taken(members: Iterable[inspect.Parameter], given: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for each in members:
        if is_dataclass(each.annotation):
            found[each.name] = gathered(each.annotation, given)  # type: ignore[arg-type]
        elif each.name in given:
            found[each.name] = given[each.name]
    return found
