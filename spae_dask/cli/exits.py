"""How a command ends: from an error or a signal to an exit code and one paragraph."""

import os
import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import typer

from spae_dask.errors import (
    ClusterUnavailable,
    InvalidInput,
    MemoryBudgetExceeded,
    MissingChunksWarning,
    PassFailed,
    StorageError,
)

UsageError: type[Exception] = typer.BadParameter.__mro__[1]
"""Base of all errors of a command line; typer exports only this subclass of it."""

EXIT_CODES: tuple[tuple[type[BaseException], int], ...] = (
    (UsageError, 2),
    (MemoryBudgetExceeded, 4),
    (MemoryError, 4),
    (StorageError, 5),
    (ClusterUnavailable, 6),
    (PassFailed, 6),
    (InvalidInput, 3),
    (MissingChunksWarning, 3),  # an error under --strict
    (OSError, 5),
)
"""The first class that fits decides. An interrupt ends with 128 plus its signal's number: SIGINT 130, SIGTERM 143."""

FAULT = 1
"""Exit code of an error that nobody foresaw."""

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

OPTION_OF = {
    "n_components": "-k",
    "n_nonzero": "-r",
    "eps": "--eps",
    "method": "--method",
    "selection": "--selection",
    "strategy": "--strategy",
    "missing": "--missing",
    "array": "--array",
    "chunks": "--chunks",
    "codec": "--codec",
    "dtype": "--dtype",
}
"""How the command line spells the arguments that messages of the library name."""

_ARGUMENT = re.compile(rf"\b({'|'.join(OPTION_OF)})=('[^']*'|[^\s,;:()]*[^\s,;:().])")


class Interrupted(KeyboardInterrupt):
    """A signal asked to stop.

    Parameters
    ----------
    signum : int
        Which.
    """

    def __init__(self, signum: int) -> None:
        super().__init__(signum)
        self.signum = signum

    def __str__(self) -> str:
        """In words."""
        name = signal.Signals(self.signum).name
        return f"interrupted ({name}). An output appears under its name only when it is whole."


def exit_code(error: BaseException) -> int:
    """The exit code for ``error``."""
    if isinstance(error, KeyboardInterrupt):
        return 128 + (error.signum if isinstance(error, Interrupted) else signal.SIGINT)
    return next((code for kind, code in EXIT_CODES if isinstance(error, kind)), FAULT)


def explain(error: BaseException) -> str:
    """The paragraph for ``error``, with arguments spelled as options of the command line."""
    if isinstance(error, UsageError):
        return _explain_usage(error)
    if exit_code(error) == FAULT:
        return (
            f"this should not have happened: {type(error).__name__}: {error}. "
            "Run again with --debug for the traceback, and please report it."
        )
    if isinstance(error, MemoryError):
        return f"out of memory ({error}). Try a smaller --memory, which makes fewer tasks run at once."
    return in_options(str(error))


def in_options(text: str) -> str:
    """``n_components=0`` becomes ``-k 0``, and ``missing='mean'`` becomes ``--missing mean``."""
    return _ARGUMENT.sub(lambda found: f"{OPTION_OF[found[1]]} {found[2].strip(chr(39))}", text)


def _explain_usage(error: Exception) -> str:
    """What the parser says, with a suggestion and the way to the help."""
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "spae"
    meant = getattr(error, "possibilities", None)
    said: str = getattr(error, "message", str(error)) if meant else error.format_message()  # type: ignore[attr-defined]
    said = " ".join(said.split()).rstrip(".")
    if meant:
        said += f". Did you mean {' or '.join(sorted(meant))}?"
    return f"{said}{'' if said.endswith('?') else '.'} See `{command} --help`."


@contextmanager
def interruptible() -> Iterator[None]:
    """Turn signals into :class:`Interrupted` in the main thread, once; a second signal ends the process at once.

    A signal that the parent process made this one ignore, as ``nohup`` does, stays ignored.
    """
    received: list[int] = []

    def interrupt(signum: int, frame: FrameType | None) -> None:
        del frame
        if received:
            os._exit(128 + signum)
        received.append(signum)
        os.write(2, b"\nstopping and cleaning up; once more to stop at once\n")
        raise Interrupted(signum)

    before = {each: signal.getsignal(each) for each in SIGNALS}
    for each, handler in before.items():
        if handler is not signal.SIG_IGN:
            signal.signal(each, interrupt)
    try:
        yield
    finally:
        if not received:
            for each, handler in before.items():
                signal.signal(each, handler)
