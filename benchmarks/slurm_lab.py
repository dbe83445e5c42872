"""A Slurm of this machine for the time of a ``with`` block, and for no longer: its owner may be killed."""

import contextlib
import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
SCRIPTS = ROOT / "tests/integration/labs/slurm"

PROGRAMS = ("slurmctld", "slurmd", "munged", "sbatch", "setsid")

N_PORTS = 3
"""Of the controller and of two nodes."""


def missing() -> str:
    """What a lab needs and is not here; empty if nothing is missing."""
    names = [each for each in PROGRAMS if shutil.which(each) is None]
    if os.getuid() != 0:
        names.append("root")
    return ", ".join(names)


def free_ports(n: int) -> int:
    """The first of ``n`` ports in a row that nobody listens on."""
    for first in range(21000 + os.getpid() % 5000, 60000, n):
        with contextlib.ExitStack() as stack:
            try:
                for port in range(first, first + n):
                    stack.enter_context(socket.socket()).bind(("127.0.0.1", port))
            except OSError:
                continue
            return first
    raise AssertionError("no free ports")


@contextlib.contextmanager
def running_lab() -> Iterator[dict[str, str]]:
    """Start a Slurm of two nodes; yields the environment of commands that use it. Its jobs import this clone."""
    with tempfile.TemporaryDirectory(prefix="spae-slurm-") as folder:
        os.chmod(folder, 0o755)  # noqa: S103 - munge serves all users
        ours = {
            "SLURM_LAB": f"{folder}/lab",
            "SLURM_CONF": f"{folder}/lab/etc/slurm.conf",
            "PORT": str(free_ports(N_PORTS)),
            "OWNER": str(os.getpid()),
            "PYTHONPATH": str(ROOT),
            "OPENBLAS_NUM_THREADS": "1",
        }
        environment = os.environ | ours
        try:
            subprocess.run([SCRIPTS / "slurm-up.sh"], check=True, timeout=60, env=environment)
            yield ours
        finally:
            subprocess.run([SCRIPTS / "slurm-down.sh"], check=True, timeout=120, env=environment)
