"""``spae transform``: the codes of all rows, written to a Zarr array."""

from typing import Annotated

import typer

from spae_dask.cli import options
from spae_dask.cli.session import session

EXAMPLES = """Examples:

  spae transform X.zarr ENC.zarr -o CODES.zarr
  spae transform X.zarr ENC.zarr -o CODES.zarr --force --cluster local:8
"""


def transform(
    data: options.DataArgument,
    encoder: options.EncoderArgument,
    output: Annotated[
        str,
        typer.Option(
            "-o",
            "--output",
            metavar="CODES",
            help="Where the codes are written: a Zarr array of a row a row of DATA and a column a component.",
            show_default=False,
            rich_help_panel=options.OUTPUT,
        ),
    ],
    array: options.ArrayOption = None,
    columns: options.ColumnsOption = None,
    strict: options.StrictOption = False,
    cluster: options.ClusterOption = None,
    performance_report: options.PerformanceOption = None,
    tls_dir: options.TlsDirOption = None,
    memory: options.MemoryOption = None,
    force: options.ForceOption = False,
    as_json: options.JsonOption = False,
    quiet: options.QuietOption = False,
    verbose: options.VerboseOption = 0,
    debug: options.DebugOption = False,
    log_json: options.LogJsonOption = False,
) -> None:
    """Write the codes of all rows of DATA to a Zarr array.

    Every chunk is written whole, read back and compared. The array appears
    under its name whole, or not at all.
    """
    with session(
        "transform", as_json=as_json, quiet=quiet, verbose=verbose, debug=debug, log_json=log_json, strict=strict
    ) as screen:
        from spae_dask.cli.performance import wanted_report
        from spae_dask.cli.place import Place, check_paths
        from spae_dask.estimators.saved import load_encoder
        from spae_dask.estimators.writing import transform_to_zarr
        from spae_dask.storage.open import open_matrix

        page = wanted_report(performance_report, output)
        check_paths(output, [data, encoder], force=force)
        source, fitted = open_matrix(data, array=array, columns=options.columns_of(columns)), load_encoder(encoder)
        with Place(cluster, memory, tls_dir, page).ready(source, screen):
            written = transform_to_zarr(
                source, fitted, output, overwrite=force, memory_limit=memory, progress=screen.progress
            )
        screen.result(f"wrote {written.describe()}", {"data": data, "encoder": encoder, "codes": written.as_dict()})
