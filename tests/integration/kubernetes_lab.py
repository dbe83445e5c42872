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
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.clusters.conftest import ROOT, wait_until
from tests.integration.conftest import ended

DEPLOY = ROOT / "deploy/kubernetes"
SCRIPT = ROOT / "tests/integration/labs/kubernetes/lab.sh"
IMAGE = "localhost/spae:dev"
MANIFESTS = ("namespace.yaml", "network-policy.yaml", "rbac.yaml")
OURS = "app.kubernetes.io/name=spae"
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
    kubeconfig : Path, optional
        Of who runs commands; the administrator does if it is not given.
    """

    folder: Path
    results: Path
    kubeconfig: Path | None = None

    def words(self, *command: object) -> list[str]:
        """A command, where the cluster is."""
        who = () if self.kubeconfig is None else ("env", f"KUBECONFIG={self.kubeconfig}")
        return [str(SCRIPT), "in", *map(str, (*who, *command))]

    def of_account(self, name: str) -> "Lab":
        """The same, with the rights of a service account of the namespace and no others."""
        config = yaml.safe_load(Path(os.environ["SPAE_KUBE_LAB"], "kubeconfig").read_text())
        config["users"][0]["user"]["token"] = self.kubectl("create", "token", name).strip()
        path = self.folder.with_name(f"kubeconfig-{name}")
        path.write_text(yaml.safe_dump(config))
        return replace(self, kubeconfig=path)

    def asked(self, account: str) -> dict[tuple[str, str, str], set[str]]:
        """Group, resource and verb of all that a service account asked the server for, and what the answers were."""
        found: dict[tuple[str, str, str], set[str]] = {}
        for line in Path(os.environ["SPAE_KUBE_LAB"], "log/audit.log").read_text().splitlines():
            event = json.loads(line)
            if event["user"].get("username") != f"system:serviceaccount:spae:{account}" or "objectRef" not in event:
                continue  # by others; or what kinds there are, which everybody may ask
            of = event["objectRef"]
            resource = "/".join(filter(None, (of["resource"], of.get("subresource"))))
            answers = found.setdefault((of.get("apiGroup", ""), resource, event["verb"]), set())
            answers.add(event["annotations"]["authorization.k8s.io/decision"])
        return found

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

    def clear(self) -> None:
        """Remove what a test that failed has left, so that others do not fail as well."""
        self.kubectl("delete", "daskclusters,daskjobs,jobs,configmaps", "--selector", OURS, "--wait=false")

    def wait_for_nothing(self, seconds: float = 120) -> None:
        """Fail if something is left."""
        wait_until(lambda: self.names() == [], seconds, "an empty namespace")

    def fit_words(self, data: str = "x.zarr", **changed: str) -> tuple[object, ...]:
        """A fit on pods; ``changed`` as `cluster_file` has it."""
        words = ("spae", "fit", self.folder / data, "-k", 3, "-r", 5, "-o", self.folder / "e.zarr", "--force")
        return (*words, "--cluster", self.cluster_file(**changed))

    def submitted(self, data: str = "x.zarr", **changed: str) -> str:
        """Submit a pipeline of one fit; what the command says then."""
        pipeline = self.folder / "p.toml"
        step = f'kind = "fit"\nname = "enc"\ndata = "{self.folder / data}"\nn_components = 3\nn_nonzero = 5\n'
        pipeline.write_text(f'output = "/results/run"\n\n[[step]]\n{step}')
        words = ("spae", "submit", "kubernetes", pipeline, "--cluster", self.cluster_file(**changed))
        with self.started(*words) as process:
            code, _, err = ended(process, 240)
        assert code == 0, err
        return err

    def follow(self, advice: str, what: str) -> str:
        """Run the command that was given for ``next``, ``log`` or ``remove``; what it says."""
        (line,) = (each for each in advice.splitlines() if each.startswith(f"{what} "))
        command = self.words(*line.split()[1:])
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=240)
        assert done.returncode == 0, done.stderr
        return done.stdout

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
    """A lab with our manifests, and volumes; the test is skipped where its programs are not."""
    for variable, what in (("SPAE_KUBE_BIN", "build.sh"), ("SPAE_KUBE_IMAGES", "lab.sh")):
        if variable not in os.environ:
            pytest.skip(f"{variable} is not set: see tests/integration/labs/kubernetes/{what}")
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
            for name in MANIFESTS:
                lab.kubectl("create", "--filename", str(DEPLOY / name))
            for name, mode, path in (
                ("spae-data", "ReadOnlyMany", lab.folder),
                ("spae-results", "ReadWriteMany", lab.results),
            ):
                lab.kubectl("create", "--filename", "-", text=VOLUME.format(name=name, mode=mode, path=path))
            yield lab
        finally:
            if Path(base, "lab").exists():
                subprocess.run([SCRIPT, "down"], check=True, timeout=120)
