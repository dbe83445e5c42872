"""Processes that import nothing: they are forked from a server that has the modules."""

import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from typing import Any

FORKS = multiprocessing.get_context("forkserver")


def begin(out: Connection, err: Connection, target: Callable[..., None], *given: Any) -> None:
    """Be the process, in a group of its own."""
    os.setsid()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for ours, theirs in ((1, out), (2, err)):
        os.dup2(theirs.fileno(), ours)
        theirs.close()
    sys.stdout, sys.stderr = (os.fdopen(ours, "w", encoding="utf-8", closefd=False) for ours in (1, 2))
    sys.__stdout__, sys.__stderr__ = sys.stdout, sys.stderr  # else closed when the command puts its own in their place
    target(*given)


class ForkedProcess:
    """As much of ``subprocess.Popen`` as tests use.

    Attributes
    ----------
    pid : int
        Of the process and of its group.
    stdout, stderr : text file
        What the process writes.
    """

    def __init__(self, target: Callable[..., None], *given: Any) -> None:
        pipes = [FORKS.Pipe(duplex=False) for _ in range(2)]
        self._process = FORKS.Process(target=begin, args=(*(theirs for _, theirs in pipes), target, *given))
        self._process.start()
        for _, theirs in pipes:
            theirs.close()
        self.pid = self._process.pid
        self.stdout, self.stderr = (os.fdopen(os.dup(ours.fileno())) for ours, _ in pipes)

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        if self._process.exitcode is None:
            raise subprocess.TimeoutExpired("a forked process", timeout or 0)
        return self._process.exitcode

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        with ThreadPoolExecutor(2) as readers:
            reading = [readers.submit(file.read) for file in (self.stdout, self.stderr)]
            self.wait(timeout)
            written = [each.result() for each in reading]
        for file in (self.stdout, self.stderr):
            file.close()
        return written[0], written[1]


def execute(program: str, words: list[str], environment: dict[str, str]) -> None:
    """Run the text of a program as ``python -c`` does."""
    os.environ.clear()  # it is that of the server
    os.environ.update(environment)
    sys.argv = ["-c", *words]
    exec(compile(program, "<string>", "exec"), {"__name__": "__main__"})


def forked_program(program: str, *words: object) -> ForkedProcess:
    """Start ``python -c program *words``, in an interpreter that has imported the modules of the command line."""
    return ForkedProcess(execute, program, [str(word) for word in words], dict(os.environ))


def lacking(*libraries: str) -> str:
    """Lines of a program that has no such libraries, and fails where its server has them."""
    return "".join(
        f"import sys\nassert {name!r} not in sys.modules, {name!r}\nsys.modules[{name!r}] = None\n"
        for name in libraries
    )
