"""A Kubernetes of one real node with the Dask operator, for tests; or the reason why it cannot be here."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.clusters.conftest import ROOT, wait_until

DEPLOY = ROOT / "deploy/kubernetes"
SCRIPT = DEPLOY / "lab/lab.sh"
IMAGE = "localhost/spae:dev"
EVERYTHING = "daskclusters,daskjobs,jobs,deployments,services,pods"

CLUSTER = f"""kind = "kubernetes"
image = "{IMAGE}"
pull_policy = "Never"
host_network = true
namespace = "spae"
workers = 2
memory = "1GiB"
scheduler_memory = "512MiB"
scratch = "256MiB"
timeout = "150s"
environment = {{ PYTHONPATH = "/src" }}
volumes = [
  {{ claim = "spae-data", path = "DATA", read_only = true }},
  {{ claim = "spae-results", path = "/results" }},
  {{ host_path = "{ROOT}", path = "/src", read_only = true }},
]
driver = {{ memory = "1GiB", walltime = "10m" }}
"""
"""Pods run the code of this clone; libraries are those of the image."""

VOLUME = """apiVersion: v1
kind: PersistentVolume
metadata: {{name: {name}}}
spec:
  capacity: {{storage: 500Gi}}
  accessModes: [{mode}]
  hostPath: {{path: {path}}}
  claimRef: {{namespace: spae, name: {name}}}
"""


@dataclass(frozen=True)
class Lab:
    """A running lab.

    Attributes
    ----------
    folder : Path
        What pods and commands both see at its path, pods without writing.
    results : Path
        Where pods write, below ``/results``.
    """

    folder: Path
    results: Path

    def words(self, *command: object) -> list[str]:
        """A command, where the cluster is."""
        return [str(SCRIPT), "in", *map(str, command)]

    def kubectl(self, *words: str, text: str | None = None) -> str:
        """What kubectl says, in the namespace of the tests."""
        command = self.words("kubectl", "--namespace", "spae", *words)
        done = subprocess.run(command, input=text, check=True, capture_output=True, text=True, timeout=120)
        return done.stdout

    def objects(self, kinds: str, selector: str = "") -> list[Any]:
        """All of these kinds."""
        return json.loads(self.kubectl("get", kinds, "--selector", selector, "--output", "json"))["items"]

    def names(self, kinds: str = EVERYTHING, selector: str = "") -> list[str]:
        """``kind/name`` of all of these kinds."""
        return self.kubectl("get", kinds, "--selector", selector, "--output", "name").split()

    def workers(self) -> list[str]:
        """Names of the pods of workers that are ready."""
        pods = self.objects("pods", "dask.org/component=worker")
        ready = [each for each in pods if {"type": "Ready", "status": "True"}.items() <= _ready(each).items()]
        return [each["metadata"]["name"] for each in ready if "deletionTimestamp" not in each["metadata"]]

    def wait_for_nothing(self, seconds: float = 60) -> None:
        """Fail if something is left."""
        wait_until(lambda: self.names() == [], seconds, "an empty namespace")

    def cluster_file(self, **changed: str) -> Path:
        """A cluster file; ``memory='"20MiB"'`` puts that value in place of what is there."""
        lines = CLUSTER.replace("DATA", str(self.folder)).splitlines()
        for key, value in changed.items():
            lines = [line for line in lines if not line.startswith(f"{key} =")] + [f"{key} = {value}"]
        path = self.folder / "cluster.toml"
        path.write_text("\n".join(lines) + "\n")
        return path

    @contextmanager
    def started(self, *command: object, outside: bool = False) -> Iterator[subprocess.Popen[str]]:
        """A command that is ended with the ``with`` block, if it is not over; ``spae`` is that of this clone.

        ``outside`` is where no name of a service is known, as on the machine of a user.
        """
        program = {"spae": [sys.executable, "-m", "spae_dask"], "python": [sys.executable, "-W", "ignore"]}
        hidden = ["unshare", "--mount", "sh", "-c", 'mount --bind /dev/null /etc/resolv.conf && exec "$@"', "sh"]
        words = self.words(*(hidden if outside else ()), *program[str(command[0])], *command[1:])
        process = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            env=os.environ | {"PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
        )
        try:
            yield process
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()


def _ready(pod: Any) -> dict[str, Any]:
    found = [each for each in pod["status"].get("conditions", ()) if each["type"] == "Ready"]
    return found[0] if found else {}


@contextmanager
def running_lab() -> Iterator[Lab]:
    """A lab with our namespace, network policy and volumes; the test is skipped where its programs are not."""
    for variable, what in (("SPAE_KUBE_BIN", "lab/build.sh"), ("SPAE_KUBE_IMAGES", "lab/lab.sh")):
        if variable not in os.environ:
            pytest.skip(f"{variable} is not set: see deploy/kubernetes/{what}")
    with tempfile.TemporaryDirectory(prefix="spae-kube-", dir="/tmp") as base, pytest.MonkeyPatch.context() as patch:
        os.chmod(base, 0o755)
        patch.setenv("SPAE_KUBE_LAB", f"{base}/lab")
        patch.setenv("PYTHON", sys.executable)
        lab = Lab(Path(base) / "data", Path(base) / "results")
        try:
            up = subprocess.run([SCRIPT, "up"], check=False, capture_output=True, text=True, timeout=280)
            if up.returncode == 3:
                pytest.skip(f"no Kubernetes here: {'; '.join(up.stderr.splitlines())}")
            assert up.returncode == 0, up.stderr
            lab.folder.mkdir()
            lab.results.mkdir()
            shutil.chown(lab.results, 1000)
            lab.kubectl("create", "--filename", str(DEPLOY / "namespace.yaml"))
            lab.kubectl("create", "--filename", str(DEPLOY / "network-policy.yaml"))
            for name, mode, path in (
                ("spae-data", "ReadOnlyMany", lab.folder),
                ("spae-results", "ReadWriteMany", lab.results),
            ):
                lab.kubectl("create", "--filename", "-", text=VOLUME.format(name=name, mode=mode, path=path))
            yield lab
        finally:
            if Path(base, "lab").exists():
                subprocess.run([SCRIPT, "down"], check=True, timeout=120)
