"""Texts for people are plain English: docstrings, errors, warnings, notes, reports, help, documentation.

Docstrings open with a verb or a noun, never with a question word. Sentences of messages do so too, and are short. A
help text fits a line. Words that only this project understands are refused everywhere.
"""

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from spae_dask.cli import main

HOUSE = Path(__file__).parents[1]
PACKAGE = HOUSE / "spae_dask"

ROOMS = sorted(path.name for path in PACKAGE.iterdir() if (path / "__init__.py").exists())

QUESTION = re.compile(r"(What(ever)?|Who(ever|m|se)?|Which(ever)?|Whether|How|Where|Why|When)\b", re.IGNORECASE)


def docstrings(source: str) -> Iterator[tuple[int, str]]:
    """Line and text of every string that stands alone: docstrings of modules, classes, functions and constants."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Expr(value=ast.Constant(value=str(text))):
                yield node.lineno, inspect.cleandoc(text)


def openings(text: str) -> Iterator[str]:
    """First line of a docstring, and the first line of each indented description, such as that of a parameter."""
    margin = -1
    for line in text.splitlines():
        indent = len(line) - len(line.lstrip())
        if line and indent > margin:
            yield line.lstrip()
        if line:
            margin = indent


def questions(source: str) -> list[str]:
    """Openings that are a question word, each with the line that its docstring starts on."""
    return [
        f"{line}: {opening}"
        for line, text in docstrings(source)
        for opening in openings(text)
        if QUESTION.match(opening)
    ]


@pytest.mark.parametrize("room", [".", *ROOMS])
def test_no_docstring_or_description_opens_with_a_question_word(room: str) -> None:
    files = sorted(PACKAGE.glob("*.py") if room == "." else (PACKAGE / room).rglob("*.py"))
    assert any(True for file in files for _ in docstrings(file.read_text(encoding="utf-8")))
    found = [f"{file.relative_to(PACKAGE)}:{each}" for file in files for each in questions(file.read_text("utf-8"))]

    assert found == []


PLANTED = '''
"""{module}"""

LIMIT = 3
"""{constant}"""


class Thing:
    """{a_class}

    Parameters
    ----------
    first : int
        {parameter}
        Which may follow in a second line, and what not.
    """

    def method(self) -> None:
        """{method}

        Returns
        -------
        int
            {returned}
        """
'''

PLAIN = dict.fromkeys(("module", "constant", "a_class", "parameter", "method", "returned"), "Number of rows.")


def test_plain_docstrings_pass() -> None:
    assert questions(PLANTED.format(**PLAIN)) == []


@pytest.mark.parametrize("place", PLAIN)
@pytest.mark.parametrize(
    "opening", ["What to do.", "Whether to do it.", "Which one.", "How much.", "Who: a user.", "whatever fits."]
)
def test_a_planted_question_is_found(place: str, opening: str) -> None:
    (found,) = questions(PLANTED.format(**{**PLAIN, place: opening}))

    assert found.endswith(f": {opening}")


@pytest.mark.parametrize("opening", ["However many rows.", "Whole rows.", "Whitened rows."])
def test_words_that_only_begin_alike_pass(opening: str) -> None:
    assert questions(PLANTED.format(**{**PLAIN, "module": opening})) == []


OPENING = re.compile(r"(What|Who|Which|Whether|How)\b", re.IGNORECASE)

MOST_WORDS = 24
MOST_HELP = 100

PRIVATE = re.compile(
    r"\b(alike|by nobody|census|deaths|falter(s|ed|ing)?|go(es|ne)? on with|handover|hopeless|mend(s|ed)?"
    r"|panels? of (\d+ |some )?rows|patience|reruns?|silence|stillborn|(can|to) be had|told|wakefulness|watchdog"
    r"|whoever)\b",
    re.IGNORECASE,
)
"""Words of this project's own. `The house` has the standard term for each."""


