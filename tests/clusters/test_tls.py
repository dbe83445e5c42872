"""A scheduler and workers over TLS, each a process: what is found is the same, and strangers are refused in time."""

import shutil
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dask
import numpy as np
import pytest
import zarr

from spae_dask.cli.main import main
from spae_dask.clusters import running
from spae_dask.clusters.certificates import make_certificates
from spae_dask.clusters.connect import connect
from spae_dask.clusters.running import client_security, running_scheduler
from spae_dask.errors import InvalidInput, NotFound
from tests.dask_processes import DaskProcesses

pytestmark = pytest.mark.timeout(180)

ADDRESS = "tls://10.0.0.5:8786"


@pytest.fixture(scope="module")
def certs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tls")
    for name in ("ours", "theirs"):
        make_certificates(folder / name)
    return folder


@pytest.fixture(scope="module")
def scheduler(certs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    def options(role: str) -> tuple[str, ...]:
        ours = certs / "ours"
        files = {"ca-file": "ca.pem", "cert": f"{role}.pem", "key": f"{role}-key.pem"}
        return tuple(word for option, name in files.items() for word in (f"--tls-{option}", str(ours / name)))

    with DaskProcesses(tmp_path_factory.mktemp("dask")) as processes:
        address = processes.scheduler(*options("scheduler"), protocol="tls")
        for _ in range(2):
            processes.worker(address, *options("worker"))
        yield address


@pytest.fixture
def store(tmp_path: Path) -> Path:
    X = np.random.default_rng(0).standard_normal((3000, 12))
    zarr.create_array(tmp_path / "x.zarr", data=X, chunks=(500, 12))
    return tmp_path / "x.zarr"


def test_a_fit_over_tls_has_the_bits_of_one_in_this_process(scheduler: str, certs: Path, store: Path) -> None:
    found = []
    for where in (("none",), (scheduler, "--tls-dir", str(certs / "ours"))):
        encoder = store.parent / f"{len(found)}.zarr"
        assert main(["fit", str(store), "-k", "2", "-r", "4", "-o", str(encoder), "-q", "--cluster", *where]) == 0
        group = zarr.open_group(encoder, mode="r")
        found.append([group[name][...].tobytes() for name in ("indptr", "indices", "values", "decoder", "mean")])
    assert found[0] == found[1]


def test_dask_s_own_configuration_serves_as_well(scheduler: str, certs: Path) -> None:
    files = {"ca-file": "ca.pem", "client.cert": "client.pem", "client.key": "client-key.pem"}
    tls = {f"distributed.comm.tls.{key}": str(certs / "ours" / name) for key, name in files.items()}
    with dask.config.set(tls), running_scheduler(scheduler) as client:
        assert client.submit(sum, [1, 2]).result(timeout=30) == 3


@pytest.mark.parametrize("stranger", ["theirs", "tcp"])
def test_a_client_of_another_authority_or_of_none_is_refused_in_time(
    stranger: str,
    scheduler: str,
    certs: Path,
    store: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(running, "TIMEOUT_SECONDS", 3)
    where = (scheduler, "--tls-dir", str(certs / stranger))
    if stranger == "tcp":
        where = (scheduler.replace("tls://", "tcp://"),)
    output = store.parent / "encoder.zarr"
    assert main(["fit", str(store), "-k", "2", "-r", "4", "-o", str(output), "--cluster", *where]) == 6
    said = capsys.readouterr().err
    assert "no Dask scheduler" in said
    assert "within 3.0 s" in " ".join(said.split())
    assert ("authority" in said) == (stranger == "theirs")
    assert "Traceback" not in said
    assert not output.exists()


def test_a_worker_without_a_certificate_is_refused(scheduler: str, certs: Path, tmp_path: Path) -> None:
    with DaskProcesses(tmp_path) as processes, running_scheduler(scheduler, str(certs / "ours")) as client:
        stranger = processes.worker(scheduler.replace("tls://", "tcp://"), "--death-timeout", "3")
        stranger.wait(timeout=60)
        assert len(client.scheduler_info(n_workers=-1)["workers"]) == 2


def refused(kind: type[Exception], match: str, act: Callable[[], Any]) -> None:
    with pytest.raises(kind, match=match):
        act()


def test_what_is_missing_or_makes_no_sense_is_told_before_anything_is_tried(certs: Path, tmp_path: Path) -> None:
    refused(InvalidInput, "Give --tls-dir DIR", lambda: client_security(ADDRESS, None))
    refused(NotFound, r"ca\.pem does not exist\..*spae certs", lambda: client_security(ADDRESS, str(tmp_path)))
    refused(InvalidInput, "is not encrypted", lambda: client_security("tcp://10.0.0.5:8786", str(certs / "ours")))
    assert client_security("tcp://10.0.0.5:8786", None) is None

    def local() -> None:
        with connect("local:1", tls_folder=str(certs / "ours")):
            raise AssertionError

    refused(InvalidInput, "--cluster local:1 needs none", local)


def test_a_key_that_others_can_read_is_refused(tmp_path: Path) -> None:
    make_certificates(tmp_path / "certs")
    (tmp_path / "certs" / "client-key.pem").chmod(0o640)
    refused(InvalidInput, "chmod 600", lambda: client_security(ADDRESS, str(tmp_path / "certs")))


@pytest.mark.parametrize("changed", ["ca.pem", "client.pem", "."])
def test_certificates_that_others_can_change_are_refused(tmp_path: Path, changed: str) -> None:
    make_certificates(tmp_path / "certs")
    assert client_security(ADDRESS, str(tmp_path / "certs")) is not None
    (tmp_path / "certs" / changed).chmod(0o722)
    refused(InvalidInput, "chmod go-w", lambda: client_security(ADDRESS, str(tmp_path / "certs")))


def test_certificates_that_are_none_are_refused(tmp_path: Path) -> None:
    make_certificates(tmp_path / "certs")
    (tmp_path / "certs" / "ca.pem").write_text("no certificate")

    def attempt() -> None:
        with running_scheduler("tls://127.0.0.1:1", str(tmp_path / "certs")):
            raise AssertionError

    refused(InvalidInput, "certificate", attempt)


def spoiled(folder: Path, how: str, others: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if how in ("client.pem", "client-key.pem", "ca.pem"):
        (folder / how).write_bytes(b"\x93NUMPY junk")
    elif how == "exchanged":
        shutil.copy(others / "client-key.pem", folder / "client-key.pem")
    else:
        shutil.rmtree(folder)
        now = datetime.now(UTC) + timedelta(days=-30 if how == "expired" else 30)
        monkeypatch.setattr("spae_dask.clusters.certificates.datetime", SimpleNamespace(now=lambda _: now))
        make_certificates(folder, days=1)


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("client.pem", "cannot be used"),
        ("client-key.pem", "cannot be used"),
        ("ca.pem", "cannot be used"),
        ("exchanged", "cannot be used"),
        ("expired", r"ca\.pem has expired on \d{4}-\d\d-\d\d; make new ones"),
        ("of the future", r"ca\.pem is valid from .* the clock of this machine shows .*; set the clock"),
    ],
)
def test_one_s_own_certificates_that_cannot_be_used_are_told_of_before_anybody_is_asked(
    how: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ours", "theirs"):
        make_certificates(tmp_path / name)
    spoiled(tmp_path / "ours", how, tmp_path / "theirs", monkeypatch)
    with pytest.raises(InvalidInput, match=said):
        client_security(ADDRESS, str(tmp_path / "ours"))
