"""End of a command: an error becomes an exit code and one paragraph."""

import errno
import re
import signal
from difflib import get_close_matches
from typing import TypeGuard

from spae_dask.cli.parsing import UsageError, elsewhere
from spae_dask.cli.signals import Interrupted
from spae_dask.errors import (
    ClusterUnavailable,
    ImpossibleCertificate,
    InvalidInput,
    MemoryBudgetExceeded,
    MissingChunksWarning,
    PartsMissing,
    PassFailed,
    SpaeError,
    StorageError,
)
from spae_dask.strategies.parameters import PARAMETERS, STAND_ALONE

FAULT = 1
"""Exit code of an unexpected error."""

EXIT_CODES: tuple[tuple[type[BaseException], int], ...] = (
    (UsageError, 2),
    (MemoryBudgetExceeded, 4),
    (MemoryError, 4),
    (StorageError, 5),
    (ClusterUnavailable, 6),
    (PassFailed, 6),
    (PartsMissing, 75),  # as sysexits.h has it: try again later
    (InvalidInput, 3),
    (MissingChunksWarning, 3),  # an error under --strict
    (OSError, 5),
    (ImpossibleCertificate, FAULT),
)
"""The first class that fits decides. An interrupt ends with 128 plus its signal's number: SIGINT 130, SIGTERM 143."""

BROKEN_PIPE = 128 + signal.SIGPIPE
"""Exit code of a command whose output is not read to the end, as for any other program."""

OPTION_OF = {
    **{each.argument: each.options[0] for each in PARAMETERS.values()},
    "array": "--array",
    "chunks": "--chunks",
    "codec": "--codec",
    "dtype": "--dtype",
}
"""Command-line spelling of each argument that messages of the library name."""

KEYED = ("run", "submit")
"""Commands whose parameters are keys of a file, spelled as the library spells its arguments; and scripts are as they
will be run."""

_ARGUMENT = re.compile(rf"(?<![\w-])({'|'.join(OPTION_OF)})=('[^']*'|[^\s,;:()]*[^\s,;:().])")

_REPEATED = re.compile(r"(--[a-z-]+(?: \S+)?) \(\1\)")
"""An option beside its argument of Python, once that is spelled as the option."""


def exit_code(error: BaseException) -> int:
    """The exit code for ``error``."""
    if isinstance(error, KeyboardInterrupt):
        return 128 + (error.signum if isinstance(error, Interrupted) else signal.SIGINT)
    if _is_long_name(error):
        return 3
    return next((code for kind, code in EXIT_CODES if isinstance(error, kind)), FAULT)


def _is_long_name(error: BaseException) -> TypeGuard[OSError]:
    """Return True if no file system takes a path that was given, and no other check has reported it."""
    return isinstance(error, OSError) and not isinstance(error, SpaeError) and error.errno == errno.ENAMETOOLONG


def class_name(error: BaseException) -> str:
    """The name of the error's class for records; the parser's own many classes are one."""
    return "UsageError" if isinstance(error, UsageError) else type(error).__name__


def explain(error: BaseException, command: str) -> str:
    """The paragraph for ``error`` of ``spae COMMAND``, with arguments spelled as options of the command line."""
    if isinstance(error, UsageError):
        return _explain_usage(error, command)
    if exit_code(error) == FAULT:
        return (
            f"this is a bug of spae_dask: {type(error).__name__}: {error}. Run again with --debug to get the "
            "traceback, and report it."
        )
    if isinstance(error, MemoryError):
        return f"the process ran out of memory ({error}). Give a smaller --memory, so that fewer tasks run at once."
    if _is_long_name(error):
        # its imports are not needed by a command that succeeds
        from spae_dask.storage.writing.output_paths import too_long

        return too_long(str(error.filename or "given"))
    if isinstance(error, MissingChunksWarning):
        return f"{in_options(str(error), command)} --strict does not allow it."
    return in_options(str(error), command)


def in_options(text: str, command: str = "") -> str:
    """``n_components=0`` becomes ``-k 0``, and ``missing='mean'`` becomes ``--missing mean``, save for `spae run`."""
    text = text.replace(" (overwrite=True)", "")
    return text if command in KEYED else _REPEATED.sub(r"\1", _ARGUMENT.sub(_spell, text))


def _spell(found: re.Match[str]) -> str:
    option, value = OPTION_OF[found[1]], found[2].strip("'")
    return option if value == "True" else f"{option}{'=' if option in STAND_ALONE else ' '}{value}"


def _explain_usage(error: Exception, command: str) -> str:
    """Return the parser's message, with a suggestion and a pointer to the help."""
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else f"spae {command}".rstrip()
    meant = getattr(error, "possibilities", None)
    said: str = getattr(error, "message", str(error)) if meant else error.format_message()  # type: ignore[attr-defined]
    said = " ".join(said.split()).replace("Value error, ", "").rstrip(".")
    if meant:
        (closest,) = get_close_matches(getattr(error, "option_name", ""), meant, n=1, cutoff=0)
        said += f". Did you mean {closest}?"
    return f"{said}{'' if said.endswith('?') else '.'}{elsewhere(said)} See `{path} --help`."
