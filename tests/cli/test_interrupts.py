"""Interrupted in the middle of a pass: the right code, no output, no process left."""

import json
import os
import signal
import time
from pathlib import Path

import psutil
import pytest

pytestmark = pytest.mark.chaos


def wait_for_line(process, start: str) -> None:
    """Until the command has said a line that starts so on stderr."""
    for line in process.stderr:
        if line.startswith(start):
            return
    pytest.fail(f"the command ended with {process.wait()} and never said {start!r}")


def interrupt_in_pass(process, signum: int, *, group: bool, begun: Path | None = None) -> tuple[str, str]:
    """Signal a command once its pass runs, or a file is there, and see that all its processes end with it."""
    wait_for_line(process, "warning: ")  # of chunks not stored, given just before the pass
    time.sleep(0.3)
    while begun is not None and not begun.exists() and process.poll() is None:
        time.sleep(0.05)
    children = psutil.Process(process.pid).children(recursive=True)
    (os.killpg if group else os.kill)(process.pid, signum)
    out, err = process.communicate(timeout=60)
    _, alive = psutil.wait_procs(children, timeout=60)
    assert alive == []
    assert "Traceback" not in err
    assert err.splitlines()[-1].startswith("error: interrupted")
    return out, err


def names_in(folder: Path) -> set[str]:
    return {each.name for each in folder.iterdir()}


def fit(huge: Path, where: str) -> list[object]:
    return ["fit", huge, "-k", 2, "-r", 3, "-o", huge.with_name("e.zarr"), "--cluster", where]


def test_ctrl_c_in_a_fit_in_process(spae_forked, huge):
    process = spae_forked(*fit(huge, "none"), "--json")
    out, _ = interrupt_in_pass(process, signal.SIGINT, group=False)
    assert process.returncode == 130
    assert json.loads(out)["error"]["exit_code"] == 130
    assert names_in(huge.parent) == {"huge.zarr"}
