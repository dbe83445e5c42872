"""Interrupted in the middle of a pass: the right code, no output, no process left."""

import json
import os
import signal
import time
from pathlib import Path

import numpy as np
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


def test_ctrl_c_in_a_fit_in_process(spae_process, huge):
    process = spae_process(*fit(huge, "none"), "--json")
    out, _ = interrupt_in_pass(process, signal.SIGINT, group=False)
    assert process.returncode == 130
    assert json.loads(out)["error"]["exit_code"] == 130
    assert names_in(huge.parent) == {"huge.zarr"}


def test_ctrl_c_in_a_sample(spae_process, huge):
    process = spae_process(*fit(huge, "none"), "--strategy", "sample")
    interrupt_in_pass(process, signal.SIGINT, group=False)
    assert process.returncode == 130
    assert names_in(huge.parent) == {"huge.zarr"}


def test_ctrl_c_at_a_terminal_reaches_the_workers_too_and_they_still_close_quietly(spae_process, huge):
    process = spae_process(*fit(huge, "local:2"))
    interrupt_in_pass(process, signal.SIGINT, group=True)
    assert process.returncode == 130
    assert names_in(huge.parent) == {"huge.zarr"}


def test_sigterm_in_a_fit_on_workers(spae_process, huge):
    process = spae_process(*fit(huge, "local:1"))
    interrupt_in_pass(process, signal.SIGTERM, group=False)
    assert process.returncode == 143
    assert names_in(huge.parent) == {"huge.zarr"}


def test_ctrl_c_in_a_transform_leaves_no_half_written_codes(spae, spae_process, huge):
    rows = np.random.default_rng(0).normal(size=(100, 64)).astype(np.float32)
    np.save(huge.with_name("x.npy"), rows)
    encoder = huge.with_name("enc.zarr")
    assert spae("fit", huge.with_name("x.npy"), "-k", 2, "-r", 3, "-o", encoder, "-q").code == 0
    process = spae_process("transform", huge, encoder, "-o", huge.with_name("z.zarr"), "--cluster", "none")
    interrupt_in_pass(process, signal.SIGINT, group=False)
    assert process.returncode == 130
    assert names_in(huge.parent) == {"huge.zarr", "x.npy", "enc.zarr"}


def test_ctrl_c_while_workers_start_waits_for_them_and_closes_them(spae_process, huge):
    process = spae_process(*fit(huge, "local:1"))
    while not psutil.Process(process.pid).children(recursive=True):
        assert process.poll() is None
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in err
    assert psutil.pids().count(process.pid) == 0
    assert names_in(huge.parent) == {"huge.zarr"}


def test_a_second_signal_ends_the_process_at_once(spae_process, huge, tmp_path):
    process = spae_process(*fit(huge, "local:1"), TMPDIR=str(tmp_path))  # there is no time to clean up
    wait_for_line(process, "warning: ")
    children = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(signal.SIGINT)
    wait_for_line(process, "stopping and cleaning up")
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=5) in (143, 130)
    _, alive = psutil.wait_procs(children, timeout=30)
    assert alive == []
