"""A child process with all its descendants: what it answers, how long it took, and the memory each of them held."""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

EVERY_SECONDS = 0.05
"""How often memory is looked at. Peaks of single processes are the system's own and are not missed in between."""

DESCENDANTS_EVERY_SECONDS = 0.5
"""How often new descendants are looked for."""

GRACE_SECONDS = 15
"""Time that processes get to clean up after themselves."""


@dataclass(frozen=True)
class Watched:
    """How a child ended.

    Attributes
    ----------
    answer : dict or None
        The last line it printed, a JSON object; None if it failed.
    failure : str
        The last line of its complaint; empty if it did not fail.
    seconds : float
        From its start to its end.
    caller_nbytes : int
        Peak resident bytes of the child itself.
    worker_nbytes : int
        Of the largest of its descendants; 0 without any.
    together_nbytes : int
        Peak of the sum over all of them. Pages that they share, such as code, are counted for each.
    """

    answer: dict[str, Any] | None
    failure: str
    seconds: float
    caller_nbytes: int
    worker_nbytes: int
    together_nbytes: int


def resident(pid: int) -> tuple[int, int]:
    """Resident bytes of a process now, and at most since it began; zeros if it is no more."""
    try:
        status = Path(f"/proc/{pid}/status")
        if not status.exists():
            now = psutil.Process(pid).memory_info().rss
            return now, now
        fields = dict(line.split(":", 1) for line in status.read_text().splitlines())
        return 1024 * int(fields["VmRSS"].split()[0]), 1024 * int(fields["VmHWM"].split()[0])
    except (OSError, KeyError, psutil.Error):  # it has ended, or is ending and holds nothing
        return 0, 0


def watch(module: str, arguments: Sequence[str], timeout: float | None = None) -> Watched:
    """Run ``python -m module`` on arguments from the repository's root until it ends, or until ``timeout`` seconds."""
    with tempfile.TemporaryFile("w+") as printed, tempfile.TemporaryFile("w+") as complaint:
        child = subprocess.Popen(
            [sys.executable, "-m", module, *arguments], stdout=printed, stderr=complaint, cwd=Path(__file__).parents[1]
        )
        seconds, late, peaks, together = _until_it_ends(child, timeout)
        printed.seek(0)
        complaint.seek(0)
        failure = ""
        if late:
            failure = f"not done after {timeout:.0f} s"
        elif child.returncode:
            failure = (complaint.read().strip().splitlines() or [f"exit status {child.returncode}"])[-1]
        answer = None if failure else json.loads(printed.read().strip().splitlines()[-1])
    caller = peaks.pop(child.pid)
    return Watched(answer, failure, seconds, caller, max(peaks.values(), default=0), together)


def _until_it_ends(child: "subprocess.Popen[bytes]", timeout: float | None) -> tuple[float, bool, dict[int, int], int]:
    """Seconds it took, whether it was ended for being late, the peak of each process, and of their sum."""
    began = time.perf_counter()
    peaks: dict[int, int] = {child.pid: 0}
    together, looked, late = 0, -DESCENDANTS_EVERY_SECONDS, False
    descendants: list[psutil.Process] = []
    while child.poll() is None:
        elapsed = time.perf_counter() - began
        if elapsed - looked >= DESCENDANTS_EVERY_SECONDS:
            looked, descendants = elapsed, _descendants(child.pid)
        sizes = {pid: resident(pid) for pid in (child.pid, *(process.pid for process in descendants))}
        together = max(together, sum(now for now, _ in sizes.values()))
        for pid, (_, peak) in sizes.items():
            peaks[pid] = max(peaks.get(pid, 0), peak)
        if timeout is not None and elapsed > timeout:
            late = True
            _end(child, descendants)
        time.sleep(EVERY_SECONDS)
    return time.perf_counter() - began, late, peaks, together


def _descendants(pid: int) -> list[psutil.Process]:
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.Error:
        return []


def _end(child: "subprocess.Popen[bytes]", descendants: Sequence[psutil.Process]) -> None:
    child.terminate()
    try:
        child.wait(GRACE_SECONDS)
    except subprocess.TimeoutExpired:
        child.kill()
    for process in descendants:  # those that the child did not end itself
        with suppress(psutil.Error):
            process.terminate()
    for process in psutil.wait_procs(descendants, timeout=GRACE_SECONDS)[1]:
        with suppress(psutil.Error):
            process.kill()
