"""Dashboards are for the machine of the scheduler, whichever connector started it."""

import re
import shlex
import warnings
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import urlopen

import numpy as np
import pytest
import zarr

from spae_dask.cli.main import main
from spae_dask.clusters import local, queue, running
from spae_dask.clusters.kubernetes_manifest import cluster_spec
from spae_dask.clusters.running import dashboard_link
from spae_dask.clusters.specs import KubernetesSpec, MpiSpec, QueueSpec
from spae_dask.errors import InvalidInput, SpaeWarning, StorageError
from tests.clusters.conftest import listening, loaded_mpi
from tests.dask_processes import DaskProcesses


class Asked(Exception):
    """Raised in place of starting something, with what it would have been given."""


def asked(**arguments: Any) -> Any:
    raise Asked(arguments)


def a_queue(kind: str = "slurm", **changes: Any) -> QueueSpec:
    return QueueSpec.model_validate({"kind": kind, "jobs": 1, "memory": "1GB"} | changes)


def pods(**changes: Any) -> KubernetesSpec:
    return KubernetesSpec.model_validate({"kind": "kubernetes", "image": "i", "workers": 1, "memory": "1GB"} | changes)


def test_of_a_local_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "LocalCluster", asked)
    with pytest.raises(Asked) as raised, local.local_cluster(1, 1 << 30):
        raise AssertionError
    (arguments,) = raised.value.args
    assert arguments["dashboard_address"] == "127.0.0.1:0"
    assert arguments["security"].require_encryption


@pytest.mark.parametrize("kind", ["slurm", "pbs", "lsf", "sge"])
def test_of_a_queue(kind: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    spec = a_queue(kind)
    with queue.run_security(spec) as security, queue.make_cluster(spec, "spae-1", security) as cluster:
        assert cluster.scheduler_address.startswith("tls://")
        assert ("127.0.0.1", urlsplit(cluster.dashboard_link).port) in listening()
        (command,) = (line for line in cluster.job_script().splitlines() if "distributed.cli.dask_worker" in line)
        words = shlex.split(command)
        assert "--no-dashboard" in words
        key = Path(words[words.index("--tls-key") + 1])
        assert key.is_relative_to(tmp_path / "spae-logs")
        assert (key.stat().st_mode & 0o777, key.parent.stat().st_mode & 0o777) == (0o600, 0o700)
        assert "ca-key.pem" not in [each.name for each in key.parent.iterdir()]
    assert list((tmp_path / "spae-logs").iterdir()) == []


def test_a_queue_without_tls_is_warned_of_and_others_are_not(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.warns(SpaeWarning, match="plain TCP"), queue.run_security(a_queue(tls=False)) as security:
        assert security is None
    with warnings.catch_warnings(), queue.run_security(a_queue()) as security:
        warnings.simplefilter("error")
        assert security.require_encryption


def test_certificates_in_a_folder_that_no_script_can_name_are_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "my runs").mkdir()
    monkeypatch.chdir(tmp_path / "my runs")
    with pytest.raises(InvalidInput, match=r"my runs/spae-logs.*'logs'"), queue.run_security(a_queue()):
        raise AssertionError
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match="Not a directory"), queue.run_security(a_queue(logs=f"{tmp_path}/file/x")):
        raise AssertionError


def test_of_pods_there_are_none_unless_asked_for() -> None:
    for spec, n_without in ((pods(), 2), (pods(dashboard=True), 1)):
        made = cluster_spec(spec, "spae-1")
        commands = [made[each]["spec"]["containers"][0]["args"] for each in ("scheduler", "worker")]
        assert sum("--no-dashboard" in command for command in commands) == n_without
        assert "--no-dashboard" in commands[1]


def test_of_ranks_of_mpi(monkeypatch: pytest.MonkeyPatch) -> None:
    mpi = loaded_mpi()

    class World:
        Get_size = staticmethod(lambda: 3)
        Get_rank = staticmethod(lambda: 1)

    monkeypatch.setattr(mpi, "initialize", asked)
    monkeypatch.setattr(mpi, "MPI", type("Mpi", (), {"COMM_WORLD": World}))
    with pytest.raises(Asked) as raised, mpi.joined_ranks(MpiSpec(kind="mpi")):
        raise AssertionError
    (arguments,) = raised.value.args
    assert (arguments["dashboard"], arguments["dashboard_address"]) == (False, "127.0.0.1:0")


@pytest.mark.parametrize("system", ["slurm", "kubernetes"])
def test_of_submitted_jobs(
    system: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x.npy").touch()
    step = '[[step]]\nkind = "fit"\ndata = "x.npy"\nn_components = 2\nn_nonzero = 4\n'
    Path("p.toml").write_text(f'output = "/results/out"\n\n{step}')
    volume = '[[volumes]]\nclaim = "c"\npath = "/results"\n'
    more = "jobs = 1\n" if system == "slurm" else f'image = "i"\nworkers = 1\n{volume}'
    Path("c.toml").write_text(f'kind = "{system}"\nmemory = "2GB"\n{more}')
    assert main(["submit", system, "p.toml", "--cluster", "c.toml", "--dry-run"]) == 0
    text = capsys.readouterr().out
    assert "dashboard-address" not in text
    assert text.count("--no-dashboard") == (2 if system == "kubernetes" else 0)  # else `spae run` starts all, as above


@pytest.mark.parametrize("shown", [True, False])
def test_a_link_is_printed_only_where_there_are_pages(
    shown: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    zarr.create_array(tmp_path / "x.zarr", data=np.random.default_rng(0).standard_normal((300, 6)), chunks=(100, 6))
    with DaskProcesses(tmp_path / "dask") as processes:
        address = processes.scheduler(*(["--dashboard", "--dashboard-address", "127.0.0.1:0"] if shown else []))
        processes.worker(address)
        words = ["fit", str(tmp_path / "x.zarr"), "-k", "2", "-r", "3", "-o", str(tmp_path / "e.zarr")]
        assert main([*words, "--cluster", address]) == 0
        said = capsys.readouterr().err
        if not shown:
            assert f"cluster   {address}\n" in said
            return
        (link,) = re.findall(rf"cluster   {address}, dashboard (http://\S+)\n", said)
        with urlopen(link, timeout=30) as page:
            assert b"bokeh" in page.read().lower()


def test_a_scheduler_that_does_not_say_has_no_link(monkeypatch: pytest.MonkeyPatch, open_cluster: Any) -> None:
    client = open_cluster(1)
    assert str(dashboard_link(client)).startswith("http://")
    monkeypatch.setattr(running, "ANSWER_SECONDS", 0)
    assert dashboard_link(client) is None
