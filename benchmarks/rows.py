"""The table of ``reliability.md``: rows of groups that were run take the place of older ones, all else stays."""

from collections.abc import Sequence
from dataclasses import dataclass

HEAD = "| group | case | runs | wrong | result |\n|---|---|---|---|---|"


@dataclass(frozen=True)
class Row:
    """A line of the table."""

    group: str
    case: str
    runs: int
    wrong: int
    said: str

    def __str__(self) -> str:
        """In Markdown."""
        said = self.said.replace("|", "/").replace("\n", " ")
        return f"| {self.group} | {self.case} | {self.runs:,} | {self.wrong} | {said} |"


def rewritten(text: str, rows: Sequence[Row], order: Sequence[str]) -> str:
    """The file with these rows.

    Parameters
    ----------
    text : str
        What the file holds; the table is put at its end if there is none.
    rows : sequence of Row
        All rows of some groups.
    order : sequence of str
        Groups, as they are to stand; others come after them.
    """
    before, found, rest = text.partition(HEAD + "\n")
    if not found:
        before = f"{text.rstrip()}\n\n" if text.strip() else ""
    lines = rest.split("\n")
    n_lines = next((i for i, line in enumerate(lines) if not line.startswith("| ")), len(lines))
    known = {row.group for row in rows}
    kept = [line for line in lines[:n_lines] if _group(line) not in known]
    place = {group: i for i, group in enumerate(order)}
    table = sorted([*kept, *map(str, rows)], key=lambda line: place.get(_group(line), len(place)))
    return before + "\n".join([HEAD, *table, *(lines[n_lines:] or [""])])


def _group(line: str) -> str:
    return line.split("|")[1].strip()
