"""The parser of a command: it names all missing options together, and answers to words of other programs."""

import re
from typing import Any

import typer
from typer.core import TyperCommand

from spae_dask.strategies.parameters import PARAMETERS, SCALES, SIZES, STAND_ALONE

UsageError: type[Exception] = typer.BadParameter.__mro__[1]
"""Base of all errors of a command line; typer exports only this subclass of it."""

ONE_OF = {PARAMETERS[name].option: " / ".join(map(repr, PARAMETERS[name].options)) for name in SIZES}
"""Options of which a fit takes exactly one."""

NEEDS_ONE = ("fit", "fit-part", "fit-finish")

ELSEWHERE = {
    "compare": "`spae path` compares encoders of several sizes. `spae evaluate` compares an encoder with PCA on "
    "other data. A `compare` step of `spae run` compares methods.",
    "score": "`spae evaluate` measures the loss of an encoder on data.",
    "test": "`spae evaluate` measures the loss of an encoder on data.",
    "train": "`spae fit` makes an encoder.",
    "encode": "`spae transform` writes the codes of data.",
    "apply": "`spae transform` writes the codes of data.",
    "predict": "`spae transform` writes the codes of data.",
    "convert": "`spae ingest` converts other formats to Zarr.",
    "import": "`spae ingest` converts other formats to Zarr.",
    "validate": "`spae check` looks for problems in data.",
    "show": "`spae inspect` shows an encoder.",
    "info": "`spae inspect` shows an encoder.",
}
"""Commands of other programs, and which of ours does that."""


class Verb(TyperCommand):
    """A command that names everything it lacks at once."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the words of a command line."""
        args = completed(args)
        words = list(args)  # the parser takes them away
        try:
            return super().parse_args(ctx, args)
        except typer.BadParameter as error:
            if not hasattr(error, "param_type"):  # only an error of a missing parameter has it
                raise
            given, _, _ = self.make_parser(ctx).parse_args(args=words)
            lacking = [each for each in self.params if each.required and given.get(each.name) is None]
            missing: Any = type(error)
            said = [_named(each, missing(ctx=ctx, param=each).format_message()) for each in lacking]
            if self.name in NEEDS_ONE and not any(given.get(name) for name in ONE_OF):
                said.append(f"either {' or '.join(ONE_OF.values())}")
            if len(said) < 2:
                raise
            raise UsageError(f"Missing {', '.join(said[:-1])} and {said[-1]}", ctx) from error


def completed(words: list[str]) -> list[str]:
    """The words, with a value for each option that stands alone; of the words that follow it, only a name is one."""
    end = words.index("--") if "--" in words else len(words)
    found: list[str] = []
    for word in words[:end]:
        if found and found[-1] in STAND_ALONE and word in SCALES:
            found[-1] += f"={word}"
        else:
            found.append(word)
    return [f"{word}=True" if word in STAND_ALONE else word for word in found] + words[end:]


def _named(parameter: Any, missing: str) -> str:
    """Words for a parameter, with its choices as the message that it is missing tells them."""
    if parameter.param_type_name == "argument":
        choices = " ".join("".join(missing.partition("Choose from:")[1:]).split())
        return f"argument '{parameter.metavar or parameter.name.upper()}'{f' ({choices})' if choices else ''}"
    return "option " + " / ".join(f"'{option}'" for option in parameter.opts)


def in_paragraphs(text: str) -> str:
    """Text whose lines end with paragraphs alone, so that a terminal of any width breaks them."""
    return "\n\n".join(" ".join(each.split()) for each in re.split(r"\n\s*\n", text.strip()))


def asked_for_help(words: list[str]) -> list[str]:
    """``help VERB`` as ``VERB --help``; other words as they are."""
    return [*words[1:], "--help"] if words[:1] == ["help"] else words


def elsewhere(said: str) -> str:
    """The command that does what a command of another name was wanted for, in a sentence after a blank; or nothing."""
    found = re.match(r"No such command '([^']*)'", said)
    hint = ELSEWHERE.get(found[1]) if found else None
    return f" {hint}" if hint else ""
