"""Clusters whose processes run other software than this one: refused in seconds, in words, by every door."""

import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from distributed import Client

from spae_dask import evaluate
from spae_dask.cli.main import main
from spae_dask.engine.versions import check_versions
from spae_dask.errors import ClusterUnavailable
from spae_dask.estimators.checking import check
from spae_dask.estimators.writing import transform_to_zarr
from spae_dask.passes.events import PassStarted
from tests.dask_processes import DaskProcesses, end
from tests.estimators.sources import batch_encoder

pytestmark = pytest.mark.timeout(180)

LACKING = """
import sys
class Lacking:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "spae_dask":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Lacking())
"""

OTHER = """
import spae_dask
spae_dask.__version__ = "0.0.9"
"""

OLDER_PYTHON = """
import platform
platform.python_version = lambda: "3.9.1"
"""

OLDER_DISTRIBUTED = """
import distributed
from tests.estimators.sources import batch_encoder
distributed.__version__ = "2024.8.0"
"""


@pytest.fixture
def store(tmp_path: Path) -> str:
    zarr.create_array(tmp_path / "x.zarr", data=np.random.default_rng(0).standard_normal((3000, 12)), chunks=(500, 12))
    return str(tmp_path / "x.zarr")


@pytest.fixture
def preloaded(tmp_path: Path) -> Any:
    def start(processes: DaskProcesses, text: str, *, of_scheduler: bool = False) -> str:
        (tmp_path / "before.py").write_text(text)
        preload = ("--preload", str(tmp_path / "before.py"))
        address = processes.scheduler(*(preload if of_scheduler else ()))
        processes.worker(address, *(() if of_scheduler else preload))
        return address

    return start


@pytest.mark.parametrize("of_scheduler", [False, True])
def test_a_cluster_without_the_package_is_refused_in_words_and_in_time(
    of_scheduler: bool, store: str, preloaded: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with DaskProcesses(tmp_path / "dask") as processes:
        address = preloaded(processes, LACKING, of_scheduler=of_scheduler)
        words = ["fit", store, "-k", "2", "-r", "4", "-o", str(tmp_path / "e.zarr"), "-q", "--cluster", address]
        assert main(words) == 6
        said = capsys.readouterr().err
        assert "does not run the same versions as this process, spae_dask" in said
        assert "No module named 'spae_dask'" in said
        assert ("the scheduler (" in said) is of_scheduler
        assert not os.path.exists(tmp_path / "e.zarr")
        with Client(address), pytest.raises(ClusterUnavailable, match="No module named 'spae_dask'"):
            batch_encoder(2, n_nonzero=4).fit(store)


def test_workers_with_another_version_of_the_package_are_refused(store: str, preloaded: Any, tmp_path: Path) -> None:
    with DaskProcesses(tmp_path / "dask") as processes:
        address = preloaded(processes, OTHER)
        with Client(address) as client:
            client.wait_for_workers(1, timeout=60)
            with pytest.raises(ClusterUnavailable, match=r"\(spae_dask 0\.0\.9\)\. Install the same versions there"):
                batch_encoder(2, n_nonzero=4).fit(store)


@pytest.mark.parametrize(
    ("part", "name", "other"), [("host", "python", "3.6.1"), ("packages", "distributed", "2024.8")]
)
def test_another_python_or_release_of_distributed_is_refused_and_a_later_patch_is_not(
    part: str, name: str, other: str, open_cluster: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = open_cluster(1)
    check_versions(client)
    told = client.get_versions()
    for version, refused in ((f"{told['client'][part][name]}.9", False), (other, True)):
        (address,) = told["workers"]
        told["workers"][address][part][name] = version

        async def answer() -> Any:
            return told

        monkeypatch.setattr(client, "_get_versions", answer)
        if not refused:
            check_versions(client)
            continue
        with pytest.raises(ClusterUnavailable, match=rf"{address} \(Python \d+\.\d+ and distributed \d+\.\d+\)"):
            check_versions(client)


@pytest.mark.parametrize("stopped", [0, 1])
def test_a_worker_that_stands_still_is_not_waited_for(
    stopped: int, open_cluster: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spae_dask.engine.versions.SECONDS", 1)
    client = open_cluster(2)
    pid = sorted(client.run(os.getpid).values())[stopped]
    os.kill(pid, signal.SIGSTOP)
    try:
        check_versions(client)
    finally:
        os.kill(pid, signal.SIGCONT)


@pytest.mark.parametrize("text", [OTHER, OLDER_PYTHON, OLDER_DISTRIBUTED], ids=["package", "python", "distributed"])
def test_a_worker_that_joins_a_run_with_other_software_is_given_no_span_and_named(
    text: str, store: str, tmp_path: Path
) -> None:
    (tmp_path / "before.py").write_text(text)
    with DaskProcesses(tmp_path / "dask") as processes:
        address = processes.scheduler()
        first = processes.worker(address)
        with Client(address) as client:
            client.wait_for_workers(1, timeout=60)
            before = set(client.scheduler_info()["workers"])

            def replace_the_worker(event: object) -> None:
                if isinstance(event, PassStarted):
                    processes.worker(address, "--preload", str(tmp_path / "before.py"))
                    client.wait_for_workers(2, timeout=60)
                    end(first)

            with pytest.raises(ClusterUnavailable, match=r"runs .*, but this run needs spae_dask ") as told:
                batch_encoder(2, n_nonzero=4, progress=replace_the_worker).fit(store)
            (late,) = set(client.scheduler_info()["workers"]) - before
            assert f"the worker {late} runs" in str(told.value)


def test_a_worker_without_the_package_that_joins_a_run_takes_no_part_in_it(tmp_path: Path) -> None:
    X = np.random.default_rng(0).standard_normal((40_000, 64))
    zarr.create_array(tmp_path / "x.zarr", data=X, chunks=(1000, 64))
    (tmp_path / "before.py").write_text(LACKING)
    with DaskProcesses(tmp_path / "dask") as processes:
        address = processes.scheduler()
        processes.worker(address)
        with Client(address) as client:
            client.wait_for_workers(1, timeout=60)

            def add_a_worker(event: object) -> None:
                if isinstance(event, PassStarted):
                    processes.worker(address, "--preload", str(tmp_path / "before.py"))
                    client.wait_for_workers(2, timeout=60)

            fitted = batch_encoder(2, n_nonzero=4, progress=add_a_worker).fit(str(tmp_path / "x.zarr"))
    np.testing.assert_allclose(fitted.mean_, X.mean(axis=0), atol=1e-12)
    assert "No module named 'spae_dask'" in processes.logs()  # it was asked


def test_a_run_asks_its_cluster_once_what_it_runs(
    store: str, open_cluster: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    open_cluster(1)
    asked: list[object] = []
    monkeypatch.setattr("spae_dask.estimators.runtime.check_versions", asked.append)
    encoder = batch_encoder(2, n_nonzero=4)
    for run in (
        lambda: encoder.fit(store),
        lambda: evaluate(store, encoder),
        lambda: encoder.score(store),
        lambda: check(store),
        lambda: transform_to_zarr(store, encoder, str(tmp_path / "z.zarr")),
    ):
        asked.clear()
        run()
        assert len(asked) == 1
