"""``spae checkpoint``: list the states that runs have stored, and remove them."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from spae_dask.cli.console import command_context
from spae_dask.cli.options.groups import takes_groups
from spae_dask.cli.options.output import ConsoleOptions
from spae_dask.quantities import format_nbytes, format_seconds

if TYPE_CHECKING:
    from spae_dask.storage.checkpoints.checkpoint_summary import CheckpointSummary

app = typer.Typer(
    help="List and remove checkpoints.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)

LS_EXAMPLES = """Examples:

  spae checkpoint ls
  spae checkpoint ls runs/7 --json
"""

RM_EXAMPLES = """Examples:

  spae checkpoint rm runs/7
  spae checkpoint rm runs --older-than 7d --json
"""

SECONDS = {"m": 60, "h": 3600, "d": 86400}


def check_age(given: str | None) -> str | None:
    """Refuse what is no length of time."""
    if given is None or re.fullmatch(r"\d{1,6}[mhd]", given):
        return given
    raise typer.BadParameter(f"{given!r} is not an age. Give a number of minutes, hours or days: 30m, 12h or 7d.")


@app.command("ls", epilog=LS_EXAMPLES)
@takes_groups
def ls(
    *,
    place: Annotated[
        str,
        typer.Argument(metavar="DIR", help="Checkpoint, or folder that contains checkpoints; a path or a URL."),
    ] = ".",
    shown: ConsoleOptions,
) -> None:
    """List checkpoints with their data, parameters, progress, size and age."""
    with command_context("checkpoint ls", shown) as console:
        from spae_dask.errors import InvalidInput, NotFound
        from spae_dask.storage.checkpoints.checkpoint_summary import summarize

        found = []
        for each in places_in(place):
            try:
                found.append(summarize(each))
            except NotFound:
                raise
            except InvalidInput as error:
                if each == place:
                    raise
                console.warn(str(error))
        if not found:
            raise NotFound(f"there is no checkpoint at or below {place}. `spae fit --checkpoint DIR` makes one.")
        console.result("\n\n".join(map(told, found)), {"checkpoints": [each.as_dict() for each in found]})


@app.command("rm", epilog=RM_EXAMPLES)
@takes_groups
def rm(
    *,
    place: Annotated[
        str,
        typer.Argument(
            metavar="DIR",
            help="Checkpoint, or with --older-than a folder of checkpoints; a path or a URL.",
            show_default=False,
        ),
    ],
    older_than: Annotated[
        str | None,
        typer.Option(
            "--older-than",
            metavar="AGE",
            callback=check_age,
            help="Remove only checkpoints whose last write is older than this: 30m, 12h or 7d.",
            show_default=False,
        ),
    ] = None,
    shown: ConsoleOptions,
) -> None:
    """Remove checkpoints, and nothing else."""
    with command_context("checkpoint rm", shown) as console:
        from spae_dask.storage.checkpoints.checkpoint_removal import remove_checkpoint
        from spae_dask.storage.checkpoints.checkpoint_summary import summarize

        doomed = [place]
        if older_than is not None:
            age = int(older_than[:-1]) * SECONDS[older_than[-1]]
            doomed = [each for each in places_in(place) if summarize(each).seconds_old >= age]
        freed = {each: remove_checkpoint(each) for each in doomed}
        lines = [f"removed {each}, {format_nbytes(nbytes)}" for each, nbytes in freed.items()]
        console.result("\n".join(lines) or f"none is older than {older_than}", {"removed": freed})


def places_in(place: str) -> list[str]:
    """The checkpoint at a place; or those directly below one that is none itself."""
    from spae_dask.storage.checkpoints.checkpoint_record import RECORD, states_at

    store = states_at(place)
    try:
        files, folders = store.files(""), store.folders()
    except NotADirectoryError:
        return [place]
    if RECORD in files or not (files or folders or Path(place.removeprefix("file://")).is_dir()):
        return [place]
    return [f"{place.rstrip('/')}/{each}" for each in folders if RECORD in store.files(each)]


def told(each: "CheckpointSummary") -> str:
    """A checkpoint in a few lines."""
    job, age = each.job, each.seconds_old
    old = format_seconds(age)
    parameters = ", ".join(f"{name}={value}" for name, value in job.parameters.items() if value not in (None, False))
    passes = [f"pass      {p.name}: {p.n_done} of {p.n_spans} spans" for p in each.passes]
    return "\n".join(
        [
            f"{each.place}: {job.kind}, {format_nbytes(each.nbytes)}, last written to {old} ago, begun {each.created}",
            f"data      {job.data.get('name')}, {job.data.get('shape')} {job.data.get('dtype')}",
            f"with      {parameters}",
            *passes,
        ]
    )
