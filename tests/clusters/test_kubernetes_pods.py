"""What Kubernetes says of pods that do not start, as a server sent it, in words."""

import pytest

from spae_dask.clusters.kubernetes import is_ready, never_starts, troubles

UNSCHEDULABLE = {
    "type": "PodScheduled",
    "status": "False",
    "reason": "Unschedulable",
    "message": "0/1 nodes are available: 1 Insufficient memory.",
}
FORBIDDEN = (
    'pods "spae-1-default-worker-{}" is forbidden: exceeded quota: spae, requested: limits.memory=300Gi, used: '
    "limits.memory=512Mi, limited: limits.memory=256Gi"
)


def pod(component="worker", *, ready="False", conditions=(), state=None, last=None, **status):
    made = {"conditions": [{"type": "Ready", "status": ready}, *conditions], **status}
    if state is not None or last is not None:
        made["containerStatuses"] = [{"state": state or {}, "lastState": last or {}}]
    return {"metadata": {"labels": {"dask.org/component": component}}, "status": made}


def waiting(reason, message):
    return {"waiting": {"reason": reason, "message": message}}


def refused(message):
    condition = {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": message}
    return {"metadata": {}, "status": {"conditions": [condition]}}


OUT_OF_MEMORY = {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}


@pytest.mark.parametrize(
    ("pods", "deployments", "said"),
    [
        ([], [], ""),
        ([pod(ready="True", state={"running": {}}, last=OUT_OF_MEMORY)], [], ""),
        ([{"metadata": {}, "status": {}}], [], ""),
        ([pod(state=waiting("ContainerCreating", ""))], [], ""),
        (
            [pod(conditions=[UNSCHEDULABLE])],
            [],
            "worker: Unschedulable: 0/1 nodes are available: 1 Insufficient memory",
        ),
        (
            [pod("scheduler", state=waiting("CrashLoopBackOff", "back-off 10s\nrestarting"), last=OUT_OF_MEMORY)],
            [],
            "scheduler: CrashLoopBackOff: back-off 10s restarting; scheduler: it ended with code 137 (OOMKilled)",
        ),
        (
            [pod(phase="Failed", reason="Evicted", message="The node was low on resource: memory.")],
            [],
            "worker: Evicted: The node was low on resource: memory",
        ),
        (
            [],
            [refused(FORBIDDEN.format("a")), refused(FORBIDDEN.format("b"))],
            "exceeded quota: spae, requested: limits.memory=300Gi, used: limits.memory=512Mi, limited: "
            "limits.memory=256Gi",
        ),
    ],
)
def test_why_pods_are_not_ready_is_told_once(pods, deployments, said):
    assert troubles(pods, deployments) == said


def test_at_most_five_reasons_are_told():
    pods = [pod(state=waiting("ErrImagePull", f"reason {n}")) for n in range(9)]
    assert troubles(pods, []).count(";") == 4


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("ErrImageNeverPull", True),
        ("InvalidImageName", True),
        ("CreateContainerConfigError", True),
        ("ImagePullBackOff", False),  # a registry may come back
        ("CrashLoopBackOff", False),
    ],
)
def test_some_pods_are_not_worth_waiting_for(reason, expected):
    assert never_starts([pod(), pod(state=waiting(reason, "so it is"))]) is expected


def test_a_pod_is_ready_when_its_probes_are_content():
    assert is_ready(pod(ready="True"))
    assert not is_ready(pod())
    assert not is_ready({"metadata": {}, "status": {}})
