"""The way to the scheduler of a DaskCluster: by the name of its service, or through the API server from elsewhere."""

import asyncio
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import kr8s
from httpx_ws import WebSocketUpgradeError
from kr8s.objects import Service

from spae_dask.clusters.kubernetes_manifest import COMM_PORT
from spae_dask.errors import ClusterUnavailable

UNKNOWN_USER, NO_RIGHT, NOT_FOUND = 401, 403, 404
"""Codes of permanent answers, which a retry does not change."""


@contextmanager
def told(namespace: str) -> Iterator[None]:
    """Have whatever goes wrong between here and the API server end in an error of ours.

    Raises
    ------
    ClusterUnavailable
        If any error of the server arises, which is its cause.
    """
    try:
        yield
    except Exception as error:  # of kr8s, httpx, sockets
        raise _unavailable(namespace, error) from error


def is_refusal(error: BaseException | None) -> bool:
    """Return True if the server refused: the user is unknown, or has no right to it, or there is no such object."""
    return _status(error) in (UNKNOWN_USER, NO_RIGHT, NOT_FOUND)


def said(error: BaseException) -> str:
    """An error in one line."""
    return " ".join(str(error).split()).rstrip(".") or type(error).__name__


def _unavailable(namespace: str, error: Exception) -> ClusterUnavailable:
    status = _status(error)
    if status == NO_RIGHT:
        return ClusterUnavailable(
            f"Kubernetes denies this user access to the namespace {namespace}: {said(error)}. Ask an "
            "administrator for the role of deploy/kubernetes/rbac.yaml there."
        )
    if status == UNKNOWN_USER:
        return ClusterUnavailable(
            f"Kubernetes does not accept the credentials of this user for the namespace {namespace}: "
            f"{said(error)}. Sign in again: the token or certificate in your kubeconfig is wrong or has "
            "expired."
        )
    if status == NOT_FOUND:
        return ClusterUnavailable(
            f"Kubernetes does not know the resource DaskCluster in the namespace {namespace}: {said(error)}. "
            "Check the namespace, and install the Dask operator."
        )
    return ClusterUnavailable(
        f"no Dask cluster could be started in the namespace {namespace} of Kubernetes: {said(error)}. "
        "Check that `kubectl get daskclusters` works on this machine, and that the Dask operator is "
        "installed."
    )


def _status(error: BaseException | None) -> int | None:
    if isinstance(error, kr8s.ServerError) and error.response is not None:
        return int(error.response.status_code)
    return None


REACH_SECONDS = 5
RETRY_SECONDS = 1


@contextmanager
def scheduler_address(namespace: str, name: str, pod: str, end: float) -> Iterator[str]:
    """Yield the address of the scheduler of one cluster, for a ``with`` block.

    Parameters
    ----------
    namespace, name : str
        Namespace and name of the DaskCluster.
    pod : str
        Name of the scheduler's pod, which is ready.
    end : float
        Time on the monotonic clock at which the search for a way ends.

    Raises
    ------
    ClusterUnavailable
        If its name is not known here, and the API server makes no way to it.
    """
    host = f"{name}-scheduler.{namespace}"
    if _reaches(host):
        yield f"tcp://{host}:{COMM_PORT}"
        return
    with told(namespace):
        _wait_for_way(namespace, pod, end)
        service = Service.get(f"{name}-scheduler", namespace=namespace)
    with service.portforward(COMM_PORT, local_port="auto") as port:
        yield f"tcp://127.0.0.1:{port}"


def _reaches(host: str) -> bool:
    try:
        socket.create_connection((host, COMM_PORT), timeout=REACH_SECONDS).close()
    except OSError:
        return False
    return True


def _wait_for_way(namespace: str, pod: str, end: float) -> None:
    """Try until the API server forwards a port of the pod: kr8s would try without end, whatever the answer."""
    with ThreadPoolExecutor(1) as thread:  # an event loop may run in this one, as in notebooks
        thread.submit(asyncio.run, _way(namespace, pod, end)).result()


async def _way(namespace: str, pod: str, end: float) -> None:
    # kr8s caches by the number of the event loop, which an earlier loop may have had, and by the arguments
    server = await kr8s.asyncio.api(namespace=pod)
    while True:
        try:
            return await _forward_once(server, namespace, pod)
        except Exception as error:  # of kr8s, httpx, sockets: a server may be away a while
            if is_refusal(error) or time.monotonic() > end:
                raise
        await asyncio.sleep(RETRY_SECONDS)


async def _forward_once(server: kr8s.asyncio.Api, namespace: str, pod: str) -> None:
    """Open a port forward, and close it.

    Raises
    ------
    kr8s.ServerError
        If the server answers with another error.
    """
    way = f"pods/{pod}/portforward"
    try:
        async with server.open_websocket(url=way, namespace=namespace, params={"ports": str(COMM_PORT)}):
            pass
    except WebSocketUpgradeError as error:
        answer = error.response
        text = f"{way} cannot be opened: {answer.status_code} {answer.reason_phrase}"
        raise kr8s.ServerError(text, response=answer) from error
