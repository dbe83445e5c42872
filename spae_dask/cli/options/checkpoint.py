"""Options that keep the work done, so that a later run can resume it."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from spae_dask.cli.options.groups import WHERE

if TYPE_CHECKING:
    from spae_dask.cli.console import Console


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
