"""Workers that are pods of the Dask operator. The only file that knows dask-kubernetes."""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager

import kr8s
from dask_kubernetes.operator import KubeCluster
from distributed import Client

from spae_dask.clusters.kubernetes_manifest import cluster_manifest
from spae_dask.clusters.kubernetes_spec import KubernetesSpec
from spae_dask.clusters.waiting import wait_for_worker
from spae_dask.errors import ClusterUnavailable


@contextmanager
def kubernetes_cluster(spec: KubernetesSpec) -> Iterator[Client]:
    """Have the operator start a scheduler and workers, and delete them at the end; it replaces pods that die.

    Raises
    ------
    ClusterUnavailable
        If no cluster can be reached, it has no Dask operator, or no worker is there within the spec's ``timeout``.
    """
    name = f"spae-{secrets.token_hex(4)}"
    cluster = _start(spec, name)
    try:
        with Client(cluster) as client:
            wait_for_worker(client, spec.timeout, lambda: _no_worker(spec, name))
            yield client
    finally:
        cluster.close(timeout=30)


def _start(spec: KubernetesSpec, name: str) -> KubeCluster:
    try:
        kr8s.api().version()  # a KubeCluster that cannot reach its server complains once more at exit
        return KubeCluster(
            custom_cluster_spec=cluster_manifest(spec, name),
            namespace=spec.namespace,
            resource_timeout=spec.timeout,
            shutdown_on_close=True,
            quiet=True,
        )
    except Exception as error:  # of kr8s, httpx, kubernetes, sockets: whatever lies between here and the API server
        said = " ".join(str(error).split()) or type(error).__name__
        raise ClusterUnavailable(
            f"no Dask cluster could be started in the namespace {spec.namespace} of Kubernetes: {said}. Check that "
            "`kubectl get daskclusters` works from here, and that the Dask operator is installed."
        ) from error


def _no_worker(spec: KubernetesSpec, name: str) -> ClusterUnavailable:
    question = f"kubectl --namespace {spec.namespace} describe pods --selector dask.org/cluster-name={name}"
    return ClusterUnavailable(
        f"no worker of {spec.workers} appeared within {spec.timeout} seconds. See `{question}`, ask for less, or "
        "give a longer 'timeout'."
    )
