"""Manifests: whole files, and strictly valid for the server and for the Dask operator."""

import copy
import json
import re
import shutil
from importlib.resources import files
from pathlib import Path

import kubernetes_validate
import pytest
import yaml

from spae_dask.cli.main import main
from spae_dask.clusters.connect import connect
from spae_dask.clusters.kubernetes_job import manifest_text
from spae_dask.clusters.kubernetes_manifest import cluster_manifest
from spae_dask.clusters.specs import read_cluster
from spae_dask.errors import ClusterUnavailable, InvalidInput
from tests.clusters.crds import FOLDER, errors, schemas

HERE = Path(__file__).parent
DEPLOY = HERE.parents[1] / "deploy/kubernetes"
PIPELINE = """output = "/results/run"

[[step]]
kind = "fit"
data = "s3://bucket/x.zarr"
n_components = 3
n_nonzero = 5
"""


@pytest.fixture(scope="module")
def crds():
    return schemas()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.toml").write_text(PIPELINE)
    shutil.copy(DEPLOY / "cluster.toml", "k.toml")
    return tmp_path


def submitted(capsys, *words):
    assert main(["submit", "kubernetes", "p.toml", "--cluster", "k.toml", "--dry-run", *words]) == 0
    return capsys.readouterr().out


def check(document, crds):
    """Both checkers; the one for core kinds knows no custom ones."""
    if "dask.org" in document["apiVersion"]:
        assert errors(document, crds) == []
    else:
        kubernetes_validate.validate(document, "1.31", strict=True)


def test_the_manifest_of_a_submitted_pipeline_is_this_one(folder, capsys, crds):
    text = submitted(capsys)
    assert text == (HERE / "golden/daskjob.yaml").read_text()
    documents = list(yaml.safe_load_all(text))
    assert [each["kind"] for each in documents] == ["ConfigMap", "DaskJob"]
    assert documents[0]["data"]["pipeline.toml"] == PIPELINE
    for each in documents:
        check(each, crds)


def test_without_workers_it_is_a_job(folder, capsys, crds):
    (folder / "k.toml").write_text(re.sub(r"workers = \d+", "workers = 0", (folder / "k.toml").read_text()))
    text = submitted(capsys)
    assert text == (HERE / "golden/job.yaml").read_text()
    documents = list(yaml.safe_load_all(text))
    assert [each["kind"] for each in documents] == ["ConfigMap", "Job"]
    for each in documents:
        check(each, crds)


def test_the_manifest_of_a_connected_cluster_is_this_one(crds):
    manifest = cluster_manifest(read_cluster(DEPLOY / "cluster.toml"), "spae-1a2b3c4d")
    assert manifest_text([manifest]) == (HERE / "golden/daskcluster.yaml").read_text()
    check(manifest, crds)


PLACED = """kind = "kubernetes"
image = "registry.example.org/spae:0.1.0"
pull_policy = "Always"
pull_secrets = ["registry"]
service_account = "reader"
workers = 2
memory = "4GiB"
host_network = true
node_selector = { disktype = "ssd", "example.org/pool" = "batch" }

[[tolerations]]
key = "dedicated"
value = "batch"
effect = "NoSchedule"

[[tolerations]]
key = "spot"

[[volumes]]
host_path = "/mnt/nfs/data"
path = "/data"
read_only = true
"""


def test_the_manifest_of_pods_with_a_place_of_their_own_is_this_one(tmp_path, crds):
    (tmp_path / "k.toml").write_text(PLACED)
    manifest = cluster_manifest(read_cluster(tmp_path / "k.toml"), "spae-1a2b3c4d")
    assert manifest_text([manifest]) == (HERE / "golden/placed.yaml").read_text()
    check(manifest, crds)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('pull_policy = "Always"', 'pull_policy = "always"', "'Always', 'IfNotPresent' or 'Never'"),
        ('disktype = "ssd"', 'disktype = "a b"', "give at most 63 letters"),
        ('disktype = "ssd"', '"disk/type/" = "ssd"', "give the key of a label"),
        ('disktype = "ssd"', "disktype = 1", "give at most 63 letters"),
        ('effect = "NoSchedule"', 'effect = "Never"', "'NoSchedule', 'PreferNoSchedule' or 'NoExecute'"),
        ('key = "spot"', 'keys = "spot"', "Did you mean 'key'?"),
        ('host_path = "/mnt/nfs/data"', 'host_path = "mnt"', "absolute path"),
        ('host_path = "/mnt/nfs/data"', "", "either 'claim'"),
        ('host_path = "/mnt/nfs/data"', 'host_path = "/mnt"\nclaim = "data"', "either 'claim'"),
        ("host_network = true", 'host_network = "yes"', "true or false"),
    ],
)
def test_mistakes_about_the_place_of_pods_are_told(tmp_path, old, new, said):
    assert old in PLACED
    (tmp_path / "k.toml").write_text(PLACED.replace(old, new, 1))
    with pytest.raises(InvalidInput, match=re.escape(said)):
        read_cluster(tmp_path / "k.toml")


def test_the_checks_see_misspelled_fields(crds):
    manifest = cluster_manifest(read_cluster(DEPLOY / "cluster.toml"), "spae-1a2b3c4d")
    wrong = copy.deepcopy(manifest)
    wrong["spec"]["worker"]["spec"]["containers"][0]["imagePullPolcy"] = "Always"
    assert any("imagePullPolcy" in each for each in errors(wrong, crds))


