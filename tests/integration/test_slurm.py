"""On a real Slurm of two nodes: bits as in one process, deaths, refusals, and nothing left in the queue."""

import json
import os
import re
import signal
import subprocess
import threading
import time

import dask
import psutil
import pytest
import zarr
from distributed.scheduler import KilledWorker

from benchmarks.slurm_lab import N_PORTS, SCRIPTS, free_ports
from benchmarks.slurm_runs import CASES
from spae_dask.clusters.connect import connect
from spae_dask.clusters.specs import read_cluster
from spae_dask.workers import no_workers_seconds
from tests.cli.test_interrupts import wait_for_line
from tests.clusters.conftest import SLURM_TOML, wait_until
from tests.estimators.sources import batch_encoder
from tests.integration.conftest import bits_of, ended
from tests.integration.slow_source import Slow

pytestmark = pytest.mark.usefixtures("slurm")

FIT = ("fit", "x.zarr", "-k", 3, "-r", 5)


def running(slurm, name="spae-"):
    return [line.split()[0] for line in slurm() if name in line and line.endswith("RUNNING")]


def memory_of_workers():
    """Of jobs that are over too, while Slurm remembers them: what each asked for, by its number."""
    words = ["squeue", "--noheader", "--states=all", "--format", "%A %j %m"]
    lines = subprocess.run(words, check=True, capture_output=True, text=True).stdout.splitlines()
    jobs = [line.split() for line in lines]
    return {number: memory for number, name, memory in jobs if re.fullmatch("spae-[0-9a-f]{8}", name)}


def planned(start):
    code, out, err = ended(start("plan", *FIT[1:], "--cluster", "slurm.toml", "--no-calibrate", "--json"))
    assert code == 0, err
    return json.loads(out)["request"].partition(" MiB for each")[0] + "M"


def test_workers_whose_memory_is_left_to_the_plan_get_it_and_do_the_fit(start, place, serial, slurm):
    (place / "slurm.toml").write_text(SLURM_TOML.replace('"1GB"', '"plan"'))
    before = memory_of_workers()
    code, _, err = ended(start(*FIT, "-o", "e.zarr", "--cluster", "slurm.toml"))
    assert code == 0, err
    got = memory_of_workers()
    assert [got[number] for number in got.keys() - before.keys()] == [planned(start)] * 2
    assert bits_of(place / "e.zarr") == serial


def test_a_fit_on_worker_jobs_has_the_bits_of_one_process(start, place, serial, slurm):
    code, out, err = ended(start(*FIT, "-o", "e.zarr", "--cluster", "slurm.toml", "--json"))
    assert code == 0, err
    assert json.loads(out)["plan"]["resources"]["where"].startswith("dask workers of tls://")
    assert bits_of(place / "e.zarr") == serial
    wait_until(lambda: slurm() == [], 15, "an empty queue")


@pytest.mark.parametrize("cores", [1, 2])
def test_a_worker_job_that_is_cancelled_is_replaced_and_the_value_stays(slurm, place, cores):
    source = Slow(n_blocks=24 * cores, seconds=0.6)
    found = []
    text = SLURM_TOML.replace("jobs = 2", f"jobs = 2\ncores = {cores}").replace('"60s"', '"10m"')
    (place / "slurm.toml").write_text(text)
    with connect(str(place / "slurm.toml")) as client:
        client.wait_for_workers(2 * cores, timeout=60)
        fit = threading.Thread(
            target=lambda: found.append(batch_encoder(3, n_nonzero=5, strategy="gram").fit(source).components_)
        )
        assert no_workers_seconds() == 600  # as long as for the first
        with client.as_current():
            before = set(running(slurm))
            assert len(before) == 2
            fit.start()
            wait_until(lambda: client.processing() and any(client.processing().values()), 20, "tasks on workers")
            victim = min(before)
            subprocess.run(["scancel", victim], check=True)
            wait_until(lambda: len(set(running(slurm)) - {victim}) == 2, 20, "another job in place of the dead one")
            fit.join(timeout=60)
    assert no_workers_seconds() == 300
    assert len(found) == 1
    alone = batch_encoder(3, n_nonzero=5, strategy="gram").fit(Slow(n_blocks=24 * cores, seconds=0)).components_
    assert found[0].tobytes() == alone.tobytes()


def test_a_worker_job_that_is_cancelled_before_it_runs_is_replaced_too(start, place, serial, slurm):
    subprocess.run(["scontrol", "update", "PartitionName=debug", "State=DOWN"], check=True)
    try:
        process = start(*FIT, "-o", "e.zarr", "--cluster", "slurm.toml")
        wait_until(lambda: len(slurm()) == 2, 60, "jobs in the queue")
        first = {line.split()[0] for line in slurm()}
        victim = min(first)
        subprocess.run(["scancel", victim], check=True)
        wait_until(lambda: len({line.split()[0] for line in slurm()} - {victim}) == 2, 40, "another job in its place")
    finally:
        subprocess.run(["scontrol", "update", "PartitionName=debug", "State=UP"], check=True)
    code, _, err = ended(process)
    assert code == 0, err
    assert bits_of(place / "e.zarr") == serial


