"""``spae prove``: proof that a panel is the best of its size, or a bound on what any other could gain."""

from typing import TYPE_CHECKING, Annotated

import typer

from spae_dask.cli.console import command_context
from spae_dask.cli.fit import FitGiven, fit_encoder, results_of
from spae_dask.cli.options.groups import WHERE, takes_groups
from spae_dask.cli.options.output import Checkpoint
from spae_dask.cli.options.target import PerformanceOption, TargetOptions
from spae_dask.cli.panel import check_panel

if TYPE_CHECKING:
    from spae_dask.blocks import RowBlocks

EXAMPLES = """Examples:

  spae prove X.zarr -k 2 -n 4
  spae prove X.zarr -k 2 -n 5 --nodes 100000
  spae prove X.zarr -k 2 -n 5 --exclude 'MT-*' --time-limit 600 --json
"""


@takes_groups
def prove(
    *,
    given: FitGiven,
    nodes: Annotated[
        int | None,
        typer.Option(
            "--nodes",
            metavar="N",
            min=0,
            help="Most nodes of the tree of sets to look into. Default: 5000, or no limit with --time-limit.",
            show_default=False,
            rich_help_panel=WHERE,
        ),
    ] = None,
    time_limit: Annotated[
        float | None,
        typer.Option(
            "--time-limit",
            metavar="SECONDS",
            help="Seconds after the fit in which to look into nodes. The bound then depends on the machine.",
            show_default=False,
            rich_help_panel=WHERE,
        ),
    ] = None,
    where: TargetOptions,
    kept: Checkpoint,
    performance_report: PerformanceOption = None,
) -> None:
    """Prove that no N features of DATA serve all K components better.

    Chooses a panel as `spae panel` does, then searches the sets that may be
    better. The command prints the best set, its loss, and a loss that no set of N
    features falls below. The two are equal when the proof is finished. No data are
    read for it. It takes seconds to minutes for three features among some hundred,
    four among a hundred, or six among thirty.
    """
    with command_context("prove", given.shown, strict=given.strict) as console:
        check_panel(given)
        if time_limit is not None and not time_limit > 0:
            raise typer.BadParameter("give a positive number of seconds, such as 60", param_hint="'--time-limit'")
        from spae_dask.cli.target import check_checkpoint
        from spae_dask.estimators.panels import names_of, proof_of
        from spae_dask.strategies.proof import NODES

        check_checkpoint(kept.checkpoint, given.data)
        source = given.open()
        check_proof(given, source)
        encoder = fit_encoder(source, given, where, kept, performance_report, None, console)
        proof = proof_of(encoder, NODES if nodes is None and time_limit is None else nodes, time_limit)
        best = names_of(encoder, proof.features)
        document = results_of(encoder, given, None) | {"panel": names_of(encoder), "best": best}
        console.result(f"features           {', '.join(best)}\n{proof}", document | {"proof": proof.as_dict()})
        kept.end(console)


def check_proof(given: FitGiven, source: "RowBlocks") -> None:
    """Refuse a fit of which nothing can be proved, before the data are read."""
    from spae_dask.errors import InvalidInput
    from spae_dask.estimators.preparing import with_rules
    from spae_dask.strategies.core import CORES
    from spae_dask.strategies.parameters import FitParameters
    from spae_dask.strategies.proof import check_provable

    check_provable(with_rules(FitParameters.of(given.fitted), source), source.shape[1])
    if (strategy := given.plan(source).strategy) not in CORES:
        raise InvalidInput(
            f"a proof needs a core of the data, and strategy={strategy!r} keeps none. Use strategy 'gram' or 'tsqr', "
            "which need more memory, or leave out features."
        )
