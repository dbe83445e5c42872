"""``spae panel``: one set of features for all components."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from spae_dask.cli.console import command_context
from spae_dask.cli.fit import FitGiven, check_output, fit_encoder, results_of, tell_next
from spae_dask.cli.options.groups import OUTPUT, takes_groups
from spae_dask.cli.options.output import Checkpoint, ForceOption, MaybeEncoderOutput
from spae_dask.cli.options.target import PerformanceOption, TargetOptions
from spae_dask.cli.path import check_counts

if TYPE_CHECKING:
    from spae_dask.blocks import RowBlocks
    from spae_dask.estimators.sparse_encoder import SparseEncoder
    from spae_dask.strategies.path import PathPoint

EXAMPLES = """Examples:

  spae panel X.h5ad -k 10 -n 50
  spae panel X.h5ad -k 10 -n 50 --exclude 'MT-*,RPL*' --include CD3E -o PANEL.zarr
  spae panel X.h5ad -k 10 -n 50 --curve 10,20,50,100
  spae panel X.h5ad -k 10 --costs costs.csv --budget 500 --groups pathways.csv --at-most 3
"""


@takes_groups
def panel(
    *,
    given: FitGiven,
    curve: Annotated[
        str | None,
        typer.Option(
            "--curve",
            metavar="N,N,...",
            callback=check_counts,
            help="Also show the losses of panels of these sizes. They take no further read.",
            show_default=False,
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    output: MaybeEncoderOutput = None,
    force: ForceOption = False,
    where: TargetOptions,
    kept: Checkpoint,
    performance_report: PerformanceOption = None,
) -> None:
    """Choose N features of DATA for all K components together.

    A fit with -n or --budget in place of -r: every component may use the whole
    panel. The command prints the features with their weights, the loss against PCA,
    and the price of rules such as --exclude: the loss of as many features that are
    chosen freely. `spae inspect --table` writes the features of an encoder as CSV.
    """
    with command_context("panel", given.shown, strict=given.strict) as console:
        check_panel(given)
        from spae_dask.estimators.panels import chosen_freely, names_of
        from spae_dask.estimators.saved import save_encoder

        if output is not None:
            check_output(output, given, kept, force=force)
        source = given.open()
        sizes = [] if curve is None else [int(each) for each in curve.split(",")]
        check_curve(given, source, sizes)
        encoder = fit_encoder(source, given, where, kept, performance_report, output, console)
        if output is not None:
            save_encoder(encoder, output, source=source, overwrite=force)
        names, free = names_of(encoder), chosen_freely(encoder)
        losses = encoder.sparsity_path([encoder.n_components_], sizes) if sizes else None
        told = [encoder.certificate_.text(verbose=console.verbose > 0), f"panel              {', '.join(names)}"]
        told += cost_in_words(encoder)
        told += [] if free is None else [price_in_words(encoder.certificate_.ratio, free)]
        told += ["", str(encoder.table())]
        told += [] if losses is None else ["", str(losses)]
        document = results_of(encoder, given, output)
        document |= {"panel": names, "features": encoder.table().records()}
        document |= {"without_rules": None if free is None else asdict(free)}
        console.result("\n".join(told), document | ({} if losses is None else {"curve": losses.records()}))
        if output is not None:
            tell_next(encoder, output, given, console)
        kept.end(console)


def check_panel(given: FitGiven) -> None:
    """Refuse a panel without a size, or with another size."""
    if given.fitted["n_features"] is None and given.fitted["budget"] is None:
        raise typer.BadParameter(
            "give the number of features of the panel, or a budget for their costs", param_hint="'-n' / '--budget'"
        )
    others = [each for each in ("n_nonzero", "eps", "keep") if given.fitted[each] is not None]
    if others:
        raise typer.BadParameter(
            "every component may use the whole panel, so that -n and --budget are its only sizes. For components that "
            "use a part of it, use `spae fit` with -r and -n",
            param_hint="'-r' / '--eps' / '--keep'",
        )


def check_curve(given: FitGiven, source: "RowBlocks", sizes: list[int]) -> None:
    """Refuse sizes of panels that the data, or the strategy of the fit, do not allow."""
    from spae_dask.errors import InvalidInput
    from spae_dask.strategies.core import CORES
    from spae_dask.strategies.parameters import check_count

    for size in sizes:
        check_count("--curve", size, source.shape[1])
    if sizes and (strategy := given.plan(source).strategy) not in CORES:
        raise InvalidInput(
            f"a curve needs a core of the data, and strategy={strategy!r} keeps none. Leave out --curve, or use "
            "strategy='gram' or strategy='tsqr', which need more memory."
        )


def cost_in_words(encoder: "SparseEncoder") -> list[str]:
    """The costs of the panel, if its features have some."""
    table = encoder.table()
    cost = table.rows[-1].cost_so_far if table.rows else None
    return [] if cost is None else [f"cost               {cost:g} of {table.budget:g}"]


def price_in_words(ratio: float, free: "PathPoint") -> str:
    """The price of the rules: the loss with them, and that without."""
    if free.ratio >= ratio:  # the search finds other features, none of them better
        return f"price of rules     none: {free.n_nonzero} features chosen without rules lose no less"
    found = f"{ratio:.6f} times PCA's loss, {free.ratio:.6f} for {free.n_nonzero} features chosen without rules"
    return f"price of rules     {found}"
