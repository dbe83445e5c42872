"""Dask's report of the work of a cluster, for users who want to know where the time went."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from distributed import Client, performance_report

from spae_dask.cli.console import Console
from spae_dask.errors import InvalidInput, OutputExists
from spae_dask.settings import text_setting
from spae_dask.storage.writing.publish import check_output, publish

SUFFIX = ".html"
TITLE = b"Dask Performance Report"
"""By which an earlier report is known."""

N_HEAD_BYTES = 4096
"""Bytes at the start of a page among which its title stands."""


@dataclass(frozen=True)
class PerformanceReport:
    """An HTML page that dask writes about the work of a command, or none.

    Parameters
    ----------
    path : str or None
        File that the page is written to.
    asked : bool
        True if the command line asks for the page. A page that a setting asks for is written if there is a cluster, and
        left out otherwise.
    """

    path: str | None = None
    asked: bool = False

    def check(self, where: str) -> None:
        """Refuse what cannot be written, before anything is started at ``where``.

        Raises
        ------
        InvalidInput
            If there will be no cluster, no bokeh to draw with, or the path is not that of a page.
        OutputExists
            If something else is there.
        StorageError
            If the folder may not be written to.
        """
        if self.path is None or (where == "none" and not self.asked):
            return
        name = f"--performance-report {self.path}" if self.asked else f"the performance report {self.path}"
        if where == "none":
            raise InvalidInput(
                f"{name} reports the work of a cluster, but this command uses none: the data are small, or --cluster "
                f"is none. Add --cluster local, or leave out {name}."
            )
        if not self.path.endswith(SUFFIX):
            raise InvalidInput(f"{name} writes an HTML page. Give a name that ends in {SUFFIX}.")
        if find_spec("bokeh") is None:
            raise InvalidInput(f'{name} needs bokeh: `pip install "spae-dask[dashboard]"`.')
        target = check_output(self.path, overwrite=True)
        if target.exists() and not _is_report(target):
            raise OutputExists(
                f"{target} exists and is not a performance report, so it is not replaced. Give another name."
            )

    @contextmanager
    def watching(self, client: Client | None, console: Console) -> Iterator[None]:
        """Write the page about what ``client`` does in the ``with`` block, if that ends well.

        The page replaces an earlier one when it is complete. Results never depend on it: if it cannot be made, that is
        a warning.
        """
        if self.path is None or client is None:
            yield
            return
        page, failure = performance_report(), None
        try:
            page.__enter__()
        except Exception as error:  # the scheduler raises exceptions of any type
            failure = error
        yield
        if failure is None:
            try:
                with publish(self.path, overwrite=True) as work:
                    page.filename = str(work)
                    # __exit__ would show this function as the code that was run
                    client.sync(page.__aexit__, None, None, None, code=f"spae {console.document['command']}")
            except Exception as error:
                failure = error
        if failure is None:
            console.note(f"wrote     {self.path}")
        else:
            console.warn(
                f"the performance report {self.path} could not be made ({type(failure).__name__}: {failure}). The "
                "scheduler also needs bokeh."
            )


NO_REPORT = PerformanceReport()


def wanted_report(given: str | None, output: str | None = None) -> PerformanceReport:
    """Return the report that the command line asks for, or else the one of the setting ``performance-report``.

    Raises
    ------
    InvalidInput
        If the page would be written where the output is.
    """
    path = text_setting("performance-report") if given is None else given
    if path and output is not None and Path(path).resolve() == Path(output).resolve():
        raise InvalidInput(
            f"{output} is given both as the output and as the performance report. Give them different names."
        )
    return PerformanceReport(path, asked=given is not None)


def _is_report(path: Path) -> bool:
    if not path.is_file():
        return False
    with path.open("rb") as page:
        return TITLE in page.read(N_HEAD_BYTES)
