"""What becomes of a checkpoint when its run has ended well."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spae_dask.cli.screen import Screen


def end_checkpoint(checkpoint: str, screen: "Screen", *, keep: bool) -> None:
    """Remove a checkpoint that has served, unless it is to be kept."""
    from spae_dask.storage.checkpoints.checkpoint_record import remove_checkpoint

    if keep:
        screen.note(f"kept               {checkpoint}")
    else:
        remove_checkpoint(checkpoint)
