"""Arrow IPC files (Feather, version 2): their metadata, and their rows a record batch at a time."""

from collections.abc import Iterator, Sequence

import pyarrow as pa

from spae_dask.storage.tables.arrow_numbers import numbers_of
from spae_dask.storage.tables.table_files import opened
from spae_dask.storage.tables.table_parts import FileParts

KIND, PART = "Arrow", "record batch"


def schema_of(file: str) -> pa.Schema:
    """Columns of a file."""
    with opened(file) as source, pa.ipc.open_file(source) as table:
        return table.schema


def survey(file: str, names: Sequence[str]) -> FileParts:
    """Rows of each record batch of a file, and types of some of its columns.

    The format has no row counts in one place: of each batch the smallest of those columns is read for them. Nor does it
    say beforehand whether there are nulls, so columns that may have some count as if they had.

    Raises
    ------
    NotNumbers
        If they are no numbers.
    """
    schema = schema_of(file)
    types = numbers_of(schema, names, file)
    smallest = min(names, key=lambda name: types[name].itemsize)
    alone = pa.ipc.IpcReadOptions(included_fields=[schema.get_field_index(smallest)])
    with opened(file) as source, pa.ipc.open_file(source, options=alone) as table:
        rows = tuple(table.get_batch(i).num_rows for i in range(table.num_record_batches))
    return FileParts(
        file=file,
        rows=rows,
        types=types,
        nulls=any(schema.field(name).nullable for name in names),
        part_nbytes=max(rows, default=0) * sum(dtype.itemsize for dtype in types.values()),
    )


def batches(file: str, first: int, last: int, names: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
    """Rows of the record batches ``first`` to ``last - 1``, at most ``rows`` at a time; a batch is decoded whole."""
    fields = schema_of(file)
    chosen = pa.ipc.IpcReadOptions(included_fields=[fields.get_field_index(name) for name in names], use_threads=False)
    with opened(file) as source, pa.ipc.open_file(source, options=chosen) as table:
        for number in range(first, last):
            batch = table.get_batch(number)
            for start in range(0, batch.num_rows, rows):
                yield batch.slice(start, rows)
