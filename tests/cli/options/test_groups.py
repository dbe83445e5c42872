"""A verb that takes groups is, to the command line, one that takes their options."""

import inspect
from dataclasses import dataclass
from typing import Annotated

import pytest
import typer
from typer.main import get_command

from spae_dask.cli.checkpoint import ls, rm
from spae_dask.cli.main import VERBS
from spae_dask.cli.options import data, output, parameters, target
from spae_dask.cli.options.groups import gathered, options_of, takes_groups, told

Size = Annotated[int, typer.Option("--size")]
Colour = Annotated[str, typer.Option("--colour")]


@dataclass(frozen=True)
class Look:
    colour: Colour = "red"


@dataclass(frozen=True, kw_only=True)
class Thing:
    size: Size
    look: Look
    weight: Annotated[float, typer.Option("--weight")] = 1.5


def test_options_stand_where_their_groups_do():
    assert [(each.name, each.default) for each in options_of(Thing)] == [
        ("size", inspect.Parameter.empty),
        ("colour", "red"),
        ("weight", 1.5),
    ]


def test_a_group_has_what_is_given_and_else_its_defaults():
    assert gathered(Thing, {"size": 3, "other": 1}) == Thing(size=3, look=Look("red"), weight=1.5)
    assert gathered(Thing, {"size": 3, "colour": "blue"}).look == Look("blue")
    with pytest.raises(TypeError, match="size"):
        gathered(Thing, {"colour": "blue"})


def test_a_group_tells_what_it_was_given():
    given = {"size": 3, "colour": "blue", "weight": 0.5}
    assert {each.name: value for each, value in told(gathered(Thing, given))} == given


def test_the_command_line_fills_groups(capsys):
    app = typer.Typer()

    @app.command()
    @takes_groups
    def verb(
        *, before: Annotated[str, typer.Argument()], thing: Thing, after: Annotated[int, typer.Option()] = 7
    ) -> None:
        """Say what was given."""
        print(before, thing, after)

    command = get_command(app)
    command(["x", "--size", "2", "--colour", "green"], standalone_mode=False)
    assert capsys.readouterr().out == "x Thing(size=2, look=Look(colour='green'), weight=1.5) 7\n"
    names = [each.name for each in command.params]
    assert names[:5] == ["before", "size", "colour", "weight", "after"]


def test_an_option_cannot_be_in_two_groups_of_a_verb():
    def verb(*, thing: Thing, look: Look) -> None: ...

    with pytest.raises(ValueError, match="colour"):
        takes_groups(verb)


ROOMS = (data, output, target)
DECLARED = [each for room in ROOMS for name, each in vars(room).items() if name.endswith(("Option", "Argument"))]
DECLARED += parameters.OPTIONS.values()
"""The options that verbs share."""

OWN = {
    ("report", "data"): "an option there",
    ("path", "components"): "several numbers",
    ("path", "nonzeros"): "several numbers of one kind",
    ("ingest", "memory"): "one process, with a default of its own",
    ("submit", "cluster"): "a file only",
    ("submit", "array"): "a number of jobs",
    ("submit", "dry_run"): "prints the script",
    ("demo", "force"): "replaces its own files only",
    ("run", "force"): "runs steps again as well",
    ("run", "dry_run"): "says what would run",
    ("clean", "dry_run"): "lists what would be removed",
    ("clean", "folder"): "a folder of outputs",
    ("certs", "folder"): "a new folder",
}
"""Options of one name that are not the same option, and why; outputs are of many kinds."""


@pytest.mark.parametrize("verb", [*VERBS, "checkpoint ls", "checkpoint rm"])
def test_an_option_that_verbs_share_is_declared_once(verb):
    function = {"checkpoint ls": ls, "checkpoint rm": rm}.get(verb) or VERBS[verb][0]
    given = [name for each in VERBS.values() for name in inspect.signature(each[0]).parameters]
    own = {
        (verb, name)
        for name, each in inspect.signature(function).parameters.items()
        if name != "output" and given.count(name) > 1 and each.annotation not in DECLARED
    }
    assert own == {each for each in OWN if each[0] == verb}
