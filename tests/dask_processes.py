"""A scheduler and workers that somebody else started: processes of their own, by dask's own commands."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

TRACED = """
import faulthandler, runpy, sys
faulthandler.dump_traceback_later(45, repeat=True)
sys.argv = sys.argv[1:]
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
"""
"""A program that runs a module, and writes now and then where its threads are: most tests end before it does."""


@dataclass
class DaskProcesses:
    """Context manager: the processes started through it end with it.

    Attributes
    ----------
    folder : Path
        Where logs and the scheduler's address are kept.
    options : tuple of str
        Of every command, such as those of TLS.
    """

    folder: Path
    options: tuple[str, ...] = ()
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def __enter__(self) -> "DaskProcesses":
        self.folder.mkdir(parents=True, exist_ok=True)
        return self

    def __exit__(self, *_: object) -> None:
        for process in reversed(self.processes):
            end(process)
        print(self.logs())  # shown if the test fails

    def scheduler(self, *options: str, protocol: str = "tcp") -> str:
        """Start a scheduler on a free port of the loopback interface; its address."""
        file = self.folder / f"scheduler-{len(self.processes)}.json"
        here = ("--host", f"{protocol}://127.0.0.1", "--port", "0", "--no-dashboard", "--no-show")
        self._start("dask_scheduler", *here, "--scheduler-file", str(file), *self.options, *options)
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            if file.exists() and file.read_text():
                return str(json.loads(file.read_text())["address"])
            time.sleep(0.05)
        raise AssertionError(f"no scheduler within a minute:\n{self.logs()}")

    def worker(self, address: str, *options: str) -> subprocess.Popen[bytes]:
        """Start a worker without a nanny, so that it stays dead."""
        scratch = self.folder / f"scratch-{len(self.processes)}"
        here = ("--nthreads", "1", "--no-dashboard", "--no-nanny", "--memory-limit", "1GB", "--local-directory")
        return self._start("dask_worker", address, *here, str(scratch), *self.options, *options)

    def logs(self) -> str:
        """All that they wrote."""
        return "\n".join(log.read_text() for log in sorted(self.folder.glob("*.log")))

    def _start(self, module: str, *words: str) -> subprocess.Popen[bytes]:
        with (self.folder / f"{len(self.processes)}-{module}.log").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-c", TRACED, f"distributed.cli.{module}", *words],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                env=os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
            )
        self.processes.append(process)
        return process


def end(process: subprocess.Popen[bytes]) -> None:
    """Kill a process, stopped or not."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(timeout=30)
