"""``spae check``: what is wrong, or odd, with data."""

from spae_dask.cli.console import command_context
from spae_dask.cli.options.data import DataArgument, DeepOption, StrictOption, WhichData
from spae_dask.cli.options.groups import takes_groups
from spae_dask.cli.options.output import ConsoleOptions
from spae_dask.cli.options.parameters import RawNumbers
from spae_dask.cli.options.target import MemoryOption, TargetOptions
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
    numbers: RawNumbers,
    deep: DeepOption = False,
    strict: StrictOption = False,
    where: TargetOptions,
    memory: MemoryOption = None,
    shown: ConsoleOptions,
) -> None:
    """Check every entry of DATA in one pass: missing chunks, NaN, infinite entries, constant columns.

    Exits with 0, whether or not it finds problems. With --strict, it exits with 3
    if it finds any.
    """
    with command_context("check", shown) as console:
        from spae_dask.estimators.checking import check as check_data

        source = which.open(data, memory)
        with where.place(memory).ready(source, console):
            found = check_data(
                source,
                **numbers.parameters,
                deep=deep,
                memory_limit=memory,
                progress=console.progress,
            )
        console.result(str(found), {"data": data, "check": found.as_dict()})
        if strict and found.problems:
            raise InvalidInput(f"{data} has {len(found.problems)} problem(s), and --strict allows none.")
