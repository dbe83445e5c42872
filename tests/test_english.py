"""Docstrings open with a verb or a noun, never with a question word."""

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "spae_dask"

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
