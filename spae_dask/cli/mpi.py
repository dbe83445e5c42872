"""``spae mpi``: any verb, with the ranks that mpirun started as its cluster."""

from typing import Annotated

import typer

from spae_dask.cli.console import command_context
from spae_dask.cli.options.groups import WHERE
from spae_dask.cli.options.output import ConsoleOptions
from spae_dask.cli.options.target import check_file

EXAMPLES = """Examples:

  mpirun -n 8 spae mpi fit X.zarr -k 10 -r 12 -o ENC.zarr
  mpirun -n 8 spae mpi --cluster deploy/mpi/mpi.toml run pipeline.toml
"""

TAKES_COMMAND = {"ignore_unknown_options": True, "allow_interspersed_args": False}
"""Settings of the parser: what follows the verb is the verb's."""


def mpi(
    context: typer.Context,
    words: Annotated[
        list[str],
        typer.Argument(metavar="VERB ...", help="Command of spae with its arguments and options.", show_default=False),
    ],
    cluster: Annotated[
        str | None,
        typer.Option(
            "--cluster",
            metavar="FILE",
            callback=check_file,
            help="Cluster file of kind mpi: memory, threads, network, scratch folder.",
            show_default=False,
            rich_help_panel=WHERE,
        ),
    ] = None,
) -> None:
    """Run VERB on MPI ranks: start this with mpirun, with at least 3 ranks.

    Rank 0 is the Dask scheduler, rank 1 runs VERB, and the others are workers. The
    workers end with VERB.
    """
    code = 0
    with command_context("mpi", ConsoleOptions()):
        from spae_dask.clusters.specs import MpiSpec, read_cluster, required
        from spae_dask.errors import InvalidInput

        spec = MpiSpec(kind="mpi") if cluster is None else read_cluster(cluster)
        if not isinstance(spec, MpiSpec):
            raise InvalidInput(f"{cluster} has kind {spec.kind!r}; `spae mpi` takes files of kind 'mpi'.")
        if "--cluster" in words or any(each.startswith("--cluster=") for each in words):
            raise typer.BadParameter(
                "this option is for `spae mpi` itself. Give it before VERB.", param_hint="'--cluster'"
            )
        with required("spae_dask.clusters.mpi", "mpi").joined_ranks(spec) as address:
            if address is not None:
                code = context.obj([*words, "--cluster", address])
    if code:
        raise typer.Exit(code)
