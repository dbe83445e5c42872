"""Standard input, output and error of the process: closed ones, full ones, and pipes without a reader."""

import io
import os
import sys
from contextlib import suppress

STDOUT, STDERR = 1, 2


class Lenient(io.TextIOWrapper):
    """Standard error that never fails: text that cannot be written is lost, and the command continues."""

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
        sys.stderr = Lenient(stderr.buffer, stderr.encoding, "backslashreplace", line_buffering=True)


def forget(number: int, flags: int = os.O_WRONLY) -> None:
    """Let what is written to a stream from now on vanish, so that the interpreter does not fail on it at its end."""
    null = os.open(os.devnull, flags)
    if null == number:
        os.set_inheritable(number, True)
    else:
        os.dup2(null, number)
        os.close(null)
