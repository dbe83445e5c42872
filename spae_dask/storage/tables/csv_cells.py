"""Cells of a line of text: which are numbers, which are missing, and which is to blame if a line does not parse."""

import csv
import re
from io import StringIO
from pathlib import Path

from spae_dask.errors import InvalidInput


def explain_cells(
    text: str,
    first_line: int,
    problem: Exception,
    *,
    path: Path,
    d: int,
    delimiter: str,
    feature_names: tuple[str, ...] | None,
    chosen: tuple[int, ...] | None = None,
) -> InvalidInput:
    """The error for lines that do not parse: the first cell to blame, by line and column.

    Parameters
    ----------
    text : str
        Whole lines, the first of which is line ``first_line`` of the file.
    first_line : int
    problem : Exception
        Error of the parser.
    path, d, delimiter, feature_names
        The file, its columns, what separates them and their names.
    chosen : tuple of int, optional
        The columns that must hold numbers, if not all.
    """
    for line, content in enumerate(text.split("\n"), first_line):
        if not content.strip(" "):
            continue
        try:
            cells = split_cells(content, delimiter)
        except csv.Error as error:
            return InvalidInput(f"{path}, line {line}: {error}. Correct the line.")
        if len(cells) != d:
            what = "the header" if feature_names else "the first row"
            return InvalidInput(
                f"{path}, line {line} has {len(cells)} cell(s), but {what} has {d}. Every row must have the same "
                "number. Correct the line, or write the table again."
            )
        for column, cell in enumerate(cells, 1):
            if chosen is not None and column - 1 not in chosen:
                continue
            if not _is_missing(cell) and not is_number(cell):
                named = f" ({feature_names[column - 1]!r})" if feature_names else ""
                return InvalidInput(
                    f"{path}, line {line}, column {column}{named}: {_shortened(cell)} is not a number. Allowed are "
                    f"numbers with a decimal point, and empty cells, NA or NaN for missing ones.{_advice(cell)}"
                )
    return InvalidInput(f"{path}, lines {first_line} and following cannot be read: {problem}.")


def split_cells(line: str, delimiter: str) -> list[str]:
    """Cells of one line, quotes removed."""
    return next(csv.reader(StringIO(line), delimiter=delimiter))


def all_of_length(text: str, d: int, delimiter: str) -> bool:
    """Return True if all lines that are not blank have ``d`` cells."""
    lines = [line for line in text.split("\n") if line.strip(" ")]
    if '"' not in text:
        return all(line.count(delimiter) == d - 1 for line in lines)
    return all(len(cells) == d for cells in csv.reader(lines, delimiter=delimiter))


def columns_of_numbers(text: str, d: int, delimiter: str) -> frozenset[int]:
    """Columns of whole lines that hold numbers, missing cells apart, and one number at least."""
    rows = [row for row in csv.reader(StringIO(text), delimiter=delimiter) if len(row) == d]
    columns = ([cell for cell in column if not _is_missing(cell)] for column in zip(*rows, strict=True))
    return frozenset(place for place, cells in enumerate(columns) if cells and all(map(is_number, cells)))


def fill_missing(text: str, delimiter: str) -> str:
    """Write nan into missing cells; a few passes of plain replacement, much faster than one elaborate pattern."""
    text = text.replace('""', "")
    if f"{delimiter} " in text or "\n " in text or text.startswith(" "):
        text = re.sub(rf"(?<![^{delimiter}\n]) +(?![^{delimiter}\n])", "", text)
    if "NA" in text:
        text = re.sub(rf'NA(?<![^"{delimiter}\n ]NA)(?![^"{delimiter}\n ])', "nan", text)
    for _ in range(2):  # neighbours share a delimiter
        text = text.replace(delimiter * 2, f"{delimiter}nan{delimiter}")
    text = text.replace(f"\n{delimiter}", f"\nnan{delimiter}").replace(f"{delimiter}\n", f"{delimiter}nan\n")
    text = f"nan{text}" if text.startswith(delimiter) else text
    return f"{text}nan" if text.endswith(delimiter) else text


def _is_missing(cell: str) -> bool:
    return cell.strip() in ("", "NA")


def is_number(cell: str) -> bool:
    """Return True if numpy reads the cell as a number."""
    try:
        float(cell)
    except ValueError:
        return False
    return "_" not in cell


def _shortened(cell: str) -> str:
    return repr(cell if len(cell) <= 40 else f"{cell[:37]}...")


def _advice(cell: str) -> str:
    if ";" in cell or "\t" in cell:
        return " The cells seem to be separated by semicolons or tabs. Write commas in .csv files, tabs in .tsv files."
    if is_number(cell.replace(",", ".", 1)):
        return " Write decimal points, not commas."
    return (
        " Leave out the columns that contain text: --columns names the columns to read, and --columns "
        "@numeric reads all columns of numbers."
    )
