"""``spae run``: the steps of a pipeline, those that need to."""

import shlex
from typing import TYPE_CHECKING, Annotated

import typer

from spae_dask.cli.console import command_context
from spae_dask.cli.options.data import PipelineArgument, StrictOption
from spae_dask.cli.options.groups import OUTPUT, takes_groups
from spae_dask.cli.options.output import ConsoleOptions
from spae_dask.cli.options.target import MemoryOption, TargetOptions
from spae_dask.quantities import format_seconds

if TYPE_CHECKING:
    from spae_dask.pipelines.runner import Outcome

EXAMPLES = """Examples:

  spae run pipelines/paper.toml --dry-run
  spae run pipelines/paper.toml --output results
  spae run pipeline.toml --cluster tcp://10.0.0.5:8786 --json > run.json
"""


@takes_groups
def run(
    *,
    pipeline: PipelineArgument,
    output: Annotated[
        str | None,
        typer.Option(
            "-o",
            "--output",
            metavar="DIR",
            help="Folder for all results. Default: the one that PIPELINE names.",
            show_default=False,
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            "-n",
            help="Check everything, list the steps that would run and the cost of each fit, and write nothing.",
            rich_help_panel=OUTPUT,
        ),
    ] = False,
    force: Annotated[
        bool,
        typer.Option(
            "--force",
            "-f",
            help="Run all steps, even those that are up to date, and replace files of other origin.",
            rich_help_panel=OUTPUT,
        ),
    ] = False,
    strict: StrictOption = False,
    where: TargetOptions,
    memory: MemoryOption = None,
    shown: ConsoleOptions,
) -> None:
    """Run the steps of PIPELINE, except those whose outputs are up to date.

    A step runs again if its parameters or any of its inputs have changed. After a
    failure or an interrupt, the next run resumes with the unfinished step.
    """
    with command_context("run", shown, strict=strict) as console:
        from spae_dask.cli.performance import NO_REPORT, wanted_report
        from spae_dask.cli.pipeline_memory import place_for
        from spae_dask.cli.target import HeldTarget, report_request
        from spae_dask.pipelines.pipeline import read_pipeline
        from spae_dask.pipelines.runner import dry_run as try_pipeline
        from spae_dask.pipelines.runner import run_pipeline
        from spae_dask.pipelines.work import Machinery

        found = read_pipeline(pipeline, output=output)
        outcomes: list[Outcome] = []
        console.document |= {"pipeline": pipeline, "output": str(found.output), "dry_run": dry_run, "steps": []}

        def tell(outcome: "Outcome") -> None:
            outcomes.append(outcome)
            console.document["steps"].append(outcome.as_dict())
            if outcome.text and not dry_run:
                console.result(outcome.text, {})

        page = NO_REPORT if dry_run else wanted_report(None)
        place = place_for(found, where.place(memory, page))
        report_request(place, console)
        with HeldTarget(place, console) as held:
            if dry_run:
                try:
                    try_pipeline(found, held, force=force, tell=tell)
                finally:
                    console.result(table(outcomes), {})
            else:
                run_pipeline(found, Machinery(held, console.progress, console.note), force=force, tell=tell)
        if not dry_run:
            console.note(f"\n{table(outcomes)}\nresults   {shlex.quote(str(found.output))}")


def table(outcomes: "list[Outcome]") -> str:
    """A line a step; of steps that are yet to run, why they would and what they would take."""
    width = max((len(each.name) for each in outcomes), default=0)
    lines = []
    for each in outcomes:
        note = format_seconds(each.seconds) if each.status in ("ran", "failed", "interrupted") else each.reason
        lines.append(f"{each.name:<{width}}  {each.kind:<9}  {each.status:<11}  {note}")
        if each.status == "to run" and each.text:
            lines.append(f"{'':<{width}}  {each.text}")
    return "\n".join(lines)
