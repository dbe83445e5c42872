"""``spae check``: what is wrong, or odd, with data."""

from spae_dask.cli import options
from spae_dask.cli.session import session
from spae_dask.errors import InvalidInput

EXAMPLES = """Examples:

  spae check X.zarr
  spae check X.zarr --strict && spae fit X.zarr -k 10 -r 12 -o ENC.zarr
"""


def check(
    data: options.DataArgument,
    array: options.ArrayOption = None,
    columns: options.ColumnsOption = None,
    missing_value: options.MissingValueOption = None,
    strict: options.StrictOption = False,
    cluster: options.ClusterOption = None,
    tls_dir: options.TlsDirOption = None,
    memory: options.MemoryOption = None,
    as_json: options.JsonOption = False,
    quiet: options.QuietOption = False,
    verbose: options.VerboseOption = 0,
    debug: options.DebugOption = False,
    log_json: options.LogJsonOption = False,
) -> None:
    """Look at every entry of DATA once: missing chunks, NaN, infinite entries, constant columns.

    Exits with 0 whatever it finds, or, with --strict, with 3 if it finds any problem.
    """
    with session("check", as_json=as_json, quiet=quiet, verbose=verbose, debug=debug, log_json=log_json) as screen:
        from spae_dask.cli.place import Place
        from spae_dask.estimators.checking import check as check_data
        from spae_dask.storage.open import open_matrix

        source = open_matrix(data, array=array, columns=options.columns_of(columns))
        with Place(cluster, memory, tls_dir).ready(source, screen):
            found = check_data(source, missing_value=missing_value, memory_limit=memory, progress=screen.progress)
        screen.result(str(found), {"data": data, "check": found.as_dict()})
        if strict and found.problems:
            raise InvalidInput(f"{data} has {len(found.problems)} problem(s), and --strict allows none.")