def test_every_pod_is_restricted_and_asks_for_the_memory_it_may_use(folder, capsys):
    _, job = yaml.safe_load_all(submitted(capsys))
    pods = [
        job["spec"]["job"]["spec"],
        *(job["spec"]["cluster"]["spec"][each]["spec"] for each in ("worker", "scheduler")),
    ]
    for pod in pods:
        assert pod["automountServiceAccountToken"] is False
        assert pod["securityContext"]["runAsNonRoot"] is True
        (container,) = pod["containers"]
        assert container["resources"]["requests"]["memory"] == container["resources"]["limits"]["memory"]
        assert container["securityContext"]["readOnlyRootFilesystem"] is True
        assert container["args"][0] in ("dask", "spae")


HOSTILE = 'a: b\n- "c" # $(DASK_WORKER_NAME) `id` {{ x }} \u2028 \'"'


def test_what_users_write_stays_a_string(folder, capsys):
    text = (folder / "k.toml").read_text().replace("[environment]", f"[environment]\nEVIL = {json.dumps(HOSTILE)}")
    (folder / "k.toml").write_text(text)
    (folder / "p.toml").write_text(PIPELINE + f"\n# {HOSTILE.splitlines()[1]}\n---\n".replace("---\n", ""))
    config, job = yaml.safe_load_all(submitted(capsys))
    assert config["data"]["pipeline.toml"] == (folder / "p.toml").read_text()
    values = {each["name"]: each["value"] for each in job["spec"]["job"]["spec"]["containers"][0]["env"]}
    assert values["EVIL"] == HOSTILE.replace("$(", "$$(")


@pytest.mark.parametrize(
    ("file", "old", "new", "said"),
    [
        ("p.toml", "/results/run", "results", "no volume that the pods can write to"),
        ("p.toml", "/results/run", "/data/run", "no volume that the pods can write to"),
        ("p.toml", "n_nonzero = 5", "n_nonzero = 0", "line 7"),
        ("k.toml", 'kind = "kubernetes"', 'kind = "mpi"', "this key is not known"),
        ("k.toml", 'namespace = "spae"', 'namespace = "a b"', "small letters"),
        ("k.toml", 'path = "/results"', 'path = "/results/../etc"', "absolute path"),
        ("k.toml", 'memory = "8GiB"', "memory = 8", "'4GB' or '512MiB'"),
    ],
)
def test_mistakes_are_told(folder, capsys, file, old, new, said):
    text = (folder / file).read_text()
    assert old in text
    (folder / file).write_text(text.replace(old, new, 1))
    assert main(["submit", "kubernetes", "p.toml", "--cluster", "k.toml", "--dry-run"]) == 3
    assert said in capsys.readouterr().err


KUBECTL = """#!/bin/sh
echo "$*" >> calls
case "$*" in *--dry-run=server*) [ ! -e refusal ] || { cat refusal >&2; exit 1; };; esac
echo configmap/spae-p; echo daskjob.kubernetes.dask.org/spae-p
"""


def test_nothing_is_created_if_a_part_would_be_refused(folder, monkeypatch, capsys):
    (folder / "kubectl").write_text(KUBECTL)
    (folder / "kubectl").chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=":")
    (folder / "refusal").write_text('configmaps "spae-p" already exists\n')
    words = ["submit", "kubernetes", "p.toml", "--cluster", "k.toml"]
    assert main(words) == 6
    said = capsys.readouterr().err
    assert 'configmaps "spae-p" already exists' in said
    assert "kubectl --namespace spae delete --ignore-not-found daskjob,configmap spae-p" in said
    assert len((folder / "calls").read_text().splitlines()) == 1
    (folder / "refusal").unlink()
    assert main(words) == 0
    rehearsed, created = (folder / "calls").read_text().splitlines()[1:]
    assert rehearsed == f"{created} --dry-run=server"


def test_without_a_server_it_says_so(folder, monkeypatch):
    monkeypatch.setenv("KUBECONFIG", str(folder / "none"))
    monkeypatch.setenv("HOME", str(folder))
    with pytest.raises(ClusterUnavailable, match="kubectl get daskclusters"), connect("k.toml"):
        pytest.fail("it connected")


def test_no_workers_are_for_submit_only(folder):
    (folder / "k.toml").write_text(re.sub(r"workers = \d+", "workers = 0", (folder / "k.toml").read_text()))
    with pytest.raises(InvalidInput, match="spae submit"), connect("k.toml"):
        pytest.fail("it connected")


@pytest.mark.parametrize("name", ["namespace.yaml", "network-policy.yaml", "rbac.yaml"])
def test_the_manifests_of_deploy_are_valid(name, crds):
    for each in yaml.safe_load_all((DEPLOY / name).read_text()):
        check(each, crds)


def test_the_values_of_the_operator_are_those_of_its_chart():
    chart = yaml.safe_load((files("dask_kubernetes") / FOLDER).parent.joinpath("values.yaml").read_text())
    given = yaml.safe_load((DEPLOY / "operator-values.yaml").read_text())
    assert set(given) <= set(chart)
    assert set(given["rbac"]) <= set(chart["rbac"])
