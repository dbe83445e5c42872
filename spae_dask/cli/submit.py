"""``spae submit``: a pipeline as a job that runs by itself."""

from enum import StrEnum
from typing import Annotated

import typer

from spae_dask.cli.console import command_context
from spae_dask.cli.options.data import PipelineArgument
from spae_dask.cli.options.groups import OUTPUT, WHERE, takes_groups
from spae_dask.cli.options.output import ConsoleOptions, ForceOption
from spae_dask.cli.options.target import check_file

EXAMPLES = """Examples:

  spae submit slurm pipeline.toml --dry-run
  spae submit slurm pipeline.toml --cluster deploy/slurm/slurm.toml --check
  spae submit slurm pipeline.toml --cluster deploy/slurm/slurm.toml
  spae submit slurm pipeline.toml --cluster deploy/slurm/slurm.toml --array 16
  spae submit kubernetes pipeline.toml --cluster deploy/kubernetes/cluster.toml -o job.yaml
"""


class System(StrEnum):
    """Batch system that jobs are submitted to."""

    slurm = "slurm"
    kubernetes = "kubernetes"


@takes_groups
def submit(
    *,
    system: Annotated[System, typer.Argument(metavar="SYSTEM", help="slurm or kubernetes.", show_default=False)],
    pipeline: PipelineArgument,
    cluster: Annotated[
        str | None,
        typer.Option(
            "--cluster",
            metavar="FILE",
            callback=check_file,
            help="Cluster file: the number of workers, and under [driver] the resources of the job itself.",
            show_default=False,
            rich_help_panel=WHERE,
        ),
    ] = None,
    array: Annotated[
        int | None,
        typer.Option(
            "--array",
            metavar="N",
            min=1,
            max=4096,
            help="Fit PIPELINE in N parts as an array of Slurm jobs without a scheduler. A last job finishes it.",
            show_default=False,
            rich_help_panel=WHERE,
        ),
    ] = None,
    passes: Annotated[
        int,
        typer.Option(
            "--passes",
            metavar="N",
            min=1,
            max=100,
            help="For --array: number of passes, as `spae plan` shows it. The array runs once per pass.",
            rich_help_panel=WHERE,
        ),
    ] = 1,
    grace: Annotated[
        int,
        typer.Option(
            "--grace",
            metavar="SECONDS",
            min=10,
            max=3600,
            help="Seconds before its time limit at which the job starts to stop cleanly.",
            rich_help_panel=WHERE,
        ),
    ] = 120,
    max_resubmits: Annotated[
        int,
        typer.Option(
            "--max-resubmits",
            metavar="N",
            min=0,
            max=1000,
            help="Largest number of times that a stopped job with work left is queued again.",
            rich_help_panel=WHERE,
        ),
    ] = 3,
    output: Annotated[
        str | None,
        typer.Option(
            "-o",
            "--output",
            metavar="FILE",
            help="File to which the script or manifest is also written.",
            show_default=False,
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", "-n", help="Print the script or manifest and submit nothing.", rich_help_panel=OUTPUT
        ),
    ] = False,
    check: Annotated[
        bool,
        typer.Option(
            "--check",
            help="Check partition, account, limits and folders with the site. Submit nothing.",
            rich_help_panel=OUTPUT,
        ),
    ] = False,
    force: ForceOption = False,
    shown: ConsoleOptions,
) -> None:
    """Make a job that runs PIPELINE by itself, and submit it.

    On Slurm, the job is a batch script that runs `spae run`. It stops before its
    time is over and goes back into the queue, at most --max-resubmits times. Then
    `spae run` resumes the unfinished work. On Kubernetes, the job is a Job, or a
    DaskJob if there are workers.
    """
    with command_context("submit", shown) as console:
        from spae_dask.cli.submitting import (
            Request,
            advice_of,
            checked,
            kubernetes_jobs,
            report_lasting_reasons,
            slurm_jobs,
            submitted,
            write_texts,
        )

        request: Request = Request(pipeline, cluster, array, passes, grace, max_resubmits)
        jobs = slurm_jobs(request) if system is System.slurm else kubernetes_jobs(request)
        paths = [] if output is None else write_texts(output, jobs, force=force)
        document = {"pipeline": pipeline, "system": system.value, "dry_run": dry_run, "files": paths}
        texts = [each.text for each in jobs]
        if dry_run:
            console.result("\n".join(texts).rstrip("\n"), document | {"jobs": [], "texts": texts})
            return
        if check:
            lines = checked(jobs)
            console.result("\n".join(lines), document | {"jobs": [], "texts": texts, "check": lines})
            return
        ids = submitted(jobs)
        console.result("\n".join(ids), document | {"jobs": ids, "texts": texts})
        console.note(advice_of(jobs, ids))
        if system is System.slurm:
            report_lasting_reasons(ids, console)
