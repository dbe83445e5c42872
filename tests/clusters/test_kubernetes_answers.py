"""A server of Kubernetes that refuses what it is asked: told at once and in words, on real connections."""

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import yaml

from spae_dask.clusters.kubernetes import scheduler_address
from spae_dask.errors import ClusterUnavailable
from tests.clusters.conftest import ROOT

FILE = 'kind = "kubernetes"\nimage = "spae"\nnamespace = "lab"\nworkers = 1\nmemory = "1GiB"\ntimeout = "10m"\n'

PROGRAM = """
import json, sys, warnings
from spae_dask.clusters.connect import connect
from spae_dask.errors import ClusterUnavailable

for _ in sys.stdin:
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        try:
            with connect("k.toml"):
                said = "connected"
        except ClusterUnavailable as error:
            said = str(error)
    print(json.dumps([said, *(str(each.message) for each in found)]), flush=True)
"""


class Refusal(BaseHTTPRequestHandler):
    """Tells the server's version, and refuses all else with the server's ``status``."""

    def do_GET(self) -> None:
        if known := self.path.startswith("/version"):
            answer = {"major": "1", "minor": "33", "gitVersion": "v1.33.0"}
        else:
            answer = {"kind": "Status", "message": f"the reason of {self.server.status}"}
            self.server.asked.append(self.path)
        body = json.dumps(answer).encode()
        self.send_response(200 if known else self.server.status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_DELETE = do_GET  # noqa: N815 - names that the base class looks for

    def log_message(self, *words: object) -> None:
        pass


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ThreadingHTTPServer]:
    """The server of ``KUBECONFIG``."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Refusal) as made:
        made.asked = []
        threading.Thread(target=made.serve_forever, daemon=True).start()
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{made.server_port}"}}],
            "users": [{"name": "u", "user": {"token": "x"}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "c",
        }
        (tmp_path / "kubeconfig").write_text(yaml.safe_dump(config))
        monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))
        yield made
        made.shutdown()


def test_an_answer_is_told_at_once_and_only_what_may_be_there_is_said_to_be_left(
    server: ThreadingHTTPServer, tmp_path: Path
) -> None:
    (tmp_path / "k.toml").write_text(FILE)
    # a process of its own, since kr8s keeps to the first server that it met
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        bufsize=1,
    ) as process:
        for server.status, said, left in (
            (
                401,
                "credentials of this user for the namespace lab: the reason of 401. Sign in again",
                0,
            ),
            (
                403,
                "access to the namespace lab: the reason of 403. Ask an administrator for the role of",
                0,
            ),
            (
                404,
                "the resource DaskCluster in the namespace lab: the reason of 404. Check the namespace",
                0,
            ),
            (503, "no Dask cluster could be started in the namespace lab", 1),  # a server may do what it fails to tell
        ):
            process.stdin.write("\n")
            error, *warned = json.loads(process.stdout.readline())
            assert said in error
            assert len(warned) == left, warned
            assert all("may still exist" in each and "kubectl --namespace lab delete" in each for each in warned)
        process.stdin.close()
    assert len(server.asked) >= 4


def test_a_port_that_may_not_be_forwarded_is_told_of_at_once(server: ThreadingHTTPServer) -> None:
    server.status = 403
    end = time.monotonic() + 600
    with (
        pytest.raises(ClusterUnavailable, match=r"pods/one/portforward cannot be opened: 403 .*rbac\.yaml"),
        scheduler_address("lab", "name", "one", end),
    ):
        pytest.fail("it connected")
    assert len(server.asked) == 1, "it was not asked for again until the end"


def test_a_port_that_cannot_be_forwarded_now_is_asked_for_until_the_end(server: ThreadingHTTPServer) -> None:
    server.status = 503
    with (
        pytest.raises(ClusterUnavailable, match="pods/two/portforward cannot be opened: 503"),
        scheduler_address("lab", "name", "two", time.monotonic() + 3),
    ):
        pytest.fail("it connected")
    assert 2 <= len(server.asked) <= 6
    assert set(server.asked) == {"/api/v1/namespaces/lab/pods/two/portforward?ports=8786"}
