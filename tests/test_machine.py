"""The memory a process may use: trees of control groups as they look in jobs and containers, and a real group."""

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import psutil
import pytest

from spae_dask.machine import memory_nbytes
from tests.cli.conftest import write_zarr
from tests.forked import forked_program

ALL = psutil.virtual_memory().total
MIB = 1 << 20
UNLIMITED_V1 = "9223372036854771712"


class Tree:
    """A file system of control groups below a folder, and what the kernel tells a process about it."""

    def __init__(self, folder: Path) -> None:
        self.proc, self.mounts = folder / "proc", folder / "a place"
        self.proc.mkdir()
        self.told("cgroup", "")
        self.told("mountinfo", "")

    def told(self, name: str, text: str) -> None:
        (self.proc / name).write_text(text.replace("MOUNTS", str(self.mounts).replace(" ", "\\040")))

    def holds(self, path: str, limit: str) -> None:
        file = self.mounts / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(limit + "\n")


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


V2 = "30 23 0:26 / MOUNTS/cg rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
V1 = "35 31 0:32 / MOUNTS/memory rw,relatime - cgroup cgroup rw,memory\n"


def test_without_groups_it_is_all_there_is(tree):
    assert memory_nbytes(tree.proc) == memory_nbytes(tree.proc / "nothing") <= ALL


def test_disks_may_be_mounted_at_paths_in_any_encoding(tree):
    tree.told("mountinfo", V2)
    tree.told("cgroup", "0::/job\n")
    tree.holds("cg/job/memory.max", str(300 * MIB))
    disk = b"36 35 98:0 / /media/\xe9t\xe9 rw - ext4 /dev/sdb1 rw\n"
    (tree.proc / "mountinfo").write_bytes(disk + (tree.proc / "mountinfo").read_bytes())
    assert memory_nbytes(tree.proc) == 300 * MIB


@pytest.mark.parametrize("where", ["job", "job/step", "job/step/task"])
def test_the_smallest_limit_on_the_way_up_counts_in_version_2(tree, where):
    tree.told("mountinfo", "29 1 0:25 / /sys rw - sysfs sysfs rw\n" + V2)
    tree.told("cgroup", "0::/job/step/task\n")
    for each in ("job", "job/step", "job/step/task"):
        tree.holds(f"cg/{each}/memory.max", str(300 * MIB) if each == where else "max")
        tree.holds(f"cg/{each}/memory.high", "max")
    tree.holds("cg/other/memory.max", str(MIB))
    assert memory_nbytes(tree.proc) == 300 * MIB


def test_a_limit_above_which_a_group_is_slowed_down_counts_too(tree):
    tree.told("mountinfo", V2)
    tree.told("cgroup", "0::/user.slice\n")
    tree.holds("cg/user.slice/memory.max", str(500 * MIB))
    tree.holds("cg/user.slice/memory.high", str(400 * MIB))
    assert memory_nbytes(tree.proc) == 400 * MIB


def test_version_1_is_followed_beside_an_empty_version_2(tree):
    tree.told("mountinfo", "34 31 0:31 / MOUNTS/cpu rw - cgroup cgroup rw,cpu\n" + V1 + V2)
    tree.told("cgroup", "9:cpu:/small\n4:memory:/slurm/job_7\n0::/\n")
    tree.holds("memory/memory.limit_in_bytes", UNLIMITED_V1)
    tree.holds("memory/slurm/memory.limit_in_bytes", UNLIMITED_V1)
    tree.holds("memory/slurm/job_7/memory.limit_in_bytes", str(200 * MIB))
    tree.holds("cpu/small/memory.limit_in_bytes", str(MIB))
    assert memory_nbytes(tree.proc) == 200 * MIB


def test_a_container_sees_its_own_group_at_the_top(tree):
    tree.told("mountinfo", V1.replace(" / ", " /pods/one ", 1))
    tree.told("cgroup", "4:memory:/pods/one\n")
    tree.holds("memory/memory.limit_in_bytes", str(250 * MIB))
    assert memory_nbytes(tree.proc) == 250 * MIB


@pytest.mark.parametrize("path", ["/elsewhere", "/../sibling"])
def test_a_group_out_of_sight_leaves_the_limit_at_the_top(tree, path):
    tree.told("mountinfo", V2.replace(" / ", " /pods/one ", 1))
    tree.told("cgroup", f"0::{path}\n")
    tree.holds("cg/memory.max", str(250 * MIB))
    assert memory_nbytes(tree.proc) == 250 * MIB


@pytest.mark.parametrize("limit", ["max", "0", UNLIMITED_V1, "nonsense", ""])
def test_what_is_no_limit_is_none(tree, limit):
    tree.told("mountinfo", V2)
    tree.told("cgroup", "0::/job\n")
    tree.holds("cg/job/memory.max", limit)
    assert memory_nbytes(tree.proc) == memory_nbytes(tree.proc / "nothing")


@pytest.fixture
def real_group() -> Iterator[Path]:
    """A control group of this machine, inside another that is limited to 700 MiB."""
    for top, name in ((Path("/sys/fs/cgroup/memory"), "memory.limit_in_bytes"), (Path("/sys/fs/cgroup"), "memory.max")):
        outer = top / f"spae-test-{os.getpid()}"
        with contextlib.suppress(OSError):
            outer.mkdir()
            (outer / "step").mkdir()
            (outer / name).write_text(str(700 * MIB))
            break
        remove(outer)
    else:
        pytest.skip("needs root and control groups for memory that can be written: none in /sys/fs/cgroup")
    yield outer / "step"
    remove(outer)


def remove(group: Path) -> None:
    for each in (group / "step", group):
        if each.exists():
            each.rmdir()


ENTER_AND_RUN = """
import os, sys
from pathlib import Path
from spae_dask.cli.main import run

group = sys.argv.pop(1)
(Path(group) / "cgroup.procs").write_text(str(os.getpid()))
run()
"""


def test_a_plan_knows_the_limit_of_a_real_group_around_its_own(real_group, tmp_path):
    values = np.random.default_rng(0).normal(size=(64, 8))
    store = write_zarr(tmp_path / "x.zarr", values, chunk_rows=16)
    asked = forked_program(ENTER_AND_RUN, real_group, "plan", store, "-k", "1", "-r", "2", "--json")
    out, err = asked.communicate(timeout=60)
    assert asked.returncode == 0, err
    assert json.loads(out)["plan"]["resources"]["memory_limit"] == 700 * MIB


@pytest.mark.skipif("CS_GNU_LIBC_VERSION" not in os.confstr_names, reason="another C library")
@pytest.mark.parametrize("at_start", [True, False])
def test_the_environment_of_the_start_says_if_freed_arrays_are_returned(at_start: bool) -> None:
    program = """
import os
import subprocess
import sys
os.environ["MALLOC_TRIM_THRESHOLD_"] = "65536"  # as a nanny leaves it behind; glibc has been set up
from spae_dask.machine import returns_freed_arrays
print(returns_freed_arrays())
"""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")}
    environment |= {"MALLOC_TRIM_THRESHOLD_": "65536"} if at_start else {}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(at_start)
