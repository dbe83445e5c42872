"""On a real control plane with the Dask operator: bits as in one process, killed pods, refusals, and nothing left."""

import re
import shutil
import signal
from pathlib import Path

import pytest
import yaml
import zarr

from tests.cli.test_interrupts import wait_for_line
from tests.clusters.conftest import ROOT, wait_until
from tests.estimators.sources import batch_encoder
from tests.integration.conftest import bits_of, ended
from tests.integration.kubernetes_lab import DEPLOY, MANIFESTS, running_lab
from tests.integration.slow_source import Slow

pytestmark = [pytest.mark.slow, pytest.mark.chaos, pytest.mark.timeout(600)]

PROGRAM = Path(__file__).with_name("pods_program.py")
GOLDEN = ROOT / "tests/clusters/golden"
UNKNOWN_TO_OLD_SERVERS = {"podFailurePolicy", "ttlSecondsAfterFinished"}


@pytest.fixture(scope="module")
def lab(data):
    with running_lab() as made:
        shutil.copytree(data, made.folder / "x.zarr")
        zarr.create_array(str(made.folder / "huge.zarr"), shape=(50_000_000, 64), chunks=(100_000, 64), dtype="f4")
        zarr.create_array(str(made.folder / "wide.zarr"), shape=(20_000, 20_000), chunks=(1000, 20_000), dtype="f4")
        yield made


@pytest.fixture(autouse=True)
def nothing_left(lab):
    lab.wait_for_nothing()
    shutil.rmtree(lab.results / "run", ignore_errors=True)
    yield
    lab.clear()


def status(lab, kind, key):
    (found,) = lab.objects(kind)
    return found.get("status", {}).get(key)


def remove(lab, advice):
    """Do what the command said about removing the job."""
    lab.follow(advice, "remove")
    lab.wait_for_nothing()


def dropped(given, taken, path=""):
    """What of a document the server does not know, and so dropped."""
    if isinstance(given, dict):
        known = {key: value for key, value in given.items() if key not in UNKNOWN_TO_OLD_SERVERS}
        return [each for key in known for each in dropped(given[key], (taken or {}).get(key), f"{path}/{key}")]
    if isinstance(given, list):
        pairs = zip(given, taken or [None] * len(given), strict=True)
        return [each for i, (one, other) in enumerate(pairs) for each in dropped(one, other, f"{path}/{i}")]
    default = given is False and taken is None
    return [] if default or mebibytes(given) == mebibytes(taken) else [f"{path}: {given!r} became {taken!r}"]


def mebibytes(value):
    """A quantity; servers write 1024Mi as 1Gi."""
    text = str(value)
    return int(text[:-2]) << 10 if re.fullmatch(r"\d+Gi", text) else int(text[:-2]) if text.endswith("Mi") else text


@pytest.mark.parametrize("name", ["daskcluster", "daskjob", "job", "placed"])
def test_the_server_takes_every_manifest_and_drops_nothing(lab, name):
    for document in yaml.safe_load_all((GOLDEN / f"{name}.yaml").read_text()):
        document["metadata"]["namespace"] = "spae"
        words = ("create", "--dry-run=server", "--validate=false", "-o", "yaml", "-f", "-")
        said = lab.kubectl(*words, text=yaml.safe_dump(document))
        assert dropped(document, yaml.safe_load(said)) == []


def test_the_manifests_of_deploy_are_what_the_server_has(lab):
    for name in MANIFESTS:
        for document in yaml.safe_load_all((DEPLOY / name).read_text()):
            kind, metadata = document["kind"], document["metadata"]
            assert dropped(document, yaml.safe_load(lab.kubectl("get", kind, metadata["name"], "-o", "yaml"))) == []
    wait_until(
        lambda: {each["status"]["phase"] for each in lab.objects("persistentvolumeclaims")} == {"Bound"},
        60,
        "volumes for all claims",
    )


def test_a_fit_on_pods_has_the_bits_of_one_process_and_leaves_nothing(lab, serial):
    with lab.started(*lab.fit_words()) as process:
        code, _, err = ended(process, 240)
    assert code == 0, err
    assert ".spae:8786" in err
    assert bits_of(lab.folder / "e.zarr") == serial
    assert lab.names("daskclusters") == []
    lab.wait_for_nothing()


def test_a_worker_pod_that_is_killed_is_replaced_and_the_bits_stay_seen_from_outside(lab):
    command = ("python", PROGRAM, lab.cluster_file(), "fit")
    with lab.started(*command, outside=True) as process:
        assert process.stdout.readline() == "busy\n", process.stderr.read()
        before = set(lab.workers())
        assert len(before) == 2
        lab.kubectl("delete", "pod", min(before), "--force", "--grace-period=0")
        wait_until(lambda: len(set(lab.workers()) - {min(before)}) == 2, 120, "another pod in place of the killed one")
        assert process.poll() is None, "the fit was over before"
        code, out, err = ended(process, 300)
    assert code == 0, err
    alone = batch_encoder(3, n_nonzero=5, strategy="gram").fit(Slow(n_blocks=24, seconds=0)).components_
    assert out == f"components {alone.tobytes().hex()}\n"
    assert lab.names("daskclusters") == []
    lab.wait_for_nothing()


