"""``spae fit``: the main job."""

import shlex
from typing import Annotated, Any

import typer

from spae_dask.cli import options
from spae_dask.cli.session import session

EXAMPLES = """Examples:

  spae fit X.zarr -k 10 -r 12 -o ENC.zarr
  spae fit X.zarr -k 10 --eps 0.05 -o ENC.zarr --cluster local:8 --memory 4GB
  spae fit X.zarr -k 10 -r 12 -o ENC.zarr --tolerance 0.01
  spae fit X.zarr -k 10 -r 12 -o ENC.zarr --cluster tcp://10.0.0.5:8786
  spae fit X.zarr -k 10 -r 12 -o ENC.zarr --force --json > fit.json
"""

PLAN_LINES = ("data", "strategy", "passes", "where", "memory", "time", "note")
"""Lines of the plan worth seeing before a fit; `spae plan` shows all."""

WORTH_CALIBRATING = 20.0
"""Seconds of a fit, at nominal rates, from which on a second is spent on telling its time better. Nothing but the time
shown depends on it."""


def fit(
    data: options.DataArgument,
    components: options.ComponentsOption,
    output: Annotated[
        str,
        typer.Option(
            "-o",
            "--output",
            metavar="ENCODER",
            help="Where the encoder is written: a Zarr group.",
            show_default=False,
            rich_help_panel=options.OUTPUT,
        ),
    ],
    nonzeros: options.NonzeroOption = None,
    eps: options.EpsOption = None,
    method: options.MethodOption = options.Method.polished,
    selection: options.SelectionOption = options.Selection.dual_set,
    center: options.CenterOption = True,
    scale: options.ScaleOption = False,
    orthonormal: options.OrthonormalOption = False,
    shared_support: options.SharedOption = False,
    rows: options.RowsOption = None,
    seed: options.SeedOption = 0,
    array: options.ArrayOption = None,
    missing: options.MissingOption = options.Missing.error,
    missing_value: options.MissingValueOption = None,
    strict: options.StrictOption = False,
    strategy: options.StrategyOption = options.Strategy.auto,
    repeats: options.RepeatsOption = 1,
    power_iterations: options.PowerOption = 0,
    precision: options.PrecisionOption = options.Precision.exact,
    certified: options.CertifiedOption = False,
    candidates: options.CandidatesOption = None,
    sketch_rows: options.SketchRowsOption = None,
    tolerance: options.ToleranceOption = None,
    cluster: options.ClusterOption = None,
    tls_dir: options.TlsDirOption = None,
    memory: options.MemoryOption = None,
    force: options.ForceOption = False,
    as_json: options.JsonOption = False,
    quiet: options.QuietOption = False,
    verbose: options.VerboseOption = 0,
    debug: options.DebugOption = False,
    log_json: options.LogJsonOption = False,
) -> None:
    """Find a sparse encoder of DATA, and certify what it loses against PCA.

    Needs -k, and exactly one of -r and --eps. The data are read once, twice
    if they have thousands of features, once more with --missing mean, in part
    with --tolerance, within the memory that the plan states before it starts.
    The encoder appears under its name whole, or not at all.
    """
    with session(
        "fit", as_json=as_json, quiet=quiet, verbose=verbose, debug=debug, log_json=log_json, strict=strict
    ) as screen:
        if (nonzeros is None) == (eps is None):
            raise typer.BadParameter(
                "give exactly one: the most features a component may use, or how much more than PCA it may lose",
                param_hint="'-r' / '--eps'",
            )
        from spae_dask.cli.place import Place, check_paths
        from spae_dask.engine.plan import Plan
        from spae_dask.estimators.planning import plan
        from spae_dask.estimators.saved import save_encoder
        from spae_dask.estimators.sparse_encoder import SparseEncoder
        from spae_dask.storage.open import open_matrix

        check_paths(output, [data], force=force)
        source = open_matrix(data, array=array)
        place = Place(cluster, memory, tls_dir)

        def planned(*, calibrate: bool = False) -> Plan:
            return plan(
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
                calibrate=calibrate,
            )

        long = planned().seconds > WORTH_CALIBRATING  # refuses what no process could do before any is started
        with place.ready(source, screen):
            screen.note(main_lines(place.named(planned(calibrate=long), source)))
            encoder = SparseEncoder(
                components,
                n_nonzero=options.nonzeros_of(nonzeros),
                eps=0.1 if eps is None else eps,
                method=method.value,
                selection=selection.value,
                center=center,
                scale=scale,
                strategy=strategy.value,
                missing=missing.value,
                missing_value=missing_value,
                orthonormal=orthonormal,
                shared_support=shared_support,
                n_rows=rows,
                n_repeats=repeats,
                power_iterations=power_iterations,
                precision=precision.value,
                certified=certified,
                n_candidates=candidates,
                sketch_rows=sketch_rows,
                tolerance=tolerance,
                random_state=seed,
                memory_limit=memory,
                progress=screen.progress,
            ).fit(source)
        save_encoder(encoder, output, source=source, overwrite=force)
        screen.result(
            str(encoder.certificate_),
            {
                "data": data,
                "encoder": output,
                "certificate": encoder.certificate_.as_dict(),
                "selected_features": encoder.selected_features_,
                "plan": encoder.plan_.as_dict(),
            },
        )
        member = "" if array is None else f" --array {shlex.quote(array)}"
        screen.note(f"wrote              {output}")
        if encoder.certificate_.fraction_read < 1:
            screen.note(f"exact              spae evaluate {shlex.quote(data)} {shlex.quote(output)}{member}")
        screen.note(f"next               spae inspect {shlex.quote(output)}")
        screen.note(
            f"                   spae transform {shlex.quote(data)} {shlex.quote(output)} -o CODES.zarr{member}"
        )


def main_lines(plan: Any) -> str:
    """The lines of a plan that a user should see before a fit."""
    return "\n".join(line for line in str(plan).splitlines() if line.split(maxsplit=1)[0] in PLAN_LINES)
