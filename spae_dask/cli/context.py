"""Frame of every verb around its one call: it handles signals and warnings, and turns an error into an exit code."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer

from spae_dask.cli.console import Console
from spae_dask.cli.options.console import ConsoleOptions
from spae_dask.errors import MissingChunksWarning, SpaeWarning


@contextmanager
def command_context(command: str, shown: ConsoleOptions, *, strict: bool = False) -> Iterator[Console]:
    """Yield the console of a command, and end the command with the right exit code whatever happens.

    Parameters
    ----------
    command : str
        The verb, for the record.
    shown : ConsoleOptions
        The options that all verbs share.
    strict : bool
        True to treat chunks that are not stored as an error.

    Raises
    ------
    typer.Exit
        If the command failed; it has been reported.
    """
    console = Console(as_json=shown.as_json, quiet=shown.quiet, verbose=shown.verbose, log_json=shown.log_json)
    console.document["command"] = command
    code = 0
    try:
        with console.signals, _warnings(console, strict=strict):
            yield console
    except BaseException as error:
        code = console.fail(error, debug=shown.debug)
    code = console.close(code, debug=shown.debug)
    if code:
        raise typer.Exit(code)


@contextmanager
def _warnings(console: Console, *, strict: bool) -> Iterator[None]:
    """Show the package's own warnings; those of other libraries are for ``-v``."""

    def show(message: Warning | str, category: type[Warning], *_: Any) -> None:
        if issubclass(category, SpaeWarning):
            console.warn(str(message))
        elif console.verbose:
            console.log(f"{category.__name__}: {message}")

    with warnings.catch_warnings():
        warnings.simplefilter("always", SpaeWarning)
        if strict:
            warnings.simplefilter("error", MissingChunksWarning)
        warnings.showwarning = show  # type: ignore[assignment]  # of its arguments it takes two
        yield
