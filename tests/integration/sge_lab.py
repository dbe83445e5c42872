"""A Grid Engine of this machine for the time of a ``with`` block, and for no longer: its owner may be killed."""

import contextlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator

from benchmarks.slurm_lab import free_ports
from tests.clusters.conftest import ROOT

PROGRAMS = ("sge_qmaster", "sge_execd", "qsub", "setsid")

N_PORTS = 2
"""Of the master and of the host."""

SCRIPTS = ROOT / "tests/integration/labs/sge"
LAB_TOML = (SCRIPTS / "lab.toml").read_text()


def missing() -> str:
    """What a lab needs and is not here; empty if nothing is missing."""
    names = [each for each in PROGRAMS if shutil.which(each) is None]
    if os.getuid() != 0:
        names.append("root")
    return ", ".join(names)


@contextlib.contextmanager
def running_lab() -> Iterator[dict[str, str]]:
    """Start a Grid Engine; yields the environment of commands that use it."""
    with tempfile.TemporaryDirectory(prefix="spae-sge-") as folder:
        os.chmod(folder, 0o755)
        port = free_ports(N_PORTS)
        ours = {
            "SGE_LAB": f"{folder}/lab",
            "SGE_ROOT": f"{folder}/lab",
            "SGE_CELL": "default",
            "SGE_QMASTER_PORT": str(port),
            "SGE_EXECD_PORT": str(port + 1),
        }
        environment = os.environ | ours | {"PORT": str(port), "OWNER": str(os.getpid())}
        try:
            subprocess.run([SCRIPTS / "sge-up.sh"], check=True, timeout=120, env=environment)
            yield ours
        finally:
            subprocess.run([SCRIPTS / "sge-down.sh"], check=True, timeout=120, env=environment)


def listed() -> list[str]:
    """The jobs that are not over: ``ID NAME STATE`` of each."""
    said = subprocess.run(["qstat"], check=True, capture_output=True, text=True).stdout.splitlines()[2:]
    return [" ".join((words[0], words[2], words[4])) for words in map(str.split, said)]
