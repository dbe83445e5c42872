"""Small pieces of HTML for notebooks, in which everything that is shown is escaped. Pure: the standard library only."""

from collections.abc import Sequence
from html import escape

LEFT = ' style="text-align: left; vertical-align: top; white-space: normal"'
"""Notebooks set tables to the right, which suits numbers and not sentences."""


def interval(lower: str, upper: str) -> str:
    """An interval in words, from its ends as they are printed; one number if both read alike."""
    return lower if lower == upper else f"{lower} to {upper}"


def html_table(caption: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table of texts, in the colours of whatever shows it.

    Parameters
    ----------
    caption : str
        Caption of the table.
    head : sequence of str
        Column headings; none for rows that are a name and what is to be said of it.
    rows : sequence of sequences of str
        Each starts with its own heading. Line breaks stay line breaks.
    """
    top = "".join(f'<th scope="col"{LEFT}>{_text(cell)}</th>' for cell in head)
    body = "".join(
        f'<tr><th scope="row"{LEFT}>{_text(first)}</th>'
        + "".join(f"<td{LEFT if not head else ''}>{_text(cell)}</td>" for cell in rest)
        + "</tr>"
        for first, *rest in rows
    )
    headings = f"<thead><tr>{top}</tr></thead>" if head else ""
    return f"<table><caption{LEFT}>{_text(caption)}</caption>{headings}<tbody>{body}</tbody></table>"


def labelled_lines(text: str, width: int) -> list[tuple[str, str]]:
    """Rows of a table for the terminal whose first ``width`` characters are names: each name and what it says.

    Lines that start with as many spaces go on with the line before.
    """
    rows: list[tuple[str, str]] = []
    for line in text.splitlines():
        name, said = line[:width].strip(), line[width:].strip()
        if name or not rows:
            rows.append((name, said))
        else:
            rows[-1] = (rows[-1][0], f"{rows[-1][1]}\n{said}")
    return rows


def _text(text: str) -> str:
    return escape(text).replace("\n", "<br>")