def test_jobs_that_cannot_start_a_worker_are_told_with_their_last_words_and_not_waited_for(start, place, slurm):
    (place / "slurm.toml").write_text(SLURM_TOML.replace('"60s"', '"10m"\npython = "/none/such/python"'))
    code, _, err = ended(start(*FIT, "-o", "e.zarr", "--cluster", "slurm.toml"))
    assert code == 6
    assert "all 2 slurm jobs ended before a worker started: job " in err
    assert "is FAILED (NonZeroExitCode)" in err
    assert "/none/such/python: No such file or directory" in err
    assert slurm() == []


def test_a_killed_command_leaves_no_job_behind(start, place, slurm):
    zarr.create_array(str(place / "huge.zarr"), shape=(50_000_000, 64), chunks=(100_000, 64), dtype="f4")
    process = start("fit", "huge.zarr", "-k", 2, "-r", 3, "-o", "e.zarr", "--cluster", "slurm.toml")
    wait_for_line(process, "warning: ")  # of chunks not stored, given just before the pass
    os.kill(process.pid, signal.SIGKILL)
    wait_until(lambda: slurm() == [], 60, "an empty queue")
    assert not (place / "e.zarr").exists()


def test_sigterm_while_workers_are_waited_for_empties_the_queue(start, place, slurm):
    subprocess.run(["scontrol", "update", "PartitionName=debug", "State=DOWN"], check=True)
    try:
        process = start(*FIT, "-o", "e.zarr", "--cluster", "slurm.toml")
        wait_until(slurm, 60, "jobs in the queue")
        process.send_signal(signal.SIGTERM)
        code, _, err = ended(process)
        assert (code, slurm()) == (143, []), err
        assert "Traceback" not in err
    finally:
        subprocess.run(["scontrol", "update", "PartitionName=debug", "State=UP"], check=True)


def test_when_no_worker_comes_the_reason_of_the_queue_is_told(start, place, slurm):
    subprocess.run(["scontrol", "update", "PartitionName=debug", "State=DOWN"], check=True)
    try:
        (place / "slurm.toml").write_text(SLURM_TOML.replace('"60s"', '"4s"'))
        code, _, err = ended(start(*FIT, "-o", "e.zarr", "--cluster", "slurm.toml"))
        assert code == 6
        assert "no worker of 2 slurm jobs appeared within 4.0 s" in err
        assert "is PENDING (PartitionDown)" in err
        assert "Traceback" not in err
        wait_until(lambda: slurm() == [], 30, "an empty queue")
    finally:
        subprocess.run(["scontrol", "update", "PartitionName=debug", "State=UP"], check=True)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('queue = "debug"', 'queue = "nope"', "invalid partition"),
        ('memory = "1GB"', 'memory = "900GB"', "Requested node configuration is not available"),
        ("jobs = 2", "jobs = 2\ncores = 64", "Requested node configuration is not available"),
        ("jobs = 2", 'jobs = 2\noptions = ["--nonsense"]', "unrecognized option '--nonsense'"),
    ],
)
def test_what_slurm_refuses_is_told_at_once(slurm, place, old, new, said):
    (place / "slurm.toml").write_text(SLURM_TOML.replace(old, new))
    with pytest.raises(Exception, match=re.escape(said)) as raised, connect(str(place / "slurm.toml")):
        pytest.fail("it was not refused")
    assert type(raised.value).__name__ == "ClusterUnavailable"
    wait_until(lambda: slurm() == [], 30, "an empty queue")


def too_much(nbytes):
    held = b"x" * nbytes
    time.sleep(60)
    return len(held)


def test_a_worker_that_takes_more_than_its_memory_dies_alone_and_comes_back(slurm, place):
    spec = read_cluster(place / "slurm.toml").model_copy(update={"jobs": 1, "memory": 400_000_000})
    with dask.config.set({"distributed.scheduler.allowed-failures": 0}), connect(spec) as client:
        future = client.submit(too_much, 1_500_000_000, pure=False)
        assert isinstance(future.exception(timeout=60), KilledWorker)
        assert client.submit(sum, [1, 2]).result(timeout=60) == 3
    wait_until(lambda: slurm() == [], 30, "an empty queue")


def test_a_submitted_pipeline_runs_by_itself(start, place, serial, slurm):
    code, out, err = ended(start("submit", "slurm", "p.toml", "--json"))
    assert code == 0, err
    (job,) = json.loads(out)["jobs"]
    wait_until(lambda: not any(line.startswith(job) for line in slurm()), 60, "the job's end")
    log = (place / f"spae-logs/spae-p-{job}.log").read_text()
    assert "enc  fit        ran" in log
    assert bits_of(place / "out/enc.zarr") == serial


