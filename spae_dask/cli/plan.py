"""``spae plan``: what a fit would read, hold and take."""

from spae_dask.cli import options
from spae_dask.cli.session import session

EXAMPLES = """Examples:

  spae plan X.zarr -k 10 -r 12
  spae plan X.zarr -k 10 -r 12 --cluster local:4 --memory 2GB || echo "too large"
"""


def plan(
    data: options.DataArgument,
    components: options.ComponentsOption,
    nonzeros: options.NonzeroOption = None,
    eps: options.EpsOption = None,
    array: options.ArrayOption = None,
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
    cluster: options.ClusterOption = None,
    memory: options.MemoryOption = None,
    as_json: options.JsonOption = False,
    quiet: options.QuietOption = False,
    verbose: options.VerboseOption = 0,
    debug: options.DebugOption = False,
) -> None:
    """Say what a fit would read, hold and take, from metadata alone.

    Takes the options of `spae fit` that matter for it. Exits with 4 if it does
    not fit the memory, and says what would.
    """
    del eps  # accepted so that a fit can be planned by changing one word; it costs nothing beside the read
    with session("plan", as_json=as_json, quiet=quiet, verbose=verbose, debug=debug) as screen:
        from spae_dask.cli.place import Place
        from spae_dask.estimators.planning import plan as plan_fit
        from spae_dask.storage.open import open_matrix

        source = open_matrix(data, array=array)
        place = Place(cluster, memory)
        with place.imagined(source, screen):
            found = plan_fit(
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
            )
        found = place.named(found, source)
        screen.result(str(found), {"data": data, "plan": found.as_dict()})
