"""A run as a Job of Kubernetes, or as a DaskJob with workers: plain values, compared whole in tests."""

from typing import Any

import yaml

from spae_dask.clusters.batch_job import BatchJob
from spae_dask.clusters.kubernetes_manifest import Manifest, cluster_spec, container, labels, pod_spec
from spae_dask.clusters.specs import KubernetesSpec

FILES = "/etc/spae"
"""Folder in which the job sees the pipeline and its cluster file."""

CLUSTER_FILE = "cluster.toml"
PIPELINE_FILE = "pipeline.toml"

FINAL_CODES = (2, 3, 4)
"""Exit codes with which the command would end again: wrong words, bad input, too little memory."""

KEPT_SECONDS = 7 * 86400
"""Seconds that a finished Job stays, so that its log can be read."""


def job_manifests(spec: KubernetesSpec, job: BatchJob, pipeline: str) -> list[Manifest]:
    """The pipeline as a ConfigMap, and the job that runs it.

    Parameters
    ----------
    spec : KubernetesSpec
        Image, volumes, workers. Without workers the job does all by itself.
    job : BatchJob
        The command; its ``folder`` means nothing here.
    pipeline : str
        Text of the pipeline file.
    """
    files = {PIPELINE_FILE: pipeline}
    if spec.workers:
        address = f"tcp://{job.name}-scheduler.{spec.namespace}.svc:8786"
        files[CLUSTER_FILE] = f'kind = "scheduler"\naddress = "{address}"\ntimeout = "{spec.timeout}s"\n'
    metadata = {"name": job.name, "namespace": spec.namespace, "labels": labels(job.name)}
    words = ["spae", *(each.replace("$(", "$$(") for each in job.words)]
    only = container(spec, "job", words, job.driver.cores, job.driver.memory)
    only["volumeMounts"].append({"name": "files", "mountPath": FILES, "readOnly": True})
    pod = pod_spec(spec, only) | {
        "restartPolicy": "Never",
        "activeDeadlineSeconds": job.driver.walltime,
        "terminationGracePeriodSeconds": job.grace,
    }
    pod["volumes"].append({"name": "files", "configMap": {"name": job.name}})
    config: Manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": files}
    return [config, _dask_job(spec, job, metadata, pod) if spec.workers else _job(job, metadata, pod)]


def manifest_text(documents: list[Manifest]) -> str:
    """YAML of several manifests."""
    return str(yaml.dump_all(documents, Dumper=_Plain, sort_keys=False, allow_unicode=True, width=120))


def _dask_job(spec: KubernetesSpec, job: BatchJob, metadata: Manifest, pod: Manifest) -> Manifest:
    return {
        "apiVersion": "kubernetes.dask.org/v1",
        "kind": "DaskJob",
        "metadata": metadata,
        "spec": {"job": {"spec": pod}, "cluster": {"spec": cluster_spec(spec, job.name)}},
    }


def _job(job: BatchJob, metadata: Manifest, pod: Manifest) -> Manifest:
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": metadata,
        "spec": {
            "backoffLimit": job.max_resubmits,
            "podFailurePolicy": {
                "rules": [
                    {"action": "FailJob", "onExitCodes": {"operator": "In", "values": list(FINAL_CODES)}},
                    {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
                ]
            },
            "ttlSecondsAfterFinished": KEPT_SECONDS,
            "template": {"metadata": {"labels": metadata["labels"]}, "spec": pod},
        },
    }


class _Plain(yaml.SafeDumper):  # type: ignore[misc]  # it has no types
    """Writes a value that stands twice twice, and strings of several lines as blocks."""

    def ignore_aliases(self, data: Any) -> bool:
        """No anchors: people read these files."""
        del data
        return True


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style="|" if "\n" in value else None)


_Plain.add_representer(str, _text)
