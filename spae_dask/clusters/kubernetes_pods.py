"""Descriptions of the conditions of Kubernetes pods. Pure: the input is objects as the server sends them."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

Object = Mapping[str, Any]

HOPELESS = ("InvalidImageName", "ErrImageNeverPull", "CreateContainerConfigError")
"""Reasons for which a container waits for something that never comes by itself."""

MOST_TOLD = 5


def is_ready(pod: Object) -> bool:
    """Return True if a pod runs and passes its probes."""
    return any(each["type"] == "Ready" and each["status"] == "True" for each in _conditions(pod))


def is_hopeless(pods: Sequence[Object]) -> bool:
    """Return True if one of the pods will never start, however long the wait."""
    return any(each.get("reason") in HOPELESS for pod in pods for each in _waiting(pod))


def troubles(pods: Sequence[Object], deployments: Sequence[Object]) -> str:
    """Return the reasons why pods are missing or not ready; empty if Kubernetes gives none.

    Parameters
    ----------
    pods, deployments : sequence of Mapping
        Pods and deployments of one Dask cluster.
    """
    said = [*_not_created(deployments), *(each for pod in pods if not is_ready(pod) for each in _of_pod(pod))]
    told = list(dict.fromkeys(_shortened(each) for each in said))  # the same of all workers is said once
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
