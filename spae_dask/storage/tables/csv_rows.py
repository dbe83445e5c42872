"""Rows of a CSV or TSV file, read in batches of bounded memory and parsed by numpy in C.

Missing cells are filled with NaN before. If lines do not parse, the error names the first cell to blame.
"""

import codecs
import csv
import gzip
import re
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from spae_dask.errors import InvalidInput, NotFound, StorageError
from spae_dask.plain_files import beside, in_shell
from spae_dask.storage.tables.columns import NUMERIC, check_names, choose_columns

SUFFIXES = {".csv": ",", ".tsv": "\t", ".csv.gz": ",", ".tsv.gz": "\t"}
"""File names that are read, and what separates their cells."""

UTF_16, UTF_32 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE), (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)
"""Bytes that such text begins with; those of UTF-32 begin with those of UTF-16."""

BATCH_CHARACTERS = 1 << 20
MAX_LINE_CHARACTERS = 16 << 20
GZIP_RATIO = 4
"""Guess for the number of rows of a compressed file, which only decides whether shards are needed."""


@dataclass(frozen=True)
class CsvRows:
    """A table of numbers in a text file.

    Empty cells, ``NA`` and ``NaN`` in any case are NaN; blank lines are skipped; all numbers are read as float64.

    Attributes
    ----------
    path : Path
        The file, UTF-8, compressed by gzip if its name ends in ``.gz``.
    delimiter : str
        Separates the cells.
    feature_names : tuple of str, optional
        Cells of the header row, if there is one, of all columns.
    d : int
        Columns.
    chosen : tuple of int, optional
        The columns that are read, if not all; the others may hold anything.
    n_header_lines : int
        Lines above the first row of numbers.
    rows_expected : int
        Estimate of the number of rows from the size of the file.
    """

    path: Path
    delimiter: str
    feature_names: tuple[str, ...] | None
    d: int
    n_header_lines: int
    rows_expected: int
    chosen: tuple[int, ...] | None = None

    @property
    def names_read(self) -> tuple[str, ...] | None:
        """Names of the columns that are read."""
        if self.feature_names is None or self.chosen is None:
            return self.feature_names
        return tuple(self.feature_names[place] for place in self.chosen)

    def batches(self) -> Iterator[npt.NDArray[np.float64]]:
        """Arrays of consecutive rows (rows, d).

        Raises
        ------
        InvalidInput
            If a row has another length, or a cell is no number. The message names line and column.
        StorageError
            If the file cannot be read.
        """
        line = self.n_header_lines + 1
        fill = False
        with _opened(self.path) as file:
            for _ in range(self.n_header_lines):
                file.readline()
            for text in self._texts(file, line):
                if text.strip("\n "):
                    rows, fill = self._parse(text, line, fill=fill)
                    yield rows
                line += text.count("\n")

    def _texts(self, file: IO[str], line: int) -> Iterator[str]:
        """The rest of the file in pieces of whole lines."""
        rest = ""
        while piece := file.read(BATCH_CHARACTERS):
            end = piece.rfind("\n") + 1
            if end:
                yield rest + piece[:end]
                line += piece.count("\n")
                rest = piece[end:]
            else:
                rest += piece
            if len(rest) > MAX_LINE_CHARACTERS:
                raise _line_too_long(self.path, line)
        if rest:
            yield rest

    def _parse(self, text: str, line: int, *, fill: bool) -> tuple[npt.NDArray[np.float64], bool]:
        """Rows of whole lines, and whether missing cells had to be filled (so the next lines are filled at once)."""
        for filled in (True,) if fill else (False, True):
            source = StringIO(fill_missing(text, self.delimiter) if filled else text)
            try:
                rows = np.loadtxt(
                    source, delimiter=self.delimiter, comments=None, quotechar='"', ndmin=2, usecols=self.chosen
                )
            except ValueError as error:
                problem: Exception = error
                continue
            if self.chosen is not None:
                if all_of_length(text, self.d, self.delimiter):  # which numpy does not check
                    return rows, filled
                problem = ValueError("rows of different lengths")
            elif rows.shape[1] == self.d:
                return rows, filled
            else:
                problem = ValueError(f"{rows.shape[1]} columns")
        raise explain_cells(
            text,
            line,
            problem,
            path=self.path,
            d=self.d,
            delimiter=self.delimiter,
            feature_names=self.feature_names,
            chosen=self.chosen,
        )


