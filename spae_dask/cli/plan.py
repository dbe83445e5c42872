"""``spae plan``: what a fit would read, hold and take."""

from typing import TYPE_CHECKING, Annotated

import typer

from spae_dask.cli.console import command_context
from spae_dask.cli.fit import FitGiven
from spae_dask.cli.options.groups import WHERE, takes_groups
from spae_dask.cli.options.target import TargetOptions

if TYPE_CHECKING:
    from spae_dask.passes.plan import Plan, Resources

EXAMPLES = """Examples:

  spae plan X.zarr -k 10 -r 12
  spae plan X.zarr -k 10 -r 12 --no-calibrate
  spae plan X.zarr -k 10 -r 12 --cluster local:4 --memory 2GB || echo "too large"
"""


@takes_groups
def plan(
    *,
    given: FitGiven,
    calibrate: Annotated[
        bool,
        typer.Option(
            "--calibrate/--no-calibrate",
            help="Measure rates on a few blocks, or use nominal rates and read nothing.",
            rich_help_panel=WHERE,
        ),
    ] = True,
    where: TargetOptions,
) -> None:
    """Show the passes, memory and time of a fit, and of each other strategy.

    Takes the options of `spae fit`. Bytes and memory come from metadata. To
    estimate times, the command reads at most 64 MiB of DATA (or one block) and runs
    the arithmetic on them. This takes about a second. If the fit does not fit the
    memory, the command exits with 4 and names the options that fit.
    """
    with command_context("plan", given.shown, strict=given.strict) as console:
        source = given.open()
        place = where.place(given.memory)

        def planned(resources: "Resources | None", *, calibrated: bool = False) -> "Plan":
            return given.plan(source, calibrate=calibrated, resources=resources)

        place = place.sized(source, [planned])
        with place.planned_resources(source, console) as resources:
            found = planned(resources, calibrated=calibrate)
        found, request = place.named(found, source), place.request()
        text = "\n".join([str(found), *([] if request is None else [f"request   {request}"])])
        console.result(text, {"data": given.data, "plan": found.as_dict(), "request": request})
