"""``spae plan``: what a fit would read, hold and take."""

from typing import TYPE_CHECKING

from spae_dask.cli.options.data import DataArgument, MissingEntries, WhichData
from spae_dask.cli.options.groups import takes_groups
from spae_dask.cli.options.screen import ScreenOptions
from spae_dask.cli.options.search import (
    ComponentsOption,
    EpsOption,
    Method,
    MethodOption,
    NonzeroOption,
    RowsOption,
    SharedOption,
    nonzeros_of,
)
from spae_dask.cli.options.strategy import CalibrateOption, Exactness, Pipeline, Strategy, StrategyOption
from spae_dask.cli.options.where import MemoryOption, Where
from spae_dask.cli.session import session

if TYPE_CHECKING:
    from spae_dask.engine.plan import Plan, Resources

EXAMPLES = """Examples:

  spae plan X.zarr -k 10 -r 12
  spae plan X.zarr -k 10 -r 12 --no-calibrate
  spae plan X.zarr -k 10 -r 12 --cluster local:4 --memory 2GB || echo "too large"
"""


@takes_groups
def plan(
    *,
    data: DataArgument,
    components: ComponentsOption,
    nonzeros: NonzeroOption = None,
    eps: EpsOption = None,
    which: WhichData,
    method: MethodOption = Method.polished,
    missing: MissingEntries,
    strategy: StrategyOption = Strategy.auto,
    shared_support: SharedOption = False,
    rows: RowsOption = None,
    pipeline: Pipeline,
    exactness: Exactness,
    calibrate: CalibrateOption = True,
    where: Where,
    memory: MemoryOption = None,
    shown: ScreenOptions,
) -> None:
    """Say what a fit would read, hold and take, and what each strategy would.

    Takes the options of `spae fit` that matter for it. Bytes and memory come
    from metadata; for the times at most 64 MiB of DATA are read (or one block),
    and the arithmetic is tried on them, in about a second. Exits with 4 if the
    fit does not fit the memory, and says what would.
    """
    del eps  # accepted so that a fit can be planned by changing one word; it costs nothing beside the read
    with session("plan", shown) as screen:
        from spae_dask.estimators.planning import plan as plan_fit

        source = which.open(data, memory)
        place = where.place(memory)

        def planned(resources: "Resources | None", *, calibrated: bool = False) -> "Plan":
            return plan_fit(
                source,
                components,
                n_nonzero=nonzeros_of(nonzeros),
                method=method.value,
                strategy=strategy.value,
                memory_limit=memory,
                shared_support=shared_support,
                n_rows=rows,
                **pipeline.parameters,
                **missing.parameters,
                **exactness.parameters,
                calibrate=calibrated,
                resources=resources,
            )

        place = place.sized(source, [planned])
        with place.imagined(source, screen) as resources:
            found = planned(resources, calibrated=calibrate)
        found, request = place.named(found, source), place.request()
        text = "\n".join([str(found), *([] if request is None else [f"request   {request}"])])
        screen.result(text, {"data": data, "plan": found.as_dict(), "request": request})
