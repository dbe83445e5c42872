"""``spae run``: the steps of a pipeline, those that need to."""

import shlex
from typing import TYPE_CHECKING, Annotated

import typer

from spae_dask.cli import options
from spae_dask.cli.session import session

if TYPE_CHECKING:
    from spae_dask.pipelines.runner import Outcome

EXAMPLES = """Examples:

  spae run pipelines/paper.toml --dry-run
  spae run pipelines/paper.toml --output results
  spae run pipeline.toml --cluster tcp://10.0.0.5:8786 --json > run.json
"""


def run(
    pipeline: Annotated[
        str, typer.Argument(metavar="PIPELINE", help="A pipeline: steps in a TOML file.", show_default=False)
    ],
    output: Annotated[
        str | None,
        typer.Option(
            "-o",
            "--output",
            metavar="DIR",
            help="Folder for all results, in place of the one that PIPELINE names.",
            show_default=False,
            rich_help_panel=options.OUTPUT,
        ),
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            "-n",
            help="Check everything, say which steps would run and what each fit would take; run and write nothing.",
            rich_help_panel=options.OUTPUT,
        ),
    ] = False,
    force: Annotated[
        bool,
        typer.Option(
            "--force",
            "-f",
            help="Run all steps, also those that are up to date, and replace files that no run wrote.",
            rich_help_panel=options.OUTPUT,
        ),
    ] = False,
    strict: options.StrictOption = False,
    cluster: options.ClusterOption = None,
    tls_dir: options.TlsDirOption = None,
    memory: options.MemoryOption = None,
    as_json: options.JsonOption = False,
    quiet: options.QuietOption = False,
    verbose: options.VerboseOption = 0,
    debug: options.DebugOption = False,
    log_json: options.LogJsonOption = False,
) -> None:
    """Run the steps of PIPELINE, except those whose outputs are up to date.

    A step runs again if its parameters or anything it depends on has changed.
    After a failure or an interrupt, the next run goes on with the step that was
    not finished.
    """
    with session(
        "run", as_json=as_json, quiet=quiet, verbose=verbose, debug=debug, log_json=log_json, strict=strict
    ) as screen:
        from spae_dask.cli.held_place import HeldPlace
        from spae_dask.cli.performance import NO_REPORT, wanted_report
        from spae_dask.cli.pipeline_memory import place_for
        from spae_dask.cli.place import Place, tell_request
        from spae_dask.pipelines.dry_run import dry_run as try_pipeline
        from spae_dask.pipelines.pipeline import read_pipeline
        from spae_dask.pipelines.runner import run_pipeline
        from spae_dask.pipelines.work import Machinery

        found = read_pipeline(pipeline, output=output)
        outcomes: list[Outcome] = []
        screen.document |= {"pipeline": pipeline, "output": str(found.output), "dry_run": dry_run, "steps": []}

        def tell(outcome: "Outcome") -> None:
            outcomes.append(outcome)
            screen.document["steps"].append(outcome.as_dict())
            if outcome.text and not dry_run:
                screen.result(outcome.text, {})

        page = NO_REPORT if dry_run else wanted_report(None)
        place = place_for(found, Place(cluster, memory, tls_dir, page))
        tell_request(place, screen)
        with HeldPlace(place, screen) as where:
            if dry_run:
                try:
                    try_pipeline(found, where, force=force, tell=tell)
                finally:
                    screen.result(table(outcomes), {})
            else:
                run_pipeline(found, Machinery(where, screen.progress, screen.note), force=force, tell=tell)
        if not dry_run:
            screen.note(f"\n{table(outcomes)}\nresults   {shlex.quote(str(found.output))}")


def table(outcomes: "list[Outcome]") -> str:
    """A line a step; of steps that are yet to run, why they would and what they would take."""
    width = max((len(each.name) for each in outcomes), default=0)
    lines = []
    for each in outcomes:
        note = f"{each.seconds:.1f} s" if each.status in ("ran", "failed", "interrupted") else each.reason
        lines.append(f"{each.name:<{width}}  {each.kind:<9}  {each.status:<11}  {note}")
        if each.status == "to run" and each.text:
            lines.append(f"{'':<{width}}  {each.text}")
    return "\n".join(lines)
