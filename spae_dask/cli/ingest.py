"""``spae ingest``: other formats, or badly chunked stores, to a Zarr array that reads fast."""

from enum import StrEnum
from typing import Annotated

import typer

from spae_dask.cli.console import command_context
from spae_dask.cli.options.data import WhichColumns, columns_of
from spae_dask.cli.options.groups import DATA, OUTPUT, WHERE, takes_groups
from spae_dask.cli.options.output import ConsoleOptions, ForceOption
from spae_dask.cli.options.target import check_memory
from spae_dask.plain_files import in_shell

EXAMPLES = """Examples:

  spae ingest table.csv X.zarr
  spae ingest table.csv X.zarr --columns 'age,expr_*'
  spae ingest matrix.npy X.zarr --dtype float32
  spae ingest badly_chunked.zarr X.zarr --codec zstd-bitshuffle
  spae ingest cells.h5ad X.zarr --array layers/counts
  spae ingest air.nc X.zarr --variable air --sample-dim time
"""


class Codec(StrEnum):
    """Compression of chunks."""

    lz4_shuffle = "lz4-shuffle"
    lz4_bitshuffle = "lz4-bitshuffle"
    zstd_bitshuffle = "zstd-bitshuffle"
    none = "none"


@takes_groups
def ingest(
    *,
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE",
            help="An .npy, .h5ad, .h5, .bed, .pgen, .csv, .tsv (.gz), Parquet, Arrow or netCDF file, or Zarr.",
            show_default=False,
        ),
    ],
    destination: Annotated[str, typer.Argument(metavar="DESTINATION", help="Zarr array to write.", show_default=False)],
    which: WhichColumns,
    header: Annotated[
        bool | None,
        typer.Option(
            "--header/--no-header",
            help="Take the first row of a text file as names, or as numbers. By default it must hold names.",
            show_default=False,
            rich_help_panel=DATA,
        ),
    ] = None,
    variable: Annotated[
        str | None,
        typer.Option(
            "--variable",
            metavar="NAME",
            help="Variable of a netCDF file or a Zarr dataset. Needed if more than one fits.",
            show_default=False,
            rich_help_panel=DATA,
        ),
    ] = None,
    dtype: Annotated[
        str | None,
        typer.Option(
            "--dtype",
            metavar="TYPE",
            help="Type of the entries to write, such as float32. Default: the type in SOURCE.",
            rich_help_panel=DATA,
        ),
    ] = None,
    chunks: Annotated[
        tuple[int, int] | None,
        typer.Option(
            "--chunks",
            metavar="ROWS COLUMNS",
            help="Rows and columns of a chunk. Default: all columns, about 8 MiB.",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    codec: Annotated[
        Codec | None,
        typer.Option(
            "--codec",
            metavar="NAME",
            help="Codec: lz4-shuffle, lz4-bitshuffle, zstd-bitshuffle or none. The default depends on the type.",
            show_default=False,
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    memory: Annotated[
        str | None,
        typer.Option(
            "--memory",
            metavar="BYTES",
            callback=check_memory,
            help="Memory limit of this process, such as 2GB. Default: 256 MiB besides the program itself.",
            show_default=False,
            rich_help_panel=WHERE,
        ),
    ] = None,
    force: ForceOption = False,
    shown: ConsoleOptions,
) -> None:
    """Write SOURCE as a Zarr array with chunks and a codec for fast reading of rows.

    SOURCE is read once. A grid with cells that have no data is read twice, and
    those cells are left out. The written array is read back and compared. It
    appears only when it is complete. A sparse SOURCE stays sparse.
    """
    with command_context("ingest", shown) as console:
        from spae_dask.cli.target import check_paths
        from spae_dask.estimators.runtime import parse_memory
        from spae_dask.passes.memory import refuse_tiny
        from spae_dask.storage.ingesting.ingest import BUDGET
        from spae_dask.storage.ingesting.ingest import ingest as ingest_matrix

        check_paths(destination, [source], force=force)
        limit = parse_memory(memory)
        console.progress.begin("ingest")
        report = ingest_matrix(
            source,
            destination,
            chunks=chunks,
            codec=None if codec is None else codec.value,
            array=which.array,
            columns=columns_of(which.columns),
            mask=which.mask,
            dtype=dtype,
            header=header,
            variable=variable,
            sample_dim=which.sample_dim,
            decode=not which.raw,
            overwrite=force,
            budget=BUDGET if limit is None else refuse_tiny(limit),
            watch=console.progress.stand_at,
        )
        console.progress.end()
        console.result(report.describe(), {"source": source, "destination": destination, "ingest": report.as_dict()})
        console.note(f"next     spae check {in_shell(destination)}")
