"""Manifests of Kubernetes as plain values: pure, so that whole files are compared in tests.

All pods keep to the restricted pod security standard: no root, nothing but scratch space to write on, no token of a
service account unless one is named.
"""

from typing import Any

from spae_dask.clusters.specs import KubernetesSpec, Toleration, Volume
from spae_dask.clusters.values import mebibytes

Manifest = dict[str, Any]

USER = 1000
"""User of the image that ``deploy/Dockerfile`` makes."""

SCRATCH = "/tmp"  # noqa: S108 - in a pod, which shares it with nobody
COMM_PORT = 8786
PORTS = (("tcp-comm", COMM_PORT), ("http-dashboard", 8787))

IDLE_SECONDS = 600
"""Seconds after which the operator deletes an idle cluster, because its command was killed."""


def cluster_manifest(spec: KubernetesSpec, name: str) -> Manifest:
    """A DaskCluster of the Dask operator.

    Parameters
    ----------
    spec : KubernetesSpec
        Resources to ask for.
    name : str
        Name of the cluster.
    """
    return {
        "apiVersion": "kubernetes.dask.org/v1",
        "kind": "DaskCluster",
        "metadata": {"name": name, "namespace": spec.namespace, "labels": labels(name)},
        # the operator sets a limit of 300 seconds if the scheduler has none: it would end by itself before
        # IDLE_SECONDS, be started again, and never have been idle for long enough to be deleted
        "spec": {"idleTimeout": IDLE_SECONDS} | cluster_spec(spec, name, "--idle-timeout", f"{2 * IDLE_SECONDS}s"),
    }


def cluster_spec(spec: KubernetesSpec, name: str, *options: str) -> Manifest:
    """Return the part that a DaskCluster and the cluster of a DaskJob share; ``options`` are the scheduler's."""
    # all pods of the namespace connect to it; without pages, the HTTP port is there for probes and for the operator
    words = ["dask", "scheduler", "--host", "0.0.0.0", *options]  # noqa: S104
    words += [] if spec.dashboard else ["--no-dashboard"]
    # the operator's own defaults start commands that distributed no longer has
    scheduler = container(spec, "scheduler", words, 1, spec.scheduler_memory)
    scheduler["ports"] = [{"name": each, "containerPort": port, "protocol": "TCP"} for each, port in PORTS]
    health = {"httpGet": {"port": "http-dashboard", "path": "/health"}}
    scheduler["readinessProbe"] = health | {"periodSeconds": 5, "timeoutSeconds": 5}
    scheduler["livenessProbe"] = health | {"initialDelaySeconds": 30, "periodSeconds": 20, "timeoutSeconds": 10}
    words = ["dask", "worker", "--name", "$(DASK_WORKER_NAME)", "--nthreads", str(spec.cores)]
    words += ["--memory-limit", str(spec.worker_nbytes), "--local-directory", SCRATCH, "--no-dashboard"]
    return {
        "worker": {
            "replicas": spec.workers,
            "spec": pod_spec(spec, container(spec, "worker", words, spec.cores, spec.memory)),
        },
        "scheduler": {
            "spec": pod_spec(spec, scheduler),
            "service": {
                "type": "ClusterIP",
                "selector": {"dask.org/cluster-name": name, "dask.org/component": "scheduler"},
                "ports": [{"name": each, "protocol": "TCP", "port": port, "targetPort": each} for each, port in PORTS],
            },
        },
    }


def container(spec: KubernetesSpec, name: str, words: list[str], cores: int, nbytes: int) -> Manifest:
    """One container of the image, with as much memory as it asks for and no more."""
    environment = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"} | spec.environment
    made: Manifest = {
        "name": name,
        "image": spec.image,
        "args": words,
        "env": [{"name": key, "value": value.replace("$(", "$$(")} for key, value in environment.items()],
        "resources": {
            "requests": {"cpu": str(cores), "memory": mebibytes(nbytes)},
            "limits": {"memory": mebibytes(nbytes)},
        },
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [
            {"name": "scratch", "mountPath": SCRATCH},
            *(
                {"name": f"volume-{number}", "mountPath": each.path, "readOnly": each.read_only}
                for number, each in enumerate(spec.volumes)
            ),
        ],
    }
    if spec.pull_policy is not None:
        made["imagePullPolicy"] = spec.pull_policy
    if spec.secrets:
        made["envFrom"] = [{"secretRef": {"name": each}} for each in spec.secrets]
    return made


def pod_spec(spec: KubernetesSpec, only: Manifest) -> Manifest:
    """A pod of one container."""
    made: Manifest = {
        "automountServiceAccountToken": spec.service_account is not None,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER,
            "runAsGroup": USER,
            "fsGroup": USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [only],
        "volumes": [
            {"name": "scratch", "emptyDir": {"sizeLimit": mebibytes(spec.scratch)}},
            *({"name": f"volume-{number}"} | _source(each) for number, each in enumerate(spec.volumes)),
        ],
    }
    if spec.service_account is not None:
        made["serviceAccountName"] = spec.service_account
    if spec.pull_secrets:
        made["imagePullSecrets"] = [{"name": each} for each in spec.pull_secrets]
    if spec.node_selector:
        made["nodeSelector"] = spec.node_selector
    if spec.tolerations:
        made["tolerations"] = [_toleration(each) for each in spec.tolerations]
    if spec.host_network:
        # names of services are looked up in the cluster all the same
        made |= {"hostNetwork": True, "dnsPolicy": "ClusterFirstWithHostNet"}
    return made


def _source(volume: Volume) -> Manifest:
    if volume.claim is not None:
        return {"persistentVolumeClaim": {"claimName": volume.claim}}
    return {"hostPath": {"path": volume.host_path, "type": "Directory"}}


def _toleration(toleration: Toleration) -> Manifest:
    made = {"key": toleration.key, "operator": "Exists" if toleration.value is None else "Equal"}
    if toleration.value is not None:
        made["value"] = toleration.value
    if toleration.effect is not None:
        made["effect"] = toleration.effect
    return made


def labels(name: str) -> Manifest:
    """By which network policies and people find what belongs to a run."""
    return {"app.kubernetes.io/name": "spae", "app.kubernetes.io/instance": name}
