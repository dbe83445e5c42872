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
        help="Store finished work in this folder, which all workers must see, or under this URL (s3://...). The same "
        "command given again reads only what is missing, and gives the same bits. The checkpoint is removed when "
        "the output is written.",
        show_default=False,
        rich_help_panel=WHERE,
    ),
]
SharedCheckpointOption = Annotated[
    str,
    typer.Option(
        "--checkpoint",
        metavar="DIR",
        help="Folder in which the parts come together, which all parts must see, or a URL (s3://...).",
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
