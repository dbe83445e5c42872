"""``spae fit-part``: one part of a fit that an array of jobs does, without a scheduler."""

import re
import shlex
from typing import Annotated

import typer

from spae_dask.cli.console import command_context
from spae_dask.cli.fit import FitGiven
from spae_dask.cli.options.groups import takes_groups
from spae_dask.cli.options.output import SharedCheckpointOption

EXAMPLES = """Examples:

  spae fit-part 1/2 X.zarr -k 10 -r 12 --checkpoint shared/run
  spae fit-part 2/2 X.zarr -k 10 -r 12 --checkpoint shared/run
  spae fit-finish   X.zarr -k 10 -r 12 --checkpoint shared/run -o ENC.zarr --json
"""

MOST_PARTS = 4096
"""No pass has more spans."""


def check_part(given: str) -> str:
    """Refuse what is no part of a whole."""
    found = re.fullmatch(r"(\d{1,9})/(\d{1,9})", given)
    if found and 1 <= int(found[1]) <= int(found[2]) <= MOST_PARTS:
        return given
    raise typer.BadParameter(
        f"{given!r} is not a part. Give I/N, such as 3/8, with I from 1 to N and N at most {MOST_PARTS}."
    )


PartArgument = Annotated[
    str,
    typer.Argument(
        metavar="I/N", callback=check_part, help="Part to run and number of parts: 1/N to N/N.", show_default=False
    ),
]


@takes_groups
def fit_part(*, part: PartArgument, given: FitGiven, checkpoint: SharedCheckpointOption) -> None:
    """Reduce part I of N of DATA into a shared checkpoint, for `spae fit-finish`.

    Use it in job arrays. Parts need no scheduler, and share nothing but the folder.
    Each part is a process with threads. Parts may run in any order, at once, or
    again: stored work is not read twice.

    A fit of several passes (see `spae plan`) runs in rounds, because a pass begins
    when the one before it is complete. Run all parts once for every pass, then
    fit-finish. The data decide how many rounds a sample takes, or a sketch to --eps
    or --keep. While one more round is needed, fit-finish ends with 75.

    A part ends with 0 when its share of the current pass is done, also if it was
    done before. A job that a scheduler starts again does only the rest.
    """
    with command_context("fit-part", given.shown, strict=given.strict) as console:
        given.check()
        from spae_dask.cli.target import Target, check_checkpoint
        from spae_dask.estimators.checkpointing import CheckpointAt, listed
        from spae_dask.estimators.checkpointing import fit_part as make_part
        from spae_dask.estimators.sparse_encoder import SparseEncoder
        from spae_dask.passes.checkpoint import ArrayPart

        check_checkpoint(checkpoint, given.data)
        source = given.open(console)
        number, of = map(int, part.split("/"))
        mine = ArrayPart(number, of)
        at = CheckpointAt(checkpoint, mine)
        with Target("none", given.memory).ready(source, console):
            encoder = SparseEncoder(**given.fitted, checkpoint=at, progress=console.progress)
            done = make_part(encoder, source, mine)
        lacking = done.lacking
        if lacking is None:
            text = f"part {part} is done, and all passes are whole"
        else:
            how = "is done" if lacking.n_swept or not mine.spans(lacking.n_spans) else "was done before"
            text = (
                f"part {part} of pass {lacking.number} ({lacking.name}) {how}; {len(lacking.missing)} of "
                f"{lacking.n_spans} spans are missing, of {listed(done.missing)}"
            )
        console.result(
            text,
            {
                "data": given.data,
                "checkpoint": checkpoint,
                "part": part,
                "whole": lacking is None,
                "pass": None if lacking is None else lacking.number,
                "missing_parts": done.missing,
            },
        )
        if done.missing:
            console.note(f"others    {command_of_parts(given, checkpoint)}")
        console.note(f"next      {command_of_finish(given, checkpoint)}")


def command_of_parts(given: FitGiven, checkpoint: str, part: str = "I/N") -> str:
    """The command that does a part."""
    return f"spae fit-part {part} {given.words()} --checkpoint {shlex.quote(checkpoint)}"


def command_of_finish(given: FitGiven, checkpoint: str) -> str:
    """The command that puts the parts together."""
    return f"spae fit-finish {given.words()} --checkpoint {shlex.quote(checkpoint)} -o ENC.zarr"
