"""Console of a command: results on stdout, and everything else on stderr; or one JSON object on stdout.

`command_context` is the frame of every verb around its one call: it handles signals and warnings, and turns an error
into an exit code. `prepare_streams` prepares the process for streams that are closed or full, and for pipes without a
reader.
"""

import io
import json
import os
import sys
import traceback
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

import typer
from rich.console import Console as RichConsole
from rich.text import Text

from spae_dask.cli.exits import BROKEN_PIPE, class_name, exit_code, explain, in_options
from spae_dask.cli.options.output import ConsoleOptions
from spae_dask.cli.progress import Bar, Display, JsonLog, JsonProgress, Lines, Meter, Silence
from spae_dask.cli.signals import Signals
from spae_dask.errors import MissingChunksWarning, SpaeWarning, StorageError
from spae_dask.storage.remote.address import without_secrets
from spae_dask.storage.writing.json_and_csv import to_json


class Console:
    """Standard output and standard error of one command.

    Parameters
    ----------
    as_json : bool
        True to write one JSON object to stdout when the command ends, and nothing else.
    quiet : bool
        True to leave out progress, the plan and hints.
    verbose : int
        Number of times ``-v`` was given.
    log_json : bool
        True to write one JSON object a line to stderr, and nothing else.

    Attributes
    ----------
    progress : Meter
        Meter that watches the engine.
    signals : Signals
        Signals that may interrupt the command.
    document : dict
        Content of the JSON object.
    left : bool
        True if the reader of stdout has left, as `head` does.
    """

    def __init__(self, *, as_json: bool, quiet: bool, verbose: int, log_json: bool = False) -> None:
        self.as_json = as_json
        self.quiet = quiet
        self.verbose = verbose
        self.signals = Signals()
        self.document: dict[str, Any] = {}
        self.warnings: list[str] = []
        self.left = False
        self._err = RichConsole(file=sys.stderr, stderr=True)
        on_terminal = sys.stderr.isatty() and not self._err.is_dumb_terminal
        self._json = JsonLog(sys.stderr, lambda: str(self.document.get("command", ""))) if log_json else None
        self._display: Display
        if quiet:
            self._display = Silence()
        elif self._json is not None:
            self._display = JsonProgress(self._json)
        else:
            self._display = Bar(self._err) if on_terminal else Lines(sys.stderr)
        self.progress = Meter(self._display)

    def note(self, text: str) -> None:
        """Print a note on stderr, unless ``quiet`` is set."""
        if not self.quiet:
            self._say("info", "note", text)

    def result(self, text: str, document: Mapping[str, Any]) -> None:
        """Print the command's result, as text or as JSON values."""
        self.document |= document
        if not self.as_json:
            self._put(printable(in_options(text, self.document.get("command", ""))))

    def warn(self, message: str) -> None:
        """Print a warning, once."""
        message = without_secrets(in_options(message, self.document.get("command", "")))
        if message not in self.warnings:
            self.warnings.append(message)
            self._say("warning", "warning", message, "warning:", "bold yellow")

    def log(self, line: str, level: str = "debug") -> None:
        """Print a line of a log."""
        self._say(level, "log", line, style="dim")

    def fail(self, error: BaseException, *, debug: bool) -> int:
        """Report an error and give back the exit code."""
        self.stop()
        code, message = exit_code(error), without_secrets(explain(error, self.document.get("command", "")))
        if debug:
            self._say("debug", "log", "".join(traceback.format_exception(error)).rstrip())
        self._say("error", "error", message, "error:", "bold red")
        self.document["error"] = {"class": class_name(error), "message": message, "exit_code": code}
        return code

    def stop(self) -> None:
        """End the progress bar."""
        self._display.stop()

    def close(self, code: int, *, debug: bool = False) -> int:
        """Print the JSON object, if that is what was asked for, and give back the exit code of the command.

        Parameters
        ----------
        code : int
            The exit code so far.
        debug : bool
            True to print the traceback of an error.
        """
        self.stop()
        if self.as_json:
            document = to_json(self.document | {"warnings": self.warnings}, "the result")
            try:
                self._put(json.dumps(document, indent=2, allow_nan=False))
            except StorageError as error:
                code = code or self.fail(error, debug=debug)
        return code or (BROKEN_PIPE if self.left else 0)

    def _put(self, text: str) -> None:
        self._display.stop()
        try:
            sys.stdout.write(f"{text}\n")
            sys.stdout.flush()
        except BrokenPipeError:
            forget(STDOUT)
            self.left = True
        except OSError as error:
            forget(STDOUT)
            raise unwritten(error) from error

    def _say(self, level: str, event: str, message: str, title: str = "", style: str = "") -> None:
        """Write to stderr: ``message`` as a JSON object if that is wanted, else after a title in a style, or in it."""
        message = without_secrets(message)
        if self._json is not None:
            self._json.write(level, event, message)
        else:
            shown = Text.assemble((title, style), " ", printable(message)) if title else Text(printable(message), style)
            # soft_wrap: a line that is piped, searched or copied must not be cut to some width
            self._err.print(shown, soft_wrap=True, highlight=False, markup=False)


def unwritten(error: OSError) -> StorageError:
    """The error for a result that standard output does not take."""
    return StorageError(
        f"the result cannot be written to standard output: {error.strerror or error}. Redirect it to a file "
        "on a disk with free space: > result.txt"
    )


def printable(text: str) -> str:
    """``text`` with control characters escaped, so that no name in a file can steer the terminal."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() or each == "\n" else repr(each)[1:-1] for each in text)


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


STDOUT, STDERR = 1, 2


class Lenient(io.TextIOWrapper):
    """Standard error that never fails: text that cannot be written is lost, and the command continues.

    Parameters
    ----------
    wrapped : io.TextIOWrapper
        Stream whose buffer this one writes to. It is kept, because it closes the buffer when nothing refers to it.
    """

    def __init__(self, wrapped: io.TextIOWrapper) -> None:
        super().__init__(wrapped.buffer, wrapped.encoding, "backslashreplace", line_buffering=True)
        self.wrapped = wrapped

    def write(self, text: str) -> int:
        """Write ``text``, or drop it and all that follows."""
        try:
            return super().write(text)
        except OSError:
            self._give_up()
            return len(text)

    def flush(self) -> None:
        """Write what is held, or drop it."""
        try:
            super().flush()
        except OSError:
            self._give_up()

    def _give_up(self) -> None:
        forget(STDERR)
        with suppress(OSError):
            super().flush()  # what is still held goes the same way


def prepare_streams() -> None:
    """Make the three streams exist: a closed one would be None, and a file opened later would take its number.

    A closed standard output fails when a result is written to it, as it should. Standard error never fails.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            # writing to a descriptor that is open for reading fails like writing to a closed one
            forget(number, os.O_WRONLY if number == STDERR else os.O_RDONLY)
            stream = os.fdopen(number, "w" if number else "r", closefd=False)
            setattr(sys, name, stream)
            setattr(
                sys, f"__{name}__", stream
            )  # kept, because a stream without references closes the descriptor it wraps
    stderr = sys.stderr
    if isinstance(stderr, io.TextIOWrapper):
        sys.stderr = Lenient(stderr)


def forget(number: int, flags: int = os.O_WRONLY) -> None:
    """Let what is written to a stream from now on vanish, so that the interpreter does not fail on it at its end."""
    null = os.open(os.devnull, flags)
    if null == number:
        os.set_inheritable(number, True)
    else:
        os.dup2(null, number)
        os.close(null)
