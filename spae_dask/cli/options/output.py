"""Options for what a command writes: its output, the checkpoint of its work, and the console."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from spae_dask.cli.options.groups import OUTPUT, SCREEN, WHERE

if TYPE_CHECKING:
    from spae_dask.cli.console import Console

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


CheckpointOption = Annotated[
    str | None,
    typer.Option(
        "--checkpoint",
        metavar="DIR",
        help="Folder or URL (s3://...) for finished work, seen by all workers. The same command resumes from it.",
        show_default=False,
        rich_help_panel=WHERE,
    ),
]
SharedCheckpointOption = Annotated[
    str,
    typer.Option(
        "--checkpoint",
        metavar="DIR",
        help="Folder or URL (s3://...) that all parts see and in which their results come together.",
        show_default=False,
        rich_help_panel=WHERE,
    ),
]
KeepCheckpointOption = Annotated[
    bool,
    typer.Option("--keep-checkpoint", help="Keep the checkpoint after the output is written.", rich_help_panel=WHERE),
]


@dataclass(frozen=True)
class Checkpoint:
    """Checkpoint of a run: its location, and the time it is kept for."""

    checkpoint: CheckpointOption = None
    keep_checkpoint: KeepCheckpointOption = False

    def end(self, console: "Console") -> None:
        """Remove what has served, unless it is to be kept."""
        from spae_dask.storage.checkpoints.checkpoint_removal import end_checkpoint

        if self.checkpoint is None:
            return
        if self.keep_checkpoint:
            console.note(f"kept               {self.checkpoint}")
        else:
            end_checkpoint(self.checkpoint)


JsonOption = Annotated[
    bool,
    typer.Option("--json", help="Print one JSON object to stdout and nothing else.", rich_help_panel=SCREEN),
]
QuietOption = Annotated[
    bool, typer.Option("--quiet", "-q", help="Print only the result, warnings and errors.", rich_help_panel=SCREEN)
]
VerboseOption = Annotated[
    int,
    typer.Option(
        "--verbose",
        "-v",
        count=True,
        help="Log events to stderr and show the full certificate. -vv logs everything.",
        show_default=False,
        rich_help_panel=SCREEN,
    ),
]
DebugOption = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.", rich_help_panel=SCREEN)]
LogJsonOption = Annotated[
    bool,
    typer.Option(
        "--log-json",
        help="Write progress, notes, logs, warnings and errors to stderr as JSON, one object per line.",
        rich_help_panel=SCREEN,
    ),
]


@dataclass(frozen=True)
class ConsoleOptions:
    """Options that all verbs share."""

    as_json: JsonOption = False
    quiet: QuietOption = False
    verbose: VerboseOption = 0
    debug: DebugOption = False
    log_json: LogJsonOption = False
