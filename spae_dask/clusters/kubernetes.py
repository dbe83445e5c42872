"""Workers that are pods of the Dask operator, and the way to their scheduler.

A scheduler is reached by the name of its service, or through the API server from elsewhere.
"""

import asyncio
import re
import secrets
import socket
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from typing import Any

import kr8s
from distributed import Client, Scheduler
from httpx_ws import WebSocketUpgradeError
from kr8s.objects import Service, new_class

from spae_dask.clusters.kubernetes_manifest import COMM_PORT, IDLE_SECONDS, cluster_manifest
from spae_dask.clusters.running import ask
from spae_dask.clusters.specs import KubernetesSpec
from spae_dask.errors import ClusterUnavailable, SpaeWarning, warn
from spae_dask.quantities import format_seconds
from spae_dask.workers import wait_for_worker

Object = Mapping[str, Any]

NEVER_STARTS = ("InvalidImageName", "ErrImageNeverPull", "CreateContainerConfigError")
"""Reasons for which a container waits for something that never comes by itself."""

MOST_TOLD = 5


def is_ready(pod: Object) -> bool:
    """Return True if a pod runs and passes its probes."""
    return any(each["type"] == "Ready" and each["status"] == "True" for each in _conditions(pod))


def never_starts(pods: Sequence[Object]) -> bool:
    """Return True if one of the pods will never start, however long the wait."""
    return any(each.get("reason") in NEVER_STARTS for pod in pods for each in _waiting(pod))


def troubles(pods: Sequence[Object], deployments: Sequence[Object]) -> str:
    """Return the reasons why pods are missing or not ready; empty if Kubernetes gives none.

    Parameters
    ----------
    pods, deployments : sequence of Mapping
        Pods and deployments of one Dask cluster.
    """
    said = [*_not_created(deployments), *(each for pod in pods if not is_ready(pod) for each in _of_pod(pod))]
    told = list(dict.fromkeys(_shortened(each) for each in said))  # the same message of all workers is shown once
    return "; ".join(told[:MOST_TOLD])


def _shortened(said: str) -> str:
    return re.sub(r'^pods "[^"]*" is forbidden: ', "", " ".join(said.split())).rstrip(".")


def _not_created(deployments: Sequence[Object]) -> list[str]:
    """Pods that are refused by a quota, or by a rule of the namespace, are not even there."""
    found = [each for deployment in deployments for each in _conditions(deployment)]
    return [each.get("message", "") for each in found if each["type"] == "ReplicaFailure" and each["status"] == "True"]


def _of_pod(pod: Object) -> list[str]:
    component = pod["metadata"].get("labels", {}).get("dask.org/component", "pod")
    status = pod.get("status", {})
    unscheduled = [each for each in _conditions(pod) if each["type"] == "PodScheduled" and each["status"] == "False"]
    said = [_reason(each) for each in (*unscheduled, *_waiting(pod))]
    if status.get("phase") == "Failed":
        said.append(_reason(status))
    states = [each.get(key, {}) for each in status.get("containerStatuses", ()) for key in ("lastState", "state")]
    ended = [each["terminated"] for each in states if "terminated" in each]
    said += [f"it ended with code {each['exitCode']} ({each.get('reason', 'no reason given')})" for each in ended]
    return [f"{component}: {each}" for each in said if each]


def _waiting(pod: Object) -> list[Object]:
    states = [each.get("state", {}) for each in pod.get("status", {}).get("containerStatuses", ())]
    found = [each["waiting"] for each in states if "waiting" in each]
    return [each for each in found if each.get("reason") not in ("ContainerCreating", "PodInitializing")]


def _conditions(thing: Object) -> Sequence[Object]:
    return thing.get("status", {}).get("conditions") or ()


def _reason(found: Object) -> str:
    return ": ".join(filter(None, (found.get("reason"), found.get("message"))))