def open_csv(path: Path, *, header: bool | None = None, columns: Sequence[str] | None = None) -> CsvRows:
    """Read the header of a table and count its columns.

    Parameters
    ----------
    path : Path
        A file whose name ends in one of `SUFFIXES`.
    header : bool, optional
        True if the first row names the columns, False if it does not. By default it must name them: a row of numbers
        only is refused, since it might be either. Quoted numbers above bare ones are names.
    columns : sequence of str, optional
        Names, patterns and words of the columns to read, as for `choose_columns`. Columns of numbers are told by the
        first rows.

    Raises
    ------
    NotFound
        If there is no such file.
    InvalidInput
        If it is empty, is no UTF-8 text, or its header cannot be one; or if a column that is asked for is not there.
    """
    if not path.exists():
        raise NotFound(f"there is no file {path}.{beside(path)} Give the path of an existing table.")
    delimiter = next(mark for suffix, mark in SUFFIXES.items() if path.name.lower().endswith(suffix))
    with _opened(path) as file:
        record, n_lines = _first_record(file, path)
        sample = record + file.read(BATCH_CHARACTERS)
    names = [cell.strip() for cell in split_cells(record, delimiter)]
    chosen = None
    if header is not False:
        if header is None and _quoted_above_bare(sample, record, delimiter):
            header = True
        if columns is not None:
            # the first rows, of which the last may not be whole
            below = sample[len(record) : len(sample) if len(sample) < BATCH_CHARACTERS else sample.rfind("\n")]
            numbers = columns_of_numbers(below, len(names), delimiter) if NUMERIC in columns else frozenset()
            chosen = choose_columns(
                names,
                columns,
                str(path),
                is_numeric=lambda place: place in numbers,
                everything=[place for place, name in enumerate(names) if name],  # row labels have no name
            )
        _check_header(names, path, header=header, chosen=chosen)
    elif columns is not None:
        raise InvalidInput(
            f"{path} has no header (header=False), so columns={list(columns)} cannot choose columns by name."
        )
    n_rows_sampled = max(1, sample.count("\n"))
    n_characters = path.stat().st_size * (GZIP_RATIO if path.name.lower().endswith(".gz") else 1)
    return CsvRows(
        path=path,
        delimiter=delimiter,
        feature_names=None if header is False else tuple(names),
        d=len(names),
        chosen=chosen,
        n_header_lines=0 if header is False else n_lines,
        rows_expected=max(1, n_characters * n_rows_sampled // len(sample)),
    )


def _first_record(file: IO[str], path: Path) -> tuple[str, int]:
    """Return the first line that is not blank, with the rest of a quoted cell, and the number of lines read."""
    record, n_lines = "", 0
    while not record.strip() or record.count('"') % 2:
        line = file.readline(MAX_LINE_CHARACTERS)
        if len(record) + len(line) >= MAX_LINE_CHARACTERS:
            raise _line_too_long(path, n_lines + 1)
        if not line:
            what = "ends within a quoted cell of its first row" if record.strip() else "is empty"
            raise InvalidInput(f"{path} {what}. A table has a header row with names, and rows of numbers.")
        record = record + line if record.strip() else line
        n_lines += 1
    return record, n_lines


def _quoted_above_bare(sample: str, record: str, delimiter: str) -> bool:
    """Return True if all cells of the first record are quoted, as names often are, and none of the next are."""
    cells = record.strip().split(delimiter)
    return all(len(cell) > 1 and cell[0] == cell[-1] == '"' for cell in cells) and (
        '"' not in sample[len(record) :].partition("\n")[0]
    )


def _check_header(names: list[str], path: Path, *, header: bool | None, chosen: tuple[int, ...] | None) -> None:
    if header is None and all(is_number(name) for name in names):
        raise InvalidInput(
            f"{path}: the first row ({', '.join(names[:3])}{', ...' if len(names) > 3 else ''}) contains only "
            "numbers. If it is data, say that there is no header: --no-header (header=False). If these are "
            "names, say so: --header (header=True)."
        )
    if chosen is not None:
        return  # the names exist, since the columns were found by them
    if names[0] == "":
        raise InvalidInput(
            f"{path}: the first cell of the header is empty, so the first column seems to contain row labels, "
            "as pandas and R write them. Write the table without them (index=False, row.names=FALSE), or cut "
            "the column off (`cut -d, -f2-`). Or choose columns by name (--columns)."
        )
    if "" in names:
        raise InvalidInput(f"{path}: column {names.index('') + 1} has no name. Name every column in the header row.")
    check_names(names, str(path))


def _line_too_long(path: Path, line: int) -> InvalidInput:
    return InvalidInput(
        f"{path}, line {line} is longer than {MAX_LINE_CHARACTERS} characters. Check that this is a table "
        "in text form with one row per line. Give very wide matrices as .npy files."
    )


def _refuse_wide(start: bytes, path: Path) -> None:
    """Refuse text of two or four bytes a character, of which UTF-8 may take every byte."""
    wide = "UTF-32" if start.startswith(UTF_32) else "UTF-16" if start.startswith(UTF_16) else None
    if wide is None and b"\0" in start:  # without a mark
        wide = "UTF-16BE" if start.startswith(b"\0") else "UTF-16LE"
    if wide is not None:
        print_it = "gunzip -c" if path.name.lower().endswith(".gz") else "cat"
        raise InvalidInput(
            f"{path} is {wide} text, but tables are read as UTF-8. Convert it: `{print_it} {in_shell(path)} | "
            f"iconv -f {wide} -t UTF-8 > NEW.csv`."
        )


@contextmanager
def _opened(path: Path) -> Iterator[IO[str]]:
    """Open the file as text. Errors in reading it name the file."""
    opener: Any = gzip.open if path.name.lower().endswith(".gz") else open
    try:
        with opener(path, "rb") as file:
            _refuse_wide(file.read(4), path)
        with opener(path, "rt", encoding="utf-8-sig", newline=None) as file:
            yield file
    except UnicodeDecodeError as error:
        raise InvalidInput(
            f"{path} is not UTF-8 text ({error.reason} at byte {error.start}). Convert it, for example with "
            "`iconv -f latin1 -t utf-8`."
        ) from error
    except (StorageError, InvalidInput):
        raise
    except (OSError, EOFError, zlib.error) as error:
        raise StorageError(f"{path} cannot be read ({error}). Check the file, or restore it from a copy.") from error


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
