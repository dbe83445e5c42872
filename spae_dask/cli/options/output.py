"""Options for the output, and for overwriting it."""

from typing import Annotated

import typer

from spae_dask.cli.options.groups import OUTPUT

ForceOption = Annotated[
    bool, typer.Option("--force", "-f", help="Replace the output if it exists.", rich_help_panel=OUTPUT)
]
_ENCODER = typer.Option(
    "-o",
    "--output",
    metavar="ENCODER",
    help="Zarr group that the encoder is written to.",
    show_default=False,
    rich_help_panel=OUTPUT,
)
EncoderOutput = Annotated[str, _ENCODER]
MaybeEncoderOutput = Annotated[str | None, _ENCODER]
