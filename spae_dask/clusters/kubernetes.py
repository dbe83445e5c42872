"""Workers that are pods of the Dask operator. The only file that knows the client library of Kubernetes."""

import logging
import secrets
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from typing import Any

import kr8s
from distributed import Client
from kr8s.objects import Service, new_class

from spae_dask.clusters.kubernetes_manifest import COMM_PORT, IDLE_SECONDS, cluster_manifest
from spae_dask.clusters.kubernetes_pods import is_hopeless, is_ready, troubles
from spae_dask.clusters.kubernetes_spec import KubernetesSpec
from spae_dask.clusters.waiting import wait_for_worker
from spae_dask.clusters.wakefulness import kept_awake
from spae_dask.errors import ClusterUnavailable

log = logging.getLogger(__name__)

DaskCluster = new_class("DaskCluster", "kubernetes.dask.org/v1", asyncio=False)

POLL_SECONDS = 0.5
REACH_SECONDS = 5
LEAVE_SECONDS = 45
"""Within which pods that are told to end do, or are killed by Kubernetes."""


@contextmanager
def kubernetes_cluster(spec: KubernetesSpec) -> Iterator[Client]:
    """Have the operator start a scheduler and workers, and delete them at the end; it replaces pods that die.

    If this process is killed, the operator deletes them when nobody used them for ten minutes.

    Raises
    ------
    ClusterUnavailable
        If no cluster can be reached, it has no Dask operator, or no worker is there within the spec's ``timeout``.
    """
    name = f"spae-{secrets.token_hex(4)}"
    end = time.monotonic() + spec.timeout
    with _dask_cluster(spec, name):
        _wait_for_scheduler(spec, name, end)
        with (
            _address(spec, name) as address,
            _client(spec, name, address, end) as client,
            kept_awake(client, IDLE_SECONDS / 10),  # also while a first worker is waited for
        ):
            explain = partial(_not_started, spec, name, f"no worker of {spec.workers} appeared")
            wait_for_worker(client, _left(end), explain)
            yield client


@contextmanager
def _dask_cluster(spec: KubernetesSpec, name: str) -> Iterator[None]:
    with _told(spec):
        made = DaskCluster(cluster_manifest(spec, name), namespace=spec.namespace)
    try:
        with _told(spec):
            made.create()
        yield
    finally:
        _delete(made, spec, name)


def _delete(made: Any, spec: KubernetesSpec, name: str) -> None:
    """Delete the cluster, if it was made, and wait for its pods to be gone."""
    end = time.monotonic() + LEAVE_SECONDS
    try:
        with suppress(kr8s.NotFoundError):
            made.delete()
        while made.exists() or _pods(spec, name):
            if time.monotonic() > end:
                raise TimeoutError(f"its pods are there after {LEAVE_SECONDS} seconds")
            time.sleep(POLL_SECONDS)
    except Exception as error:
        log.warning("the DaskCluster %s in %s may be left: %s", name, spec.namespace, _said(error))


def _wait_for_scheduler(spec: KubernetesSpec, name: str, end: float) -> None:
    pods: list[Any] = []
    while True:
        with suppress(ClusterUnavailable) if time.monotonic() < end else nullcontext():  # a server may be away a while
            pods = _pods(spec, name)
        if any(is_ready(each) and _component(each) == "scheduler" for each in pods):
            return
        if time.monotonic() > end or is_hopeless(pods):
            raise _not_started(spec, name, "the scheduler did not start")
        time.sleep(POLL_SECONDS)


@contextmanager
def _address(spec: KubernetesSpec, name: str) -> Iterator[str]:
    """Of the scheduler: by the name of its service inside of Kubernetes, through the API server from elsewhere."""
    host = f"{name}-scheduler.{spec.namespace}"
    if _reaches(host):
        yield f"tcp://{host}:{COMM_PORT}"
        return
    with _told(spec):
        service = Service.get(f"{name}-scheduler", namespace=spec.namespace)
    with service.portforward(COMM_PORT, local_port="auto") as port:
        yield f"tcp://127.0.0.1:{port}"


def _reaches(host: str) -> bool:
    try:
        socket.create_connection((host, COMM_PORT), timeout=REACH_SECONDS).close()
    except OSError:
        return False
    return True


@contextmanager
def _client(spec: KubernetesSpec, name: str, address: str, end: float) -> Iterator[Client]:
    try:
        client = Client(address, timeout=_left(end))
    except (OSError, TimeoutError) as error:
        raise _not_started(spec, name, f"the scheduler does not answer at {address} ({error})") from error
    try:
        yield client
    finally:
        client.close(timeout=2)


def _pods(spec: KubernetesSpec, name: str, kind: str = "pods") -> list[Any]:
    selector = f"dask.org/cluster-name={name}"
    with _told(spec):
        return [each.raw for each in kr8s.get(kind, namespace=spec.namespace, label_selector=selector)]


def _left(end: float) -> float:
    return max(REACH_SECONDS, end - time.monotonic())


def _component(pod: Any) -> str:
    return str(pod["metadata"]["labels"].get("dask.org/component"))


def _not_started(spec: KubernetesSpec, name: str, what: str) -> ClusterUnavailable:
    pods, deployments = _pods(spec, name), _pods(spec, name, "deployments")
    if not deployments:
        return ClusterUnavailable(
            f"{what}: nothing was made of the DaskCluster in {spec.namespace} within {spec.timeout} seconds. Check "
            "that the Dask operator runs, and that it is for this namespace."
        )
    seconds = "" if is_hopeless(pods) else f" within {spec.timeout} seconds"
    why = troubles(pods, deployments) or "Kubernetes gives no reason"
    return ClusterUnavailable(
        f"{what} in the namespace {spec.namespace}{seconds}: {why}. Mend that in the cluster file or in Kubernetes, "
        "ask for less, or give a longer 'timeout'."
    )


@contextmanager
def _told(spec: KubernetesSpec) -> Iterator[None]:
    try:
        yield
    except Exception as error:  # of kr8s, httpx, sockets: whatever lies between here and the API server
        raise _unavailable(spec, error) from error


def _unavailable(spec: KubernetesSpec, error: Exception) -> ClusterUnavailable:
    if isinstance(error, kr8s.ServerError) and error.response is not None and error.response.status_code == 404:
        return ClusterUnavailable(
            f"Kubernetes knows no DaskCluster in the namespace {spec.namespace}: {_said(error)}. Check the namespace, "
            "and install the Dask operator."
        )
    return ClusterUnavailable(
        f"no Dask cluster could be started in the namespace {spec.namespace} of Kubernetes: {_said(error)}. Check that "
        "`kubectl get daskclusters` works from here, and that the Dask operator is installed."
    )


def _said(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