def test_a_pipeline_that_is_submitted_with_workers_of_planned_memory_runs_by_itself(start, place, serial, slurm):
    (place / "slurm.toml").write_text(SLURM_TOML.replace('"1GB"', '"plan"') + '[driver]\nmemory = "1GB"\n')
    before = memory_of_workers()
    code, out, err = ended(start("submit", "slurm", "p.toml", "--cluster", "slurm.toml", "--json"))
    assert code == 0, err
    (job,) = json.loads(out)["jobs"]
    wait_until(lambda: slurm() == [], 90, "the job's end")
    assert "request   " in (place / f"spae-logs/spae-p-{job}.log").read_text()
    got = memory_of_workers()
    assert [got[number] for number in got.keys() - before.keys()] == [planned(start)] * 2
    assert bits_of(place / "out/enc.zarr") == serial


def test_a_job_that_would_wait_for_ever_is_warned_of_when_it_is_submitted(start, place, slurm):
    (place / "slurm.toml").write_text(SLURM_TOML.replace("jobs = 2", "jobs = 0") + '[driver]\nwalltime = "5h"\n')
    code, out, err = ended(start("submit", "slurm", "p.toml", "--cluster", "slurm.toml"))
    if out.strip():
        subprocess.run(["scancel", out.strip()], check=True)
    assert code == 0, err
    # as Slurm names it at first, and when it has looked again
    assert re.search(rf"warning: job {out.strip()} is held by Partition(Config|TimeLimit)\.", err), err
    wait_until(lambda: slurm() == [], 30, "an empty queue")


def test_a_submitted_array_does_the_fit_in_parts_and_the_rest_after_them(start, place, serial, slurm):
    code, out, err = ended(start("submit", "slurm", "p.toml", "--array", 2, "--json"))
    assert code == 0, err
    array, last = json.loads(out)["jobs"]
    wait_until(lambda: slurm() == [], 90, "an empty queue")
    parts = [(place / f"spae-logs/spae-p-{array}-{number}.log").read_text() for number in (1, 2)]
    assert all("of pass 1" in text or "all passes are whole" in text for text in parts), parts
    log = (place / f"spae-logs/spae-p-{last}.log").read_text()
    assert re.search(r"3 of 3 spans", log), log
    assert bits_of(place / "out/enc.zarr") == serial


def test_a_job_at_the_end_of_its_time_stops_and_queues_itself_again(start, place, slurm):
    zarr.create_array(str(place / "huge.zarr"), shape=(50_000_000, 64), chunks=(100_000, 64), dtype="f4")
    (place / "p.toml").write_text((place / "p.toml").read_text().replace("x.zarr", "huge.zarr"))
    code, out, err = ended(start("submit", "slurm", "p.toml", "--max-resubmits", 1, "--json"))
    assert code == 0, err
    (job,) = json.loads(out)["jobs"]
    log = place / f"spae-logs/spae-p-{job}.log"
    wait_until(lambda: log.exists() and "warning: " in log.read_text(), 60, "a pass")
    subprocess.run(["scancel", "--batch", "--signal=USR1", job], check=True)  # as Slurm does before the time is over
    wait_until(lambda: "the job is queued again" in log.read_text(), 30, "a requeue")
    wait_until(lambda: [f"{job} spae-p PENDING"] == slurm(), 30, "the job in the queue")
    assert "error: interrupted (SIGTERM)" in log.read_text()
    subprocess.run(["scancel", job], check=True)
    wait_until(lambda: slurm() == [], 30, "an empty queue")


def test_a_lab_goes_down_with_its_owner_and_takes_no_other_along(slurm, tmp_path, start):
    lab = tmp_path / "lab"
    owner = start(command=("sleep", "600"))
    environment = os.environ | {"SLURM_LAB": str(lab), "PORT": str(free_ports(N_PORTS)), "OWNER": str(owner.pid)}
    subprocess.run([SCRIPTS / "slurm-up.sh"], check=True, timeout=60, env=environment)
    daemons = [int(each.read_text()) for each in (lab / "run").glob("*.pid")]
    assert len(daemons) == 4
    owner.kill()
    owner.wait()
    wait_until(lambda: not lab.exists(), 60, "the lab's end")
    left = [psutil.Process(each) for each in daemons if psutil.pid_exists(each)]
    assert [each for each in left if each.status() != psutil.STATUS_ZOMBIE] == []
    assert slurm() == []  # the one of this test answers


@pytest.mark.parametrize(("taken", "said"), [("port", "is taken"), ("folder", "is in use; take it down first")])
def test_a_lab_takes_neither_ports_nor_folder_of_another(slurm, tmp_path, taken, said):
    lab = os.environ["SLURM_LAB"] if taken == "folder" else str(tmp_path)
    environment = os.environ | {"SLURM_LAB": lab}
    done = subprocess.run(
        [SCRIPTS / "slurm-up.sh"],
        timeout=60,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert said in done.stderr
    assert list(tmp_path.iterdir()) == []
    assert slurm() == []


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("case", CASES)
def test_a_pipeline_whose_jobs_are_ended_comes_to_its_report(case, slurm, tmp_path):
    names = ("PYTHONPATH", "SLURM_CONF", "OPENBLAS_NUM_THREADS")
    faults, said = CASES[case](tmp_path / "site", {name: os.environ[name] for name in names})
    assert faults == []
    assert "spans were read twice" in said
