"""``spae report``: an encoder as a page to look at, to print and to send."""

from pathlib import Path
from typing import Annotated

import typer

from spae_dask.cli import options
from spae_dask.cli.session import session

EXAMPLES = """Examples:

  spae report ENC.zarr -o report.html
  spae report ENC.zarr -o report.html --data X.zarr
  spae path X.zarr -k 5 -r 5,10,20 -o path.csv && spae report ENC.zarr -o report.html --path path.csv
"""

CURVE = "Loss against sparsity"


def report(
    encoder: options.EncoderArgument,
    output: Annotated[
        str,
        typer.Option(
            "-o",
            "--output",
            metavar="FILE.html",
            help="Where the page is written: one file that needs no other.",
            show_default=False,
            rich_help_panel=options.OUTPUT,
        ),
    ],
    path: Annotated[
        str | None,
        typer.Option(
            "--path",
            metavar="FILE",
            help="Losses of other sizes: the .csv of `spae path -o`, or the .json of `spae path --json`.",
            show_default=False,
            rich_help_panel=CURVE,
        ),
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(
            "--data",
            metavar="DATA",
            help="Or the data, from one read of which they are made; two reads of thousands of features.",
            show_default=False,
            rich_help_panel=CURVE,
        ),
    ] = None,
    array: options.ArrayOption = None,
    columns: options.ColumnsOption = None,
    strict: options.StrictOption = False,
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
    """Write a page about an encoder: certificate, figures, features, provenance.

    Nothing but the encoder is read. Its losses at other sizes were kept with it
    if they took no time; else --path or --data draws them.
    """
    with session(
        "report", as_json=as_json, quiet=quiet, verbose=verbose, debug=debug, log_json=log_json, strict=strict
    ) as screen:
        if not output.endswith((".html", ".htm")):
            raise typer.BadParameter(f"{output!r} does not end in .html", param_hint="'-o'")
        if path is not None and data is not None:
            raise typer.BadParameter(
                "give one: a path that was drawn, or data to draw it from", param_hint="'--path' / '--data'"
            )
        if data is None and (array is not None or columns is not None):
            raise typer.BadParameter(
                "they say what of --data is meant, which is not given", param_hint="'--array' / '--columns'"
            )
        from spae_dask.cli.place import Place, check_paths
        from spae_dask.estimators.reporting import curve_from_data, write_report
        from spae_dask.estimators.saved import load_encoder
        from spae_dask.report import html as _html  # noqa: F401 - first, since the libraries it needs may be missing
        from spae_dask.report.path_file import origin_of, read_path
        from spae_dask.storage.open import open_matrix

        check_paths(output, [encoder, *(each for each in (path, data) if each is not None)], force=force)
        fitted = load_encoder(encoder)
        curve, origin = None, ""
        if path is not None:
            curve, origin = read_path(path, fitted.n_components_), origin_of(path, output)
        elif data is not None:
            source = open_matrix(data, array=array, columns=options.columns_of(columns))
            with Place(cluster, memory, tls_dir).ready(source, screen):
                curve, origin = curve_from_data(fitted, source, memory_limit=memory, progress=screen.progress)
        write_report(fitted, encoder, output, curve=curve, origin=origin, overwrite=force)
        known = curve is not None or fitted.curve() is not None
        screen.result(
            f"report    {output}, {Path(output).stat().st_size / 1e6:.1f} MB",
            {"encoder": encoder, "report": output, "curve": known},
        )
        if not known:
            screen.note("curve     losses of other sizes are not known; --data DATA draws them from one read")
