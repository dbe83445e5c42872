"""Parquet files: what their footers tell, and their rows a few at a time."""

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from spae_dask.errors import InvalidInput
from spae_dask.storage.tables.arrow_files import numbers_of
from spae_dask.storage.tables.table_files import FileParts, opened

KIND, PART = "Parquet", "row group"

BUFFER_NBYTES = 1 << 18
"""Bytes of a column chunk read at a time."""


def schema_of(file: str) -> pa.Schema:
    """Columns of a file, from its footer."""
    with opened(file) as source:
        return pq.read_schema(source)


def survey(file: str, names: Sequence[str]) -> FileParts:
    """Rows of each row group of a file, and types of some of its columns; nothing but its footer is read.

    Raises
    ------
    InvalidInput
        If the file lacks one of the columns.
    NotNumbers
        If they are no numbers.
    """
    with opened(file) as source:
        footer = pq.read_metadata(source)
    schema = footer.schema.to_arrow_schema()
    lacking = [name for name in names if name not in schema.names]
    if lacking:
        raise InvalidInput(
            f"{file} lacks {len(lacking)} of the {len(names)} columns of the table's first file, such as "
            f"{lacking[0]!r}. All files of a table must have the same columns. Write it again, or choose "
            "columns that all files have."
        )
    types = numbers_of(schema, names, file)
    whole = {name for name, dtype in types.items() if dtype.kind == "f"}
    groups = [footer.row_group(i) for i in range(footer.num_row_groups)]
    rest = {name for name in types if name not in whole and schema.field(name).nullable}
    return FileParts(
        file=file,
        rows=tuple(group.num_rows for group in groups),
        types=types,
        nulls=bool(rest) and any(_may_have_nulls(group, rest) for group in groups),
        part_nbytes=max((_nbytes(group, names, len(schema)) for group in groups), default=0),
    )


def _nbytes(group: Any, names: Sequence[str], n_columns: int) -> int:
    """Bytes of some columns of a row group: of one alone, which may hold vectors; of more, those of columns like it."""
    if len(names) > 1:
        return int(group.total_byte_size) * len(names) // n_columns
    every = (group.column(i) for i in range(group.num_columns))
    return sum(each.total_uncompressed_size for each in every if each.path_in_schema.partition(".")[0] == names[0])


def _may_have_nulls(group: Any, names: set[str]) -> bool:
    for i in range(group.num_columns):
        column = group.column(i)
        if column.path_in_schema in names:
            statistics = column.statistics
            if statistics is None or not statistics.has_null_count or statistics.null_count:
                return True
    return False


def n_parts(file: str) -> int:
    """Row groups of a file."""
    with opened(file) as source:
        return int(pq.read_metadata(source).num_row_groups)


def batches(file: str, first: int, last: int, names: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
    """Rows of the row groups ``first`` to ``last - 1``, at most ``rows`` at a time.

    Column chunks are decoded page by page, so that little more than one batch is held at once.
    """
    with opened(file) as source, pq.ParquetFile(source, pre_buffer=False, buffer_size=BUFFER_NBYTES) as table:
        yield from table.iter_batches(
            batch_size=rows, row_groups=list(range(first, last)), columns=list(names), use_threads=False
        )