def messages(source: str) -> Iterator[tuple[int, str]]:
    """Line and text of every string of two words or more that is no docstring, with X for each value put into it."""
    tree = ast.parse(source)
    inner = {id(part) for node in ast.walk(tree) for part in parts_of(node)}
    for node in ast.walk(tree):
        if id(node) not in inner and " " in (text := shown(node)):
            yield getattr(node, "lineno", 0), text


def parts_of(node: ast.AST) -> list[ast.AST]:
    """What is not a message of its own: docstrings, and the parts of a formatted string."""
    match node:
        case ast.Expr(value=ast.Constant(value=str())):
            return [node.value]
        case ast.JoinedStr():
            return [part for part in ast.walk(node) if part is not node]
    return []


def shown(node: ast.AST) -> str:
    """The text of a string as a person sees it; empty for all else."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=values):
            return "".join(part.value if isinstance(part, ast.Constant) else "X" for part in values)
    return ""


def sentences(text: str) -> list[str]:
    """Sentences of a message; a command between backticks is one word, and a value may begin a sentence."""
    text = re.sub(r"`[^`]*`", "X", text)
    return [each.strip() for each in re.split(r"(?<=[.!?])\s+|(?<=[.!?])(?=X\b)|\n", text) if each.strip()]


def faults(text: str) -> list[str]:
    """Sentences of a message that are long, open with a question word, or hold a private word."""
    return [
        each
        for each in sentences(text)
        if len(each.split()) > MOST_WORDS or OPENING.match(each) or PRIVATE.search(each)
    ]


@pytest.mark.parametrize("room", [".", *ROOMS])
def test_messages_are_plain(room: str) -> None:
    files = sorted(PACKAGE.glob("*.py") if room == "." else (PACKAGE / room).rglob("*.py"))
    found = [
        f"{file.relative_to(PACKAGE)}:{line}: {fault}"
        for file in files
        for line, text in messages(file.read_text("utf-8"))
        for fault in faults(text)
    ]

    assert found == []


def parameters_of(command: Any, name: str) -> Iterator[tuple[str, str]]:
    """Name and help of each parameter of a command and of those below it."""
    for each in command.params:
        yield f"{name} {each.name}", " ".join((getattr(each, "help", None) or "").split())
    for verb, below in getattr(command, "commands", {}).items():
        yield from parameters_of(below, f"{name} {verb}")


def test_a_help_text_fits_a_line() -> None:
    found = dict(parameters_of(get_command(main.app), "spae"))
    assert len(found) > 200
    assert {name: text for name, text in found.items() if len(text) > MOST_HELP} == {}


DOCUMENTS = [
    *(HOUSE / name for name in ("README.md", "SECURITY.md", "pipelines/README.md")),
    *(file for room in ("docs", "deploy", "benchmarks", "spae_dask") for file in sorted((HOUSE / room).rglob("*.md"))),
]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(HOUSE)))
def test_documents_use_the_standard_terms(document: Path) -> None:
    text = re.sub(r"`[^`]*`", "X", document.read_text(encoding="utf-8"))

    assert [line for line in text.splitlines() if PRIVATE.search(line)] == []


def test_docstrings_and_commands_are_no_messages() -> None:
    source = '''"""Whoever told it."""\nx = f"see {name!r}. `patience of a saint`"\ny = "one"'''

    assert list(messages(source)) == [(2, "see X. `patience of a saint`")]
    assert faults("see X. `patience of a saint`") == []


LONG = " ".join(["word"] * 25)


@pytest.mark.parametrize(
    ("planted", "faulty"),
    [
        (f"{LONG}.", [f"{LONG}."]),
        (f"{LONG[5:]}. {LONG[5:]}.", []),
        ("it failed. What to do: nothing", ["What to do: nothing"]),
        ("the run went on with it", []),
        ("a run can be gone on with", ["a run can be gone on with"]),
        ("a gene panel of 12", []),
    ],
)
def test_a_planted_fault_is_found(planted: str, faulty: list[str]) -> None:
    assert faults(planted) == faulty
