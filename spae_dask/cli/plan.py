"""``spae plan``: what a fit would read, hold and take."""

from typing import TYPE_CHECKING

from spae_dask.cli import options
from spae_dask.cli.session import session

if TYPE_CHECKING:
    from spae_dask.engine.plan import Plan, Resources

EXAMPLES = """Examples:

  spae plan X.zarr -k 10 -r 12
  spae plan X.zarr -k 10 -r 12 --no-calibrate
  spae plan X.zarr -k 10 -r 12 --cluster local:4 --memory 2GB || echo "too large"
"""


def plan(
    data: options.DataArgument,
    components: options.ComponentsOption,
    nonzeros: options.NonzeroOption = None,
    eps: options.EpsOption = None,
    array: options.ArrayOption = None,
    columns: options.ColumnsOption = None,
    method: options.MethodOption = options.Method.polished,
    missing: options.MissingOption = options.Missing.error,
    missing_value: options.MissingValueOption = None,
    strategy: options.StrategyOption = options.Strategy.auto,
    shared_support: options.SharedOption = False,
    precision: options.PrecisionOption = options.Precision.exact,
    certified: options.CertifiedOption = False,
    candidates: options.CandidatesOption = None,
    sketch_rows: options.SketchRowsOption = None,
    tolerance: options.ToleranceOption = None,
    calibrate: options.CalibrateOption = True,
    cluster: options.ClusterOption = None,
    tls_dir: options.TlsDirOption = None,
    memory: options.MemoryOption = None,
    as_json: options.JsonOption = False,
    quiet: options.QuietOption = False,
    verbose: options.VerboseOption = 0,
    debug: options.DebugOption = False,
    log_json: options.LogJsonOption = False,
) -> None:
    """Say what a fit would read, hold and take, and what each strategy would.

    Takes the options of `spae fit` that matter for it. Bytes and memory come
    from metadata; for the times at most 64 MiB of DATA are read (or one block),
    and the arithmetic is tried on them, in about a second. Exits with 4 if the
    fit does not fit the memory, and says what would.
    """
    del eps  # accepted so that a fit can be planned by changing one word; it costs nothing beside the read
    with session("plan", as_json=as_json, quiet=quiet, verbose=verbose, debug=debug, log_json=log_json) as screen:
        from spae_dask.cli.place import Place
        from spae_dask.estimators.planning import plan as plan_fit
        from spae_dask.storage.open import open_matrix

        source = open_matrix(data, array=array, columns=options.columns_of(columns))
        place = Place(cluster, memory, tls_dir)

        def planned(resources: "Resources | None", *, calibrated: bool = False) -> "Plan":
            return plan_fit(
                source,
                components,
                n_nonzero=options.nonzeros_of(nonzeros),
                method=method.value,
                strategy=strategy.value,
                missing=missing.value,
                missing_value=missing_value,
                memory_limit=memory,
                shared_support=shared_support,
                precision=precision.value,
                certified=certified,
                n_candidates=candidates,
                sketch_rows=sketch_rows,
                tolerance=tolerance,
                calibrate=calibrated,
                resources=resources,
            )

        place = place.sized(source, [planned])
        with place.imagined(source, screen) as resources:
            found = planned(resources, calibrated=calibrate)
        found, request = place.named(found, source), place.request()
        text = "\n".join([str(found), *([] if request is None else [f"request   {request}"])])
        screen.result(text, {"data": data, "plan": found.as_dict(), "request": request})
