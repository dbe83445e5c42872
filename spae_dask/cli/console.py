"""Console of a command: results on stdout, and everything else on stderr; or one JSON object on stdout."""

import json
import sys
import traceback
from collections.abc import Mapping
from typing import Any

from rich.console import Console as RichConsole
from rich.text import Text

from spae_dask.cli.exits import BROKEN_PIPE, class_name, exit_code, explain, in_options
from spae_dask.cli.json_log import JsonLog, JsonProgress
from spae_dask.cli.progress import Bar, Display, Lines, Meter, Silence
from spae_dask.cli.signals import Signals
from spae_dask.cli.streams import STDOUT, forget
from spae_dask.errors import StorageError
from spae_dask.storage.remote.url_secrets import without_secrets
from spae_dask.storage.writing.json_values import to_json


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
