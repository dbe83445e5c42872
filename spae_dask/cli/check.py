"""``spae check``: what is wrong, or odd, with data."""

from spae_dask.cli.options.data import DataArgument, DeepOption, StrictOption, WhichData
from spae_dask.cli.options.groups import takes_groups
from spae_dask.cli.options.parameters import MissingNumbers
from spae_dask.cli.options.screen import ScreenOptions
from spae_dask.cli.options.where import MemoryOption, Where
from spae_dask.cli.session import session
from spae_dask.errors import InvalidInput

EXAMPLES = """Examples:

  spae check X.zarr
  spae check X.zarr --strict && spae fit X.zarr -k 10 -r 12 -o ENC.zarr
"""


@takes_groups
def check(
    *,
    data: DataArgument,
    which: WhichData,
    missing: MissingNumbers,
    deep: DeepOption = False,
    strict: StrictOption = False,
    where: Where,
    memory: MemoryOption = None,
    shown: ScreenOptions,
) -> None:
    """Check every entry of DATA in one pass: missing chunks, NaN, infinite entries, constant columns.

    Exits with 0, whether or not it finds problems. With --strict, it exits with 3
    if it finds any.
    """
    with session("check", shown) as screen:
        from spae_dask.estimators.checking import check as check_data

        source = which.open(data, memory)
        with where.place(memory).ready(source, screen):
            found = check_data(
                source,
                **missing.parameters,
                deep=deep,
                memory_limit=memory,
                progress=screen.progress,
            )
        screen.result(str(found), {"data": data, "check": found.as_dict()})
        if strict and found.problems:
            raise InvalidInput(f"{data} has {len(found.problems)} problem(s), and --strict allows none.")
