"""Worker processes of this machine: nobody else's, however they try."""

import socket
from pathlib import Path

import dask
import pytest
from distributed import Client

from spae_dask.clusters.local import local_cluster
from spae_dask.errors import ClusterUnavailable
from tests.clusters.conftest import listening


def test_strangers_without_the_certificate_of_the_run_get_nothing_on_any_port() -> None:
    before = listening()
    with local_cluster(2, 1 << 30) as client:
        assert client.submit(sum, [1, 2]).result(timeout=60) == 3
        address = client.scheduler.address
        ours = listening() - before
        assert address.startswith("tls://127.0.0.1:")
        assert all(info.startswith("tls://127.0.0.1:") for info in client.scheduler_info(n_workers=-1)["workers"])
        assert {host for host, _ in ours} == {"127.0.0.1"}
        spoken = {port: first_words(port) for _, port in ours}
        web = [port for port, words in spoken.items() if words.startswith(b"HTTP/1.1")]
        dashboard = client.cluster.scheduler.http_server
        assert int(address.rpartition(":")[2]) in set(spoken) - set(web)
        assert dashboard.port in web
        with pytest.raises(OSError, match=r"Timed out|reset|closed"):
            Client(address.replace("tls://", "tcp://"), timeout=2)


def first_words(port: int) -> bytes:
    """What a port says to somebody who speaks HTTP; a scheduler or worker over plain TCP would greet at once."""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as stranger:
        stranger.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        try:
            return stranger.recv(64)
        except ConnectionError:
            return b""


DIES = """
import os, sys
from pathlib import Path

seen = Path(os.environ["TEST_SEEN"])
n = len(list(seen.iterdir()))
(seen / f"{os.getpid()}").touch()
if n < int(os.environ["TEST_DEATHS"]):
    print("the preload ends this worker", file=sys.stderr, flush=True)
    os._exit(9)
"""


@pytest.mark.timeout(150)
@pytest.mark.parametrize("deaths", [1, 2])
def test_a_worker_that_dies_at_its_start_is_started_once_more_and_then_told_of(
    deaths: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "seen").mkdir()
    (tmp_path / "dies.py").write_text(DIES)
    for name, value in {"TEST_SEEN": str(tmp_path / "seen"), "TEST_DEATHS": str(deaths)}.items():
        monkeypatch.setenv(name, value)
    before = listening()
    with dask.config.set({"distributed.worker.preload": [str(tmp_path / "dies.py")]}):
        if deaths == 1:
            with local_cluster(1, 1 << 30) as client:
                assert client.submit(sum, [1, 2]).result(timeout=60) == 3
        else:
            with pytest.raises(ClusterUnavailable, match=r"did not start, 2 times.*exited with status 9"):
                local_cluster(1, 1 << 30).__enter__()
    assert len(list((tmp_path / "seen").iterdir())) == 2
    assert "the preload ends this worker" in capfd.readouterr().err
    assert listening() == before
