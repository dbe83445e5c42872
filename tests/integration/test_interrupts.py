"""Interrupted in the middle of a pass on workers, in a sample, in a transform, and while workers start."""

import os
import signal
import time

import numpy as np
import psutil
import pytest

from tests.cli.test_interrupts import fit, interrupt_in_pass, names_in, wait_for_line
from tests.cli.test_run import interrupted_and_run_again

pytestmark = pytest.mark.chaos


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


@pytest.mark.parametrize(("where", "signum"), [("local:1", signal.SIGINT), ("local:1", signal.SIGTERM)])
def test_an_interrupted_run_on_workers_goes_on_at_the_unfinished_step(spae, spae_process, huge, where, signum):
    interrupted_and_run_again(spae, spae_process, huge, where, signum)
