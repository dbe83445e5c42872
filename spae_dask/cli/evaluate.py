"""``spae evaluate``: the exact loss of an encoder on data, and on parts of them."""

from typing import Annotated, Any

import typer

from spae_dask.cli.console import command_context
from spae_dask.cli.options.data import DataArgument, EncoderArgument, StrictOption, WhichData
from spae_dask.cli.options.groups import DATA, OUTPUT, takes_groups
from spae_dask.cli.options.output import Checkpoint, ConsoleOptions, ForceOption
from spae_dask.cli.options.parameters import OneStrategy, RowsCovariates, Weights
from spae_dask.cli.options.target import MemoryOption, PerformanceOption, TargetOptions
from spae_dask.plain_files import in_shell

EXAMPLES = """Examples:

  spae evaluate TEST.zarr ENC.zarr
  spae evaluate TEST.zarr ENC.zarr --json | jq .certificate.ratio
  spae evaluate TEST.zarr ENC.zarr --json | jq .certificate.metrics
  spae evaluate X.zarr ENC.zarr --by 50 --report drift.html
  spae evaluate cells.h5ad ENC.zarr --by batch
"""


@takes_groups
def evaluate(
    *,
    data: DataArgument,
    encoder: EncoderArgument,
    which: WhichData,
    beside: RowsCovariates,
    weights: Weights,
    strict: StrictOption = False,
    by: Annotated[
        str | None,
        typer.Option(
            "--by",
            metavar="N|NAME",
            help="Also report N equal parts of the rows, or one for each label in a column of obs or the table.",
            show_default=False,
            rich_help_panel=DATA,
        ),
    ] = None,
    report: Annotated[
        str | None,
        typer.Option(
            "--report",
            metavar="FILE",
            help="With --by: also write a page about the parts (.html), or a figure of them (.png, .svg).",
            show_default=False,
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    reading: OneStrategy,
    kept: Checkpoint,
    where: TargetOptions,
    performance_report: PerformanceOption = None,
    memory: MemoryOption = None,
    force: ForceOption = False,
    shown: ConsoleOptions,
) -> None:
    """Measure the loss of ENCODER on DATA, also held-out data, against PCA of the same data.

    The command makes one pass. It centers DATA on the mean that the encoder was
    fitted with. It also shows the loss after each component, symmetric and adjusted
    variance, nonzeros, and correlations of the codes.

    With --by, the same pass measures each part of the rows. It lists the features
    with a larger share of the loss there than in all rows.
    """
    with command_context("evaluate", shown, strict=strict) as console:
        from spae_dask.cli.performance import wanted_report
        from spae_dask.cli.target import check_checkpoint, check_paths
        from spae_dask.estimators.covariates import columns_beside
        from spae_dask.estimators.evaluation import evaluate as evaluate_encoder
        from spae_dask.estimators.evaluation import evaluate_by
        from spae_dask.estimators.saved import in_order, load_encoder

        if by is not None and weights.parameters["row_weights"] is not None:
            raise typer.BadParameter(
                "--by measures parts of rows that all count the same. Leave out --by or --row-weights.",
                param_hint="'--by'",
            )
        if report is not None:
            check_report(report, by)
            check_paths(report, [data, encoder], force=force)
        check_checkpoint(kept.checkpoint, data)
        with in_order(data, encoder, f"Use `spae evaluate {in_shell(encoder)} {in_shell(data)}`."):
            fitted = load_encoder(encoder)
        source = which.open(data, memory, console, fitted, columns_beside(by, weights.parameters["row_weights"]))
        how: dict[str, Any] = {
            **reading.parameters,
            **beside.parameters,
            "memory_limit": memory,
            "checkpoint": kept.checkpoint,
            "progress": console.progress,
        }
        with where.place(memory, wanted_report(performance_report)).ready(source, console):
            found = None if by is None else evaluate_by(source, fitted, by, **how)
            certificate = (
                evaluate_encoder(source, fitted, **weights.parameters, **how) if found is None else found.certificate
            )
        text = certificate.text(verbose=console.verbose > 0)
        document = {"data": data, "encoder": encoder, "certificate": certificate.as_dict()}
        console.result(
            text if found is None else f"{text}\n\n{found}", document if found is None else document | found.as_dict()
        )
        if report is not None and found is not None:
            from spae_dask.report.drift_figure import write_drift

            write_drift(found, report, encoder=encoder, data=data, overwrite=force)
            console.note(f"wrote              {report}")
        kept.end(console)


def check_report(report: str, by: str | None) -> None:
    """Refuse a report that nothing is written to, before anything is read."""
    from spae_dask.report import drift_figure as _drift  # noqa: F401 - first, since the libraries it needs may be missing

    if by is None:
        raise typer.BadParameter("--report shows parts of the rows. Give --by too.", param_hint="'--report'")
    if not report.endswith((".html", ".htm", ".png", ".svg")):
        raise typer.BadParameter(
            f"{report} has none of the endings .html, .png and .svg. Give one of them.", param_hint="'--report'"
        )
