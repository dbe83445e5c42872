"""An S3 service of one process on loopback, and a proxy before it that fails as it is told."""

import http.client
import http.server
import socket
import struct
import subprocess
import sys
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import boto3

KEY, SECRET = "test-key-id", "test-secret-that-nobody-may-see"


@contextmanager
def moto_process() -> Iterator[str]:
    """Start moto's server in a process of its own; its endpoint."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    code = f"from moto.server import main; main(['-H', '127.0.0.1', '-p', '{port}'])"
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        endpoint = f"http://127.0.0.1:{port}"
        for _ in range(600):
            try:
                urllib.request.urlopen(endpoint, timeout=5).close()
                break
            except OSError:
                assert process.poll() is None, "moto_server ended"
                time.sleep(0.1)
        yield endpoint
    finally:
        process.kill()
        process.wait()


def create_bucket(endpoint: str, name: str) -> None:
    """By a plain request: moto takes unsigned ones."""
    with urllib.request.urlopen(urllib.request.Request(f"{endpoint}/{name}", method="PUT"), timeout=10):
        pass


def make_public(endpoint: str, path: str) -> None:
    """Let anybody read an object."""
    name, _, key = path.partition("/")
    client = boto3.client(
        "s3", endpoint_url=endpoint, aws_access_key_id=KEY, aws_secret_access_key=SECRET, region_name="us-east-1"
    )
    client.put_object_acl(Bucket=name, Key=key, ACL="public-read")
    client.close()


class FlakyProxy(http.server.ThreadingHTTPServer):
    """Passes requests on, or fails those whose path holds a word of `script` by the next of its actions.

    Actions: an HTTP status, ``("delay", seconds)``, ``"truncate"`` or ``"reset"``; the last is repeated if `forever`.
    """

    daemon_threads = True

    def __init__(self, endpoint: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.upstream = endpoint.removeprefix("http://")
        self.script: dict[str, list[Any]] = {}
        self.forever = False
        self.seen: Counter[str] = Counter()
        self.headers_seen: list[dict[str, str]] = []
        self._lock = threading.Lock()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def action(self, line: str) -> Any:
        with self._lock:
            self.seen[line] += 1
            for word, actions in self.script.items():
                if word in line and actions:
                    return actions[0] if self.forever and len(actions) == 1 else actions.pop(0)
        return None

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that gave up are what this is for."""


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: FlakyProxy

    def log_message(self, *_: Any) -> None: ...

    def _serve(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.server.headers_seen.append(dict(self.headers))
        action = self.server.action(f"{self.command} {self.path}")
        if action == "reset":
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()
            self.close_connection = True
            return
        if isinstance(action, tuple):
            time.sleep(action[1])
        if isinstance(action, int):
            code = {503: "SlowDown", 403: "AccessDenied", 429: "TooManyRequests"}[action]
            self._answer(action, {}, f"<Error><Code>{code}</Code></Error>".encode())
            return
        upstream = http.client.HTTPConnection(self.server.upstream, timeout=30)
        upstream.request(self.command, self.path, body, dict(self.headers))
        answer = upstream.getresponse()
        content = answer.read()
        upstream.close()
        self._answer(answer.status, dict(answer.getheaders()), content, cut=action == "truncate")

    do_GET = do_PUT = do_HEAD = do_DELETE = do_POST = _serve  # noqa: N815

    def _answer(self, status: int, headers: dict[str, str], content: bytes, *, cut: bool = False) -> None:
        self.send_response(status)
        length = headers.get("Content-Length") if self.command == "HEAD" else str(len(content))
        dropped = ("content-length", "transfer-encoding", "connection", "date", "server")
        for name, value in headers.items():
            if name.lower() not in dropped:
                self.send_header(name, value)
        self.send_header("Content-Length", length or "0")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content[: len(content) // 2] if cut else content)
        if cut:
            self.close_connection = True


@contextmanager
def flaky_proxy(endpoint: str) -> Iterator[FlakyProxy]:
    """The proxy, serving from a thread."""
    with FlakyProxy(endpoint) as proxy:
        thread = threading.Thread(target=proxy.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield proxy
        proxy.shutdown()
        thread.join()
