"""``spae clean``: remove what killed commands left behind."""

from pathlib import Path
from typing import Annotated

import typer

from spae_dask.cli.console import command_context
from spae_dask.cli.options.groups import takes_groups
from spae_dask.cli.options.output import ConsoleOptions
from spae_dask.quantities import format_nbytes

EXAMPLES = """Examples:

  spae clean results --dry-run
  spae clean results --json
"""


@takes_groups
def clean(
    *,
    folder: Annotated[
        str, typer.Argument(metavar="FOLDER", help="Folder of outputs. The command also searches the folders below it.")
    ] = ".",
    dry_run: Annotated[bool, typer.Option("--dry-run", "-n", help="List leftovers and remove nothing.")] = False,
    shown: ConsoleOptions,
) -> None:
    """Remove what killed commands left: unfinished outputs in FOLDER, and scratch folders of clusters.

    A leftover is removed if it has a lock file of spae_dask and no process holds
    that lock. Scratch folders of clusters lie in the temporary folder of the
    system. Links are not followed, and files of other users stay.
    """
    with command_context("clean", shown) as console:
        from spae_dask.errors import NotFound
        from spae_dask.leftovers import clear, find_below

        if not Path(folder).is_dir():
            raise NotFound(
                f"{folder} is not a folder on this machine. Give the folder that the outputs were written to."
            )
        found = [clear(work, dry_run=dry_run) for work in find_below(Path(folder))]
        gone, left = [[each for each in found if each.removable is wanted] for wanted in (True, False)]
        nbytes = sum(each.nbytes for each in gone)
        done = "would remove" if dry_run else "removed"
        lines = [f"{done} {each.path}, {format_nbytes(each.nbytes)}: {each.why}" for each in gone]
        lines += [f"left {each.path}, {format_nbytes(each.nbytes)}: {each.why}" for each in left]
        lines.append(f"{done} {len(gone)} leftover{'' if len(gone) == 1 else 's'}, {format_nbytes(nbytes)}")
        document = {
            "folder": folder,
            "dry_run": dry_run,
            "nbytes": nbytes,
            "removed": [each.as_dict() for each in gone],
            "left": [each.as_dict() for each in left],
        }
        console.result("\n".join(lines), document)
