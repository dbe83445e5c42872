"""Dask's report of what a cluster did, for whoever wants to know where the time went."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from distributed import Client, performance_report

from spae_dask.errors import InvalidInput, StorageError


@contextmanager
def reported(path: str | None, client: Client | None) -> Iterator[None]:
    """Write what ``client`` does in the ``with`` block to an HTML file, if one is named.

    Raises
    ------
    InvalidInput
        If there is no cluster, or no bokeh to draw the report.
    StorageError
        If the file cannot be written: before anything is run if its folder is not there.
    """
    if path is None:
        yield
        return
    if client is None:
        raise InvalidInput(
            f"--performance-report {path} tells what a cluster does, and there is none for data this small. "
            "Add --cluster local, or leave it out."
        )
    if find_spec("bokeh") is None:
        raise InvalidInput(f'--performance-report {path} needs bokeh: `pip install "spae-dask[dashboard]"`.')
    if not Path(path).absolute().parent.is_dir():
        raise StorageError(f"--performance-report {path} cannot be written: its folder is not there. Make it first.")
    with performance_report(filename=path):
        yield
