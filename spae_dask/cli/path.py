"""``spae path``: loss against sparsity, for every k and r, from one read."""

from typing import Annotated

import typer

from spae_dask.cli.console import command_context
from spae_dask.cli.options.data import DataArgument, StrictOption, WhichData
from spae_dask.cli.options.groups import OUTPUT, WHAT, takes_groups
from spae_dask.cli.options.output import Checkpoint, ConsoleOptions, ForceOption
from spae_dask.cli.options.parameters import Building, MissingEntries, numbers_in
from spae_dask.cli.options.target import MemoryOption, PerformanceOption, TargetOptions
from spae_dask.strategies.parameters import OF_ROWS, Counts

EXAMPLES = """Examples:

  spae path X.zarr -k 2,5,10 -r 5,10,20,40
  spae path X.zarr -k 5 -r 5,10,20 -o path.csv
  spae path X.zarr -k 5 -r 5,10,20 -o path.png
  spae path X.zarr -k 2,5,10 -r 5,10,20 --folds 5
"""


def check_counts(given: str | None) -> str | None:
    """Refuse what is no list of counts."""
    if given is not None and (wrong := Counts().wrong(numbers_in(given, Counts()))) is not None:
        raise typer.BadParameter(f"{given} is not allowed: {wrong}")
    return given


@takes_groups
def path(
    *,
    data: DataArgument,
    components: Annotated[
        str,
        typer.Option(
            "-k",
            "--components",
            metavar="K,K,...",
            callback=check_counts,
            help="Numbers of components, with commas between.",
            show_default=False,
            rich_help_panel=WHAT,
        ),
    ],
    nonzeros: Annotated[
        str,
        typer.Option(
            "-r",
            "--nonzeros",
            metavar="R,R,...",
            callback=check_counts,
            help="Largest numbers of features of a component, with commas between.",
            show_default=False,
            rich_help_panel=WHAT,
        ),
    ],
    output: Annotated[
        str | None,
        typer.Option(
            "-o",
            "--output",
            metavar="FILE",
            help="Also write the table (.csv) or a figure of it (.png, .svg).",
            show_default=False,
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    building: Building,
    which: WhichData,
    strict: StrictOption = False,
    missing: MissingEntries,
    kept: Checkpoint,
    where: TargetOptions,
    performance_report: PerformanceOption = None,
    memory: MemoryOption = None,
    force: ForceOption = False,
    shown: ConsoleOptions,
) -> None:
    """Compute loss, symmetric variance and features used for every K and R.

    DATA are read once in all, or twice if they have thousands of features.
    """
    with command_context("path", shown, strict=strict) as console:
        from spae_dask.cli.performance import wanted_report
        from spae_dask.cli.target import check_checkpoint, check_paths
        from spae_dask.estimators.covariates import columns_beside
        from spae_dask.estimators.paths import fit_path

        if output is not None:
            if not output.endswith((".csv", ".png", ".svg")):
                raise typer.BadParameter(
                    f"{output} has none of the endings .csv, .png and .svg. Give one of them.", param_hint="'-o'"
                )
            check_paths(output, [data], force=force)
        check_checkpoint(kept.checkpoint, data, output)
        ks, rs = ([int(each) for each in text.split(",")] for text in (components, nonzeros))
        beside = columns_beside(*(missing.parameters[name] for name in OF_ROWS))
        source = which.open(data, memory, console, beside=beside)
        with where.place(memory, wanted_report(performance_report, output)).ready(source, console):
            found = fit_path(
                source,
                ks,
                rs,
                **building.parameters,
                **missing.parameters,
                memory_limit=memory,
                checkpoint=kept.checkpoint,
                progress=console.progress,
            )
        if output is not None:
            write(found, output, force=force)
        method = building.parameters["method"]
        console.result(str(found), {"data": data, **found.as_dict(), "method": method})
        if output is not None:
            console.note(f"wrote {output}")
        kept.end(console)


def write(found: object, output: str, *, force: bool) -> None:
    """Write the table or its figure, which appears only when it is complete."""
    from spae_dask.storage.writing.json_and_csv import write_csv
    from spae_dask.strategies.path import SparsityPath

    assert isinstance(found, SparsityPath)
    if output.endswith(".csv"):
        write_csv(found.records(), output, overwrite=force)
    else:
        from spae_dask.report.figures import path_figure, save_figure

        save_figure(path_figure(found), output, overwrite=force)
