"""Commands in processes of their own that import nothing: they are forked from a server that has the modules."""

import multiprocessing
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection

from spae_dask.cli.main import run

FORKS = multiprocessing.get_context("forkserver")


def run_forked(words: list[str], out: Connection, err: Connection) -> None:
    """Be the command, in a process group of its own."""
    os.setsid()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for ours, theirs in ((1, out), (2, err)):
        os.dup2(theirs.fileno(), ours)
        theirs.close()
    sys.stdout, sys.stderr = (os.fdopen(ours, "w", encoding="utf-8", closefd=False) for ours in (1, 2))
    sys.__stdout__, sys.__stderr__ = sys.stdout, sys.stderr  # else closed when the command puts its own in their place
    sys.argv = ["spae", *words]
    sys.exit(run())


class ForkedCommand:
    """As much of ``subprocess.Popen`` as tests use.

    Attributes
    ----------
    pid : int
        Of the process and of its group.
    stdout, stderr : text file
        What the command writes.
    """

    def __init__(self, words: list[str]) -> None:
        pipes = [FORKS.Pipe(duplex=False) for _ in range(2)]
        self._process = FORKS.Process(target=run_forked, args=(words, *(theirs for _, theirs in pipes)))
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
            raise subprocess.TimeoutExpired("spae", timeout or 0)
        return self._process.exitcode

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        with ThreadPoolExecutor(2) as readers:
            reading = [readers.submit(file.read) for file in (self.stdout, self.stderr)]
            self.wait(timeout)
            written = [each.result() for each in reading]
        for file in (self.stdout, self.stderr):
            file.close()
        return written[0], written[1]
