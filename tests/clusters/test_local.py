"""Worker processes of this machine: nobody else's, however they try."""

import socket

import pytest
from distributed import Client

from spae_dask.clusters.local import local_cluster
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
