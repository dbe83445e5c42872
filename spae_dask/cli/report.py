"""``spae report``: an encoder as a page to look at, to print and to send."""

from pathlib import Path
from typing import Annotated

import typer

from spae_dask.cli.console import command_context
from spae_dask.cli.options.data import EncoderArgument, StrictOption, WhichData
from spae_dask.cli.options.groups import OUTPUT, takes_groups
from spae_dask.cli.options.output import ConsoleOptions, ForceOption
from spae_dask.cli.options.target import MemoryOption, TargetOptions
from spae_dask.plain_files import in_shell
from spae_dask.quantities import format_nbytes

EXAMPLES = """Examples:

  spae report ENC.zarr -o report.html
  spae report ENC.zarr -o report.html --data X.zarr
  spae path X.zarr -k 5 -r 5,10,20 -o path.csv && spae report ENC.zarr -o report.html --path path.csv
"""

CURVE = "Loss against sparsity"


@takes_groups
def report(
    *,
    encoder: EncoderArgument,
    output: Annotated[
        str,
        typer.Option(
            "-o",
            "--output",
            metavar="FILE.html",
            help="HTML page to write. It needs no other file.",
            show_default=False,
            rich_help_panel=OUTPUT,
        ),
    ],
    path: Annotated[
        str | None,
        typer.Option(
            "--path",
            metavar="FILE",
            help="Losses at other sizes: the .csv of `spae path -o`, or the .json of `spae path --json`.",
            show_default=False,
            rich_help_panel=CURVE,
        ),
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(
            "--data",
            metavar="DATA",
            help="Data for losses at other sizes, read in one pass, or two for thousands of features.",
            show_default=False,
            rich_help_panel=CURVE,
        ),
    ] = None,
    which: WhichData,
    strict: StrictOption = False,
    where: TargetOptions,
    memory: MemoryOption = None,
    force: ForceOption = False,
    shown: ConsoleOptions,
) -> None:
    """Write a page about an encoder: certificate, figures, features, provenance.

    The command reads the encoder alone. The encoder stores its losses at other
    sizes if they took no time to compute. Otherwise --path or --data adds them.
    """
    with command_context("report", shown, strict=strict) as console:
        if not output.endswith((".html", ".htm")):
            raise typer.BadParameter(f"{output!r} does not end in .html", param_hint="'-o'")
        if path is not None and data is not None:
            raise typer.BadParameter(
                "give only one: losses that `spae path` wrote, or data to compute them from.",
                param_hint="'--path' / '--data'",
            )
        if data is None and which != WhichData():
            raise typer.BadParameter(
                "these options choose a part of --data, which is not given.",
                param_hint="'--array' / '--columns' / '--mask' / '--where'",
            )
        from spae_dask.cli.target import check_paths
        from spae_dask.estimators.reporting import curve_from_data, write_report
        from spae_dask.estimators.saved import in_order, load_encoder
        from spae_dask.report import html as _html  # noqa: F401 - first, since the libraries it needs may be missing
        from spae_dask.report.path_file import origin_of, read_path

        check_paths(output, [encoder, *(each for each in (path, data) if each is not None)], force=force)
        given = encoder if data is None else data
        with in_order(given, encoder, f"Use `spae report {in_shell(given)} --data {in_shell(encoder)}`."):
            fitted = load_encoder(encoder)
        curve, origin = None, ""
        if path is not None:
            curve, origin = read_path(path, fitted.n_components_), origin_of(path, output)
        elif data is not None:
            source = which.open(data, memory, console, fitted)
            with where.place(memory).ready(source, console):
                curve, origin = curve_from_data(fitted, source, memory_limit=memory, progress=console.progress)
        write_report(fitted, encoder, output, curve=curve, origin=origin, overwrite=force)
        known = curve is not None or fitted.curve() is not None
        console.result(
            f"report    {output}, {format_nbytes(Path(output).stat().st_size)}",
            {"encoder": encoder, "report": output, "curve": known},
        )
        if not known:
            console.note("curve     losses at other sizes are not known; --data DATA computes them")