@contextmanager
def keep_alive(client: Client, seconds: float) -> Iterator[None]:
    """Send the scheduler a message at intervals, in a ``with`` block, so that it does not count as idle.

    Without a client and without tasks it is idle, for which whoever watches it may take it away.

    Parameters
    ----------
    client : Client
        Client of the scheduler.
    seconds : float
        Seconds between two messages.
    """
    over = threading.Event()

    def tell() -> None:
        while not over.wait(seconds):
            with suppress(Exception):  # the code that uses the scheduler reports that it does not answer
                client.run_on_scheduler(_wake)

    thread = threading.Thread(target=tell, name="spae-awake", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()


def _wake(dask_scheduler: Scheduler) -> None:
    dask_scheduler.idle_since = None


DaskCluster = new_class("DaskCluster", "kubernetes.dask.org/v1", asyncio=False)

POLL_SECONDS = 0.5
LEAVE_SECONDS = 45
"""Seconds that pods have to end before Kubernetes kills them."""


@contextmanager
def kubernetes_cluster(spec: KubernetesSpec) -> Iterator[Client]:
    """Have the operator start a scheduler and workers, and delete them at the end; it replaces pods that die.

    If this process is killed, the operator deletes them after ten minutes without use.

    Raises
    ------
    ClusterUnavailable
        If no cluster can be reached, it has no Dask operator, or no worker is there within the spec's ``timeout``.
    """
    name = f"spae-{secrets.token_hex(4)}"
    end = time.monotonic() + spec.timeout
    with _dask_cluster(spec, name):
        pod = _scheduler_pod(spec, name, end)
        with (
            scheduler_address(spec.namespace, name, pod, end) as address,
            _client(spec, name, address, end) as client,
            keep_alive(client, IDLE_SECONDS / 10),  # also while a first worker is waited for
        ):
            explain = partial(_not_started, spec, name, f"no worker of {spec.workers} appeared")
            wait_for_worker(client, _left(end), explain)
            yield client


@contextmanager
def _dask_cluster(spec: KubernetesSpec, name: str) -> Iterator[None]:
    with told(spec.namespace):
        made = DaskCluster(cluster_manifest(spec, name), namespace=spec.namespace)
    with ExitStack() as at_end:
        at_end.callback(_delete, made, spec, name)  # also if it was made, and the answer did not come
        try:
            with told(spec.namespace):
                made.create()
        except ClusterUnavailable as error:
            if is_refusal(error.__cause__):
                at_end.pop_all()
            raise
        yield


def _delete(made: Any, spec: KubernetesSpec, name: str) -> None:
    """Delete the cluster, if it was made, and wait for its pods to be gone."""
    end = time.monotonic() + LEAVE_SECONDS
    try:
        with suppress(kr8s.NotFoundError):
            made.delete()
        while made.exists() or _pods(spec, name):
            if time.monotonic() > end:
                raise TimeoutError(f"its pods still exist after {format_seconds(LEAVE_SECONDS)}")
            time.sleep(POLL_SECONDS)
    except Exception as error:
        remedy = f"kubectl --namespace {spec.namespace} delete --ignore-not-found daskcluster {name}"
        warn(
            f"the DaskCluster {name} in the namespace {spec.namespace} may still exist: "
            f"{said(error.__cause__ or error)}. Remove it: {remedy}. The operator removes it after "
            f"{format_seconds(IDLE_SECONDS)} without use.",
            SpaeWarning,
        )


def _scheduler_pod(spec: KubernetesSpec, name: str, end: float) -> str:
    """Wait until the scheduler is ready; the name of its pod."""
    pods: list[Any] = []
    while True:
        try:
            pods = _pods(spec, name)
        except ClusterUnavailable as error:
            if is_refusal(error.__cause__) or time.monotonic() > end:  # a server may be unavailable for a while
                raise
        for each in pods:
            if is_ready(each) and _component(each) == "scheduler":
                return str(each["metadata"]["name"])
        if time.monotonic() > end or never_starts(pods):
            raise _not_started(spec, name, "the scheduler did not start")
        time.sleep(POLL_SECONDS)


@contextmanager
def _client(spec: KubernetesSpec, name: str, address: str, end: float) -> Iterator[Client]:
    try:
        ask(address, _left(end))
        client = Client(address, timeout=_left(end))
    except (OSError, TimeoutError) as error:
        raise _not_started(spec, name, f"the scheduler does not answer at {address} ({error})") from error
    try:
        yield client
    finally:
        client.close(timeout=2)


def _pods(spec: KubernetesSpec, name: str, kind: str = "pods") -> list[Any]:
    selector = f"dask.org/cluster-name={name}"
    with told(spec.namespace):
        return [each.raw for each in kr8s.get(kind, namespace=spec.namespace, label_selector=selector)]


def _left(end: float) -> float:
    return max(REACH_SECONDS, end - time.monotonic())


def _component(pod: Any) -> str:
    return str(pod["metadata"]["labels"].get("dask.org/component"))


def _not_started(spec: KubernetesSpec, name: str, what: str) -> ClusterUnavailable:
    pods, deployments = _pods(spec, name), _pods(spec, name, "deployments")
    if not deployments:
        return ClusterUnavailable(
            f"{what}: the operator did not act on the DaskCluster in {spec.namespace} within "
            f"{format_seconds(spec.timeout)}. Check that the Dask operator runs and watches this namespace."
        )
    seconds = "" if never_starts(pods) else f" within {format_seconds(spec.timeout)}"
    why = troubles(pods, deployments) or "Kubernetes gives no reason"
    return ClusterUnavailable(
        f"{what} in the namespace {spec.namespace}{seconds}: {why}. Correct that in the cluster file or "
        "in Kubernetes, ask for fewer resources, or give a longer 'timeout'."
    )


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