@pytest.mark.parametrize(("signum", "expected"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_stopped_command_leaves_no_pod_behind(lab, signum, expected):
    with lab.started(*lab.fit_words("huge.zarr")) as process:
        wait_for_line(process, "warning: ")  # of chunks not stored, given just before the pass
        process.send_signal(signum)
        code, _, err = ended(process, 240)
    assert (code, lab.names("daskclusters")) == (expected, [])
    assert "Traceback" not in err
    lab.wait_for_nothing()


def test_sigterm_while_the_cluster_starts_leaves_no_pod_behind(lab):
    with lab.started(*lab.fit_words()) as process:
        wait_until(lambda: lab.names("daskclusters"), 120, "a DaskCluster")
        process.send_signal(signal.SIGTERM)
        code, _, err = ended(process, 240)
    assert code == 143
    assert "Traceback" not in err
    lab.wait_for_nothing()  # the operator, which was making pods, ends that first


def test_pods_stay_while_their_client_works_by_itself_and_end_when_it_was_killed(lab):
    with lab.started("python", PROGRAM, lab.cluster_file(), "desert") as process:
        code, out, err = ended(process, 240)
    assert (code, out) == (-signal.SIGKILL, "limit 30\nanswer 3\n"), err
    lab.wait_for_nothing()


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"image": '"localhost/none:1"'}, 'ErrImageNeverPull: Container image "localhost/none:1" is not present'),
        ({"secrets": '["nope"]'}, 'CreateContainerConfigError: secret "nope" not found'),
        ({"scheduler_memory": '"30MiB"', "timeout": '"25s"'}, "OOMKilled"),
        ({"memory": '"200GiB"', "timeout": '"25s"'}, "Insufficient memory"),
        ({"memory": '"300GiB"', "timeout": '"25s"'}, "exceeded quota: spae, requested: limits.memory=300Gi"),
        ({"node_selector": '{ disk = "none" }', "timeout": '"25s"'}, "node(s) didn't match"),
        ({"namespace": '"nowhere"'}, "Check the namespace"),
    ],
)
def test_why_pods_do_not_start_is_told(lab, changed, said):
    with lab.started(*lab.fit_words(**changed)) as process:
        code, _, err = ended(process, 240)
    assert code == 6, err
    assert said in err
    assert "Traceback" not in err
    assert lab.names("daskclusters") == []
    lab.wait_for_nothing()


def test_workers_with_less_memory_than_the_plan_are_refused(lab):
    with lab.started(*lab.fit_words("wide.zarr", memory='"300MiB"')) as process:
        code, _, err = ended(process, 240)
    assert code == 4, err
    assert re.search(r"needs .* GiB, but only .* Use a memory limit of .* GiB", err), err
    lab.wait_for_nothing()


def test_a_submitted_pipeline_runs_by_itself_on_workers(lab, serial):
    advice = lab.submitted()
    wait_until(lambda: status(lab, "daskjobs", "jobStatus") == "Successful", 240, "the end of the job")
    assert "enc  fit        ran" in lab.kubectl("logs", "pod/spae-p-runner")
    assert bits_of(lab.results / "run/enc.zarr") == serial
    wait_until(lambda: lab.names() == ["daskjob.kubernetes.dask.org/spae-p", "pod/spae-p-runner"], 120, "only the log")
    remove(lab, advice)


def test_a_submitted_pipeline_without_workers_runs_by_itself(lab, serial):
    advice = lab.submitted(workers="0")
    wait_until(lambda: status(lab, "jobs", "succeeded") == 1, 240, "the end of the job")
    assert bits_of(lab.results / "run/enc.zarr") == serial
    with lab.started("spae", "submit", "kubernetes", lab.folder / "p.toml", "--cluster", lab.cluster_file()) as again:
        code, _, err = ended(again, 240)
    assert code == 6
    assert "already exists. Before another try, remove the rest of an earlier one: kubectl --namespace spae" in err
    remove(lab, advice)


def test_a_submitted_job_with_less_memory_than_the_plan_says_so_and_fails(lab):
    advice = lab.submitted("wide.zarr", workers="0", driver='{ memory = "300MiB", walltime = "10m" }')
    wait_until(lambda: status(lab, "jobs", "failed") or 0, 240, "the failure of the job")
    failed = lab.kubectl("get", "pods", "--field-selector", "status.phase=Failed", "--output", "name").split()
    log = lab.kubectl("logs", failed[0])  # others may be there, not started yet
    assert re.search(r"needs .* GiB, but only .* Use a memory limit of .* GiB", log), log
    remove(lab, advice)
