"""Row blocks of a table in Parquet or Arrow files: of columns of numbers, or of one column of vectors."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate, groupby
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spae_dask.blocks import RowBlocks
from spae_dask.errors import InvalidInput, NotNumbers, StorageError
from spae_dask.storage.remote.faults import read_failed
from spae_dask.storage.tables import arrow_files, parquet_files
from spae_dask.storage.tables.arrow_files import (
    column_values,
    common_type,
    entry_type,
    number_type,
    numbers_of,
    row_labels,
)
from spae_dask.storage.tables.columns import choose_columns
from spae_dask.storage.tables.table_files import ARROW, FileParts, Piece, cut, table_files
from spae_dask.storage.tables.vectors import length_of_vectors, rows_of_vectors

TARGET_BLOCK_NBYTES = 16 << 20
"""Bytes of a row block that small row groups are gathered to."""

MAX_BLOCK_NBYTES = 128 << 20
"""A row group larger than this is read in parts, and decoded once for each."""

BATCH_NBYTES = 4 << 20
"""Bytes of rows decoded at a time."""

COLUMN_NBYTES = 4 << 20
"""Bytes that a column holds while its rows are decoded, at most: pages as they are stored and decoded, a dictionary."""

DECODING_NBYTES = 32 << 20
"""Bytes for columns that are decoded at once: a block is read a few columns after another. As many again are planned
for what the library itself takes."""

READERS: dict[str, ModuleType] = {each.KIND: each for each in (parquet_files, arrow_files)}


@dataclass(frozen=True, eq=False)
class TableBlocks:
    """Columns of a table, in blocks of row groups (Parquet) or record batches (Arrow).

    Parameters
    ----------
    path : str
        The file or folder, as it was given.
    kind : {"Parquet", "Arrow"}
        Format of the files.
    feature_names : tuple of str
        The columns that are read, or a name for each entry of the vectors.
    dtype : numpy.dtype
        One type for all of them. Nulls are NaN.
    pieces : tuple of Piece
        The row blocks.
    part_nbytes : int
        Bytes held for the largest row group while it is decoded.
    decodes_per_chunk : int
        Largest number of times that a pass decodes a row group.
    vectors : str, optional
        The column that is read, if it holds a vector in each row.
    """

    path: str
    kind: str
    feature_names: tuple[str, ...]
    dtype: np.dtype[np.generic]
    pieces: tuple[Piece, ...]
    part_nbytes: int
    decodes_per_chunk: int = 1
    vectors: str | None = None
    in_process: bool = False

    @property
    def _read_names(self) -> tuple[str, ...]:
        """The columns that are read of the files."""
        return self.feature_names if self.vectors is None else (self.vectors,)

    @property
    def shape(self) -> tuple[int, int]:
        """``(n, d)``."""
        return self.bounds[-1], len(self.feature_names)

    @cached_property
    def bounds(self) -> Sequence[int]:
        """Row bounds of the blocks."""
        return tuple(accumulate((piece.rows for piece in self.pieces), initial=0))

    @property
    def files(self) -> tuple[str, ...]:
        """Files of the table, if they are on a disk."""
        return tuple(dict.fromkeys(piece.file for piece in self.pieces if "://" not in piece.file))

    @property
    def read_nbytes(self) -> int:
        """The columns that are decoded at once, a batch of their rows, and the library itself."""
        return 2 * DECODING_NBYTES + 2 * BATCH_NBYTES

    @property
    def columns_at_once(self) -> int:
        """Columns decoded at once."""
        if self.vectors is not None:
            return self.shape[1]
        if self.kind == "Arrow":  # whole record batches
            return max(1, DECODING_NBYTES * self.shape[1] // max(1, 2 * self.part_nbytes))
        column_nbytes = 2 * self.part_nbytes // max(1, self.shape[1])
        return max(1, DECODING_NBYTES // max(1, min(column_nbytes, COLUMN_NBYTES)))

    def read(self, i: int) -> npt.NDArray[np.generic]:
        """Rows of block ``i``, in memory as they are in the file: one column, or one vector, after another.

        Raises
        ------
        StorageError
            If they cannot be read; file and row groups are named.
        """
        piece = self.pieces[i]
        rows = np.empty((piece.rows, self.shape[1]), self.dtype, order="F" if self.vectors is None else "C")
        for left in range(0, self.shape[1], self.columns_at_once):
            right = min(left + self.columns_at_once, self.shape[1])
            self._read_columns(rows[:, left:right], piece, self._read_names[left:right])
        pa.default_memory_pool().release_unused()  # else what decoded columns took is kept beside all that follows
        return rows

    def _read_columns(self, rows: npt.NDArray[Any], piece: Piece, names: Sequence[str]) -> None:
        done, seen = 0, 0
        for batch in self._batches(piece.file, piece.first, piece.last, names):
            start = min(batch.num_rows, max(0, piece.skip - seen))
            taken = batch.slice(start, piece.rows - done)
            seen += batch.num_rows
            self._fill(rows[done : done + taken.num_rows], taken, piece, names)
            done += taken.num_rows
            if done == piece.rows:
                return
        raise self._unreadable(piece.file, piece.first, piece.last, f"it has {piece.rows - done} fewer rows")

    def bands(self, room: int) -> Iterator[npt.NDArray[Any]]:
        """All rows in order, for one reading within ``room`` bytes.

        A few rows of all columns at a time where that fits, so that a row group is decoded once however large it is;
        else in row blocks of a quarter of the room, for each of which a large one is decoded anew.
        """
        column_nbytes = 2 * self.part_nbytes // max(1, self.shape[1])
        if self.kind == "Parquet":
            column_nbytes = min(column_nbytes, COLUMN_NBYTES)
        if column_nbytes * self.shape[1] > room:
            blocks = open_table(self.path, self._read_names, target_nbytes=room // 4, most_nbytes=room // 4)
            yield from (blocks.read(i) for i in range(len(blocks.pieces)))
            return
        for file, pieces in groupby(self.pieces, key=lambda piece: piece.file):
            last = max(piece.last for piece in pieces)
            for batch in self._batches(file, 0, last, self._read_names):
                rows = np.empty((batch.num_rows, self.shape[1]), self.dtype)
                self._fill(rows, batch, Piece(file, 0, last, 0, 0), self._read_names)
                yield rows

    def of_columns(self, columns: npt.NDArray[np.intp]) -> RowBlocks | None:
        """Some columns alone: the others are not read. None if all are, as those of vectors are."""
        if len(columns) == self.shape[1] or self.vectors is not None:
            return None
        return replace(
            self,
            feature_names=tuple(self.feature_names[column] for column in columns),
            part_nbytes=self.part_nbytes * len(columns) // self.shape[1],
        )

    def describe(self) -> str:
        """The path."""
        return self.path

    def _batches(self, file: str, first: int, last: int, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        width = len(names) if self.vectors is None else self.shape[1]
        rows = max(64, BATCH_NBYTES // max(1, width * self.dtype.itemsize))
        try:
            yield from READERS[self.kind].batches(file, first, last, names, rows)
        except (MemoryError, pa.ArrowMemoryError):
            raise
        except Exception as error:  # codecs and file systems raise exceptions of any type
            raise self._unreadable(file, first, last, f"{type(error).__name__}: {error}", error) from error

    def _fill(self, rows: npt.NDArray[Any], batch: pa.RecordBatch, piece: Piece, names: Sequence[str]) -> None:
        for place, name in enumerate(names):
            column = batch.column(name)
            if self.vectors is None:
                to, values = rows[:, place], column_values(column)
            else:
                to, values = rows, rows_of_vectors(column, self.shape[1], f"{name!r} of {piece.file}")
            if not np.can_cast(values.dtype, self.dtype, "same_kind"):
                raise self._unreadable(
                    piece.file, piece.first, piece.last, f"nulls in column {name!r}, where none were before"
                )
            to[...] = values

    def _unreadable(self, file: str, first: int, last: int, why: str, error: Exception | None = None) -> StorageError:
        part = READERS[self.kind].PART
        which = f"{part} {first}" if last == first + 1 else f"{part}s {first} to {last - 1}"
        what = f"{which} of {file} cannot be read: {why}."
        if isinstance(error, FileNotFoundError):
            return read_failed(what, "", error)
        return StorageError(
            f"{what} The file was complete when it was opened. Restore it from a copy, or write the table again."
        )


def open_table(
    path: str,
    columns: Sequence[str] | None = None,
    *,
    target_nbytes: int = TARGET_BLOCK_NBYTES,
    most_nbytes: int = MAX_BLOCK_NBYTES,
) -> TableBlocks:
    """Open a Parquet file, a folder of them, or an Arrow file; nothing but metadata is read.

    Folders may be nested and partitioned (``year=2020/...``). Values in the folders' names are no columns. The index
    of a pandas frame is one only if it is asked for by name.

    Parameters
    ----------
    path : str
        Path or URL.
    columns : sequence of str, optional
        Names or patterns; all columns if not given.
    target_nbytes, most_nbytes : int
        Bytes that small row groups are gathered to, and from which a large one is cut.

    Raises
    ------
    NotFound, InvalidInput, NotNumbers
        If there is nothing, a file is of another format, or columns are missing or no numbers.
    """
    files = table_files(path)
    kind = "Arrow" if files[0].lower().endswith(ARROW) else "Parquet"
    reader = READERS[kind]
    schema = _answer_of(files[0], kind, reader.schema_of, files[0])
    labels = row_labels(schema)
    if columns is None:
        names = [name for name in schema.names if name not in labels]
        chosen = [names[place] for place in choose_columns(names, None, path)]
    else:
        _refuse_folder_keys(columns, files, schema.names, path)
        places = choose_columns(
            schema.names,
            columns,
            path,
            is_numeric=lambda place: number_type(schema.field(place).type) is not None,
            everything=[place for place, name in enumerate(schema.names) if name not in labels],
        )
        chosen = [schema.names[place] for place in places]
    numbers_of(schema, chosen, path)  # under the table's own name
    vectors = chosen[0] if len(chosen) == 1 and entry_type(schema.field(chosen[0]).type) is not None else None
    parts: list[FileParts] = [_answer_of(file, kind, reader.survey, file, chosen) for file in files]
    types = {dtype for part in parts for dtype in part.types.values()}
    dtype = common_type(types, nulls=any(part.nulls for part in parts)) if types else np.dtype(np.float64)
    part_nbytes = max(part.part_nbytes for part in parts)
    feature_names, n_entries = tuple(chosen), max(1, len(chosen))
    if vectors is not None:
        n_entries = _length(vectors, schema, files, path)
        feature_names = tuple(f"{vectors}[{entry}]" for entry in range(n_entries))
        part_nbytes *= n_entries if kind == "Arrow" else 1
    pieces = tuple(cut(parts, n_entries * dtype.itemsize, target_nbytes, most_nbytes))
    return TableBlocks(
        path=path if "://" in path else str(Path(path).resolve()),
        kind=kind,
        feature_names=feature_names,
        dtype=dtype,
        pieces=pieces,
        part_nbytes=part_nbytes,
        decodes_per_chunk=max(Counter((piece.file, piece.first) for piece in pieces).values(), default=1),
        vectors=vectors,
    )


def _length(column: str, schema: pa.Schema, files: Sequence[str], path: str) -> int:
    """Number of entries of the vectors in a column; the first row is read for it, if its type does not say it."""
    reader = reader_of(files[0])
    batches = (batch for file in files for batch in reader.batches(file, 0, reader.n_parts(file), [column], 1))
    return length_of_vectors(
        schema.field(column).type, (each.column(column) for each in batches), f"{column!r} of {path}"
    )


def reader_of(file: str) -> ModuleType:
    """The module that reads files of its format."""
    return READERS["Arrow" if file.lower().endswith(ARROW) else "Parquet"]


def whole_columns(files: Sequence[str], names: Sequence[str]) -> list[npt.NDArray[Any]]:
    """Some columns of all rows: numbers, or texts in which None is missing."""
    found: list[list[npt.NDArray[Any]]] = [[] for _ in names]
    for file in files:
        for batch in reader_of(file).batches(file, 0, reader_of(file).n_parts(file), names, 1 << 16):
            for place, name in enumerate(names):
                column = batch.column(name)
                if pa.types.is_dictionary(column.type):
                    column = column.cast(column.type.value_type)
                numbers = number_type(column.type) is not None
                found[place].append(column_values(column) if numbers else np.array(column.to_pylist(), dtype=object))
    return [np.concatenate(each) for each in found]


def _refuse_folder_keys(columns: Sequence[str], files: Sequence[str], names: Sequence[str], path: str) -> None:
    keys = {part.partition("=")[0] for file in files for part in file.split("/")[:-1] if "=" in part}
    for each in columns:
        if each in keys and each not in names:
            raise InvalidInput(
                f"{path}: {each!r} stands in the names of folders ({each}=...), but folder names are not read as "
                "columns. If it should be a column, write it into the files as well."
            )


def _answer_of(file: str, kind: str, ask: Any, *given: Any) -> Any:
    """Call a function on a file, and turn the library's errors into errors of this package."""
    try:
        return ask(*given)
    except (InvalidInput, NotNumbers):
        raise
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError, ValueError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise StorageError(f"{file} cannot be read: {error}. Check that you may read it.") from error
        advice = "Write the table again, or give the file the right ending."
        if kind == "Arrow":
            advice += " Streams of Arrow, as datasets.save_to_disk writes them, are not read: write Parquet."
        raise InvalidInput(f"{file} is not a readable {kind} file ({str(error).rstrip('.')}). {advice}") from error
