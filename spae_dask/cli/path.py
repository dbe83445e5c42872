"""``spae path``: loss against sparsity, for every k and r, from one read."""

from dataclasses import asdict
from typing import Annotated

import typer

from spae_dask.cli import options
from spae_dask.cli.ended import end_checkpoint
from spae_dask.cli.session import session

EXAMPLES = """Examples:

  spae path X.zarr -k 2,5,10 -r 5,10,20,40
  spae path X.zarr -k 5 -r 5,10,20 -o path.csv
  spae path X.zarr -k 5 -r 5,10,20 -o path.png
"""


def path(
    data: options.DataArgument,
    components: Annotated[
        str,
        typer.Option(
            "-k",
            "--components",
            metavar="K,K,...",
            callback=options.check_nonzeros,
            help="Numbers of components.",
            show_default=False,
            rich_help_panel=options.WHAT,
        ),
    ],
    nonzeros: Annotated[
        str,
        typer.Option(
            "-r",
            "--nonzeros",
            metavar="R,R,...",
            callback=options.check_nonzeros,
            help="Numbers of features a component may use.",
            show_default=False,
            rich_help_panel=options.WHAT,
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
            rich_help_panel=options.OUTPUT,
        ),
    ] = None,
    method: options.MethodOption = options.Method.polished,
    selection: options.SelectionOption = options.Selection.dual_set,
    center: options.CenterOption = True,
    scale: options.ScaleOption = False,
    seed: options.SeedOption = 0,
    array: options.ArrayOption = None,
    columns: options.ColumnsOption = None,
    strict: options.StrictOption = False,
    missing: options.MissingOption = options.Missing.error,
    missing_value: options.MissingValueOption = None,
    checkpoint: options.CheckpointOption = None,
    keep_checkpoint: options.KeepCheckpointOption = False,
    cluster: options.ClusterOption = None,
    tls_dir: options.TlsDirOption = None,
    performance_report: options.PerformanceOption = None,
    memory: options.MemoryOption = None,
    force: options.ForceOption = False,
    as_json: options.JsonOption = False,
    quiet: options.QuietOption = False,
    verbose: options.VerboseOption = 0,
    debug: options.DebugOption = False,
    log_json: options.LogJsonOption = False,
) -> None:
    """Loss, symmetric variance and features used for every K and R.

    One read of DATA in all; two if they have thousands of features.
    """
    with session(
        "path", as_json=as_json, quiet=quiet, verbose=verbose, debug=debug, log_json=log_json, strict=strict
    ) as screen:
        from spae_dask.cli.performance import wanted_report
        from spae_dask.cli.place import Place, check_checkpoint, check_paths
        from spae_dask.estimators.paths import fit_path
        from spae_dask.storage.open import open_matrix

        if output is not None:
            if not output.endswith((".csv", ".png", ".svg")):
                raise typer.BadParameter(f"{output!r} ends in none of .csv, .png, .svg", param_hint="'-o'")
            check_paths(output, [data], force=force)
        check_checkpoint(checkpoint, data, output)
        ks, rs = ([int(each) for each in text.split(",")] for text in (components, nonzeros))
        source = open_matrix(data, array=array, columns=options.columns_of(columns))
        with Place(cluster, memory, tls_dir, wanted_report(performance_report, output)).ready(source, screen):
            found = fit_path(
                source,
                ks,
                rs,
                method=method.value,
                selection=selection.value,
                center=center,
                scale=scale,
                missing=missing.value,
                missing_value=missing_value,
                random_state=seed,
                memory_limit=memory,
                checkpoint=checkpoint,
                progress=screen.progress,
            )
        if output is not None:
            write(found, output, force=force)
        screen.result(str(found), {"data": data, "method": method.value, "points": [asdict(p) for p in found.points]})
        if output is not None:
            screen.note(f"wrote {output}")
        if checkpoint is not None:
            end_checkpoint(checkpoint, screen, keep=keep_checkpoint)


def write(found: object, output: str, *, force: bool) -> None:
    """Write the table or its figure; it appears whole or not at all."""
    from spae_dask.algorithms.path import SparsityPath
    from spae_dask.pipelines.files import write_csv

    assert isinstance(found, SparsityPath)
    if output.endswith(".csv"):
        write_csv(found.records(), output, overwrite=force)
    else:
        from spae_dask.report.path_figure import path_figure
        from spae_dask.report.saving import save_figure

        save_figure(path_figure(found), output, overwrite=force)
