"""``spae transform``: the codes of all rows, written to a Zarr array."""

from typing import Annotated

import typer

from spae_dask.cli.console import command_context
from spae_dask.cli.options.data import DataArgument, EncoderArgument, StrictOption, WhichData
from spae_dask.cli.options.groups import OUTPUT, takes_groups
from spae_dask.cli.options.output import ConsoleOptions, ForceOption
from spae_dask.cli.options.parameters import RowsCovariates
from spae_dask.cli.options.target import MemoryOption, PerformanceOption, TargetOptions
from spae_dask.plain_files import in_shell

EXAMPLES = """Examples:

  spae transform X.zarr ENC.zarr -o CODES.zarr
  spae transform X.zarr ENC.zarr -o CODES.zarr --force --cluster local:8
"""


@takes_groups
def transform(
    *,
    data: DataArgument,
    encoder: EncoderArgument,
    output: Annotated[
        str,
        typer.Option(
            "-o",
            "--output",
            metavar="CODES",
            help="Zarr array for the codes: a row for each row of DATA, a column for each component.",
            show_default=False,
            rich_help_panel=OUTPUT,
        ),
    ],
    which: WhichData,
    beside: RowsCovariates,
    strict: StrictOption = False,
    where: TargetOptions,
    performance_report: PerformanceOption = None,
    memory: MemoryOption = None,
    force: ForceOption = False,
    shown: ConsoleOptions,
) -> None:
    """Write the codes of all rows of DATA to a Zarr array.

    Every chunk is read back after writing and compared. The array appears only when
    it is complete.
    """
    with command_context("transform", shown, strict=strict) as console:
        from spae_dask.cli.performance import wanted_report
        from spae_dask.cli.target import check_paths
        from spae_dask.estimators.saved import in_order, load_encoder
        from spae_dask.estimators.writing import transform_to_zarr

        page = wanted_report(performance_report, output)
        check_paths(output, [data, encoder], force=force)
        with in_order(data, encoder, f"Use `spae transform {in_shell(encoder)} {in_shell(data)}`."):
            fitted = load_encoder(encoder)
        source = which.open(data, memory, console, fitted)
        with where.place(memory, page).ready(source, console):
            written = transform_to_zarr(
                source,
                fitted,
                output,
                **beside.parameters,
                overwrite=force,
                memory_limit=memory,
                progress=console.progress,
            )
        console.result(f"wrote {written.describe()}", {"data": data, "encoder": encoder, "codes": written.as_dict()})
