"""``spae demo``: a real hyperspectral image from raw file to report."""

from typing import Annotated

import typer

from spae_dask.cli.console import command_context
from spae_dask.cli.options.groups import OUTPUT, takes_groups
from spae_dask.cli.options.output import ConsoleOptions


@takes_groups
def demo(
    *,
    output: Annotated[
        str,
        typer.Option("-o", "--output", metavar="DIR", help="Folder for all files.", rich_help_panel=OUTPUT),
    ] = "spae-demo",
    force: Annotated[
        bool,
        typer.Option(
            "--force",
            "-f",
            help="Write into DIR even if it contains other files. Only files of the same names are replaced.",
            rich_help_panel=OUTPUT,
        ),
    ] = False,
    shown: ConsoleOptions,
) -> None:
    """Try spae on a real hyperspectral image, from raw file to report, in under a minute.

    The demo shows each step as the command that does it. It needs `pip install
    "spae-dask[demo]"`. An earlier demo in DIR is replaced.
    """
    with command_context("demo", shown) as console:
        from spae_dask.cli.demo_steps import run_demo

        outcome = run_demo(output, force=force, say=console.note)
        console.result(outcome.describe(), outcome.as_dict())
