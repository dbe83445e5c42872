"""On a real Grid Engine of one host: bits as in one process, deaths, refusals, and nothing left in the queue."""

import json
import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import psutil
import pytest
import zarr

from benchmarks.slurm_lab import free_ports
from spae_dask.clusters.connect import connect
from spae_dask.clusters.job_options import DEATH_TIMEOUT
from spae_dask.errors import ClusterUnavailable
from tests.cli.test_interrupts import wait_for_line
from tests.clusters.conftest import ROOT, wait_until
from tests.estimators.sources import batch_encoder
from tests.integration.conftest import bits_of, ended
from tests.integration.sge_lab import LAB_TOML, N_PORTS, SCRIPTS, listed, missing, running_lab
from tests.integration.slow_source import Slow

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300), pytest.mark.usefixtures("sge")]

FIT = ("fit", "x.zarr", "-k", 3, "-r", 5)


@pytest.fixture(scope="module")
def sge():
    if lacking := missing():
        pytest.skip(f"needs root and gridengine-master, -exec and -client of Debian; not here: {lacking}")
    with running_lab() as environment, pytest.MonkeyPatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        yield


@pytest.fixture
def cluster(place):
    """Writes the cluster file, of workers that import this clone, with changes."""

    def write(*changes):
        text = LAB_TOML
        for old, new in changes:
            assert text.count(old) == 1
            text = text.replace(old, new)
        (place / "sge.toml").write_text(f'{text}\n[environment]\nPYTHONPATH = "{ROOT}"\n')
        return str(place / "sge.toml")

    write()
    return write


@contextmanager
def disabled() -> Iterator[None]:
    """A queue that starts no jobs."""
    subprocess.run(["qmod", "-d", "all.q"], check=True, capture_output=True)
    try:
        yield
    finally:
        subprocess.run(["qmod", "-e", "all.q"], check=True, capture_output=True)


def running():
    return {line.split()[0] for line in listed() if line.endswith(" r")}


def empty(seconds):
    wait_until(lambda: listed() == [], seconds, "an empty queue")


def huge(place):
    zarr.create_array(str(place / "huge.zarr"), shape=(50_000_000, 64), chunks=(100_000, 64), dtype="f4")
    return "fit", "huge.zarr", "-k", 2, "-r", 3, "-o", "e.zarr", "--cluster", "sge.toml"


def test_a_fit_on_worker_jobs_has_the_bits_of_one_process(start, place, cluster, serial):
    code, out, err = ended(start(*FIT, "-o", "e.zarr", "--cluster", "sge.toml", "--json"))
    assert code == 0, err
    assert json.loads(out)["plan"]["resources"]["where"].startswith("dask workers of tls://")
    assert bits_of(place / "e.zarr") == serial
    empty(15)


@pytest.mark.parametrize("memory", ["plan", "500MB"])
def test_little_memory_is_enough_although_idle_workers_hold_more_addresses(start, place, cluster, serial, memory):
    cluster(("2GB", memory))
    code, _, err = ended(start(*FIT, "-o", "e.zarr", "--cluster", "sge.toml"))
    assert code == 0, err
    assert bits_of(place / "e.zarr") == serial


def too_much(nbytes):
    held = b"x" * nbytes
    time.sleep(60)
    return len(held)


def test_a_worker_cannot_take_more_than_its_job_asked_for(cluster):
    with connect(cluster(("jobs = 2", "jobs = 1"), ("2GB", "400MB"))) as client:
        future = client.submit(too_much, 1_500_000_000, pure=False)
        assert isinstance(future.exception(timeout=60), MemoryError)
        assert client.submit(sum, [1, 2]).result(timeout=60) == 3
    empty(15)


def test_a_job_of_two_cores_has_two_slots_and_two_workers_in_a_bash(cluster, place):
    (place / "activate").write_text("export FROM_SOURCE=yes\n")
    file = cluster(
        ("jobs = 2", f'jobs = 1\ncores = 2\nparallel_environment = "smp"\nprologue = ["source {place}/activate"]')
    )
    with connect(file) as client:
        client.wait_for_workers(2, timeout=60)
        seen = client.run(lambda: (os.environ["NSLOTS"], os.environ["FROM_SOURCE"], os.environ["JOB_ID"]))
    assert len(seen) == 2
    assert {each[:2] for each in seen.values()} == {("2", "yes")}
    assert len({each[2] for each in seen.values()}) == 1
    empty(15)


def test_a_worker_job_that_is_deleted_is_replaced_and_the_value_stays(cluster, place):
    source = Slow(n_blocks=24, seconds=0.6)
    found = []
    with connect(str(place / "sge.toml")) as client:
        client.wait_for_workers(2, timeout=60)
        fit = threading.Thread(
            target=lambda: found.append(batch_encoder(3, n_nonzero=5, strategy="gram").fit(source).components_)
        )
        with client.as_current():
            before = running()
            assert len(before) == 2
            fit.start()
            wait_until(lambda: client.processing() and any(client.processing().values()), 20, "tasks on workers")
            victim = min(before)
            subprocess.run(["qdel", victim], check=True, capture_output=True)
            wait_until(lambda: len(running() - {victim}) == 2, 30, "another job in place of the dead one")
            fit.join(timeout=90)
    assert len(found) == 1
    alone = batch_encoder(3, n_nonzero=5, strategy="gram").fit(Slow(n_blocks=24, seconds=0)).components_
    assert found[0].tobytes() == alone.tobytes()
    empty(15)


def test_a_killed_command_leaves_no_job_behind(start, place, cluster):
    process = start(*huge(place))
    wait_for_line(process, "warning: ")  # of chunks not stored, given just before the pass
    os.kill(process.pid, signal.SIGKILL)
    empty(60)
    assert not (place / "e.zarr").exists()


def test_jobs_of_a_killed_command_that_start_later_end_soon(start, place, cluster):
    with disabled():
        process = start(*FIT, "-o", "e.zarr", "--cluster", "sge.toml")
        wait_until(lambda: len(listed()) == 2, 60, "jobs in the queue")
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        assert len(listed()) == 2  # nobody is left who would remove them
    empty(DEATH_TIMEOUT + 60)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_in_the_middle_of_a_fit_empties_the_queue(start, place, cluster, number, code):
    process = start(*huge(place))
    wait_for_line(process, "warning: ")
    process.send_signal(number)
    found, _, err = ended(process)
    assert found == code
    assert "Traceback" not in err
    empty(5)  # a job that has been deleted takes a moment
    assert not (place / "e.zarr").exists()


def test_sigterm_while_workers_are_waited_for_empties_the_queue(start, cluster):
    with disabled():
        process = start(*FIT, "-o", "e.zarr", "--cluster", "sge.toml")
        wait_until(listed, 60, "jobs in the queue")
        process.send_signal(signal.SIGTERM)
        code, _, err = ended(process)
        assert (code, listed()) == (143, [])
        assert "Traceback" not in err


@pytest.mark.parametrize(
    ("kept", "said"), [("true", "dropped because it is disabled"), ("false", "dropped because it is temporarily not")]
)
def test_when_no_worker_comes_the_reason_of_the_queue_is_told(start, cluster, kept, said, tmp_path):
    before = subprocess.run(["qconf", "-ssconf"], check=True, capture_output=True, text=True).stdout
    (tmp_path / "before").write_text(before)
    (tmp_path / "now").write_text(re.sub(r"(?m)^(schedd_job_info +)\S+", rf"\g<1>{kept}", before))
    subprocess.run(["qconf", "-Msconf", tmp_path / "now"], check=True, capture_output=True)
    cluster(('"60s"', '"6s"'))
    try:
        with disabled():
            code, _, err = ended(start(*FIT, "-o", "e.zarr", "--cluster", "sge.toml"))
            assert code == 6
            assert re.search(r"no worker of 2 sge jobs appeared within 6.0 s: job \d+ is qw, job \d+ is qw; ", err)
            assert said in err
            assert "Traceback" not in err
            assert listed() == []
    finally:
        subprocess.run(["qconf", "-Msconf", tmp_path / "before"], check=True, capture_output=True)


def test_when_a_host_cannot_run_the_job_its_words_are_told(start, cluster):
    cluster(('"60s"', '"8s"\noptions = ["-wd /nowhere"]'))
    code, _, err = ended(start(*FIT, "-o", "e.zarr", "--cluster", "sge.toml"))
    assert code == 6
    assert "is Eqw" in err
    assert "can't chdir to /nowhere: No such file or directory" in err
    empty(15)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('queue = "all.q"', 'queue = "nope"', 'job requests unknown queue "nope"'),
        ('memory = "2GB"', 'memory = "900GB"', "it offers only hc:h_vmem="),
        ("jobs = 2", 'jobs = 2\ncores = 64\nparallel_environment = "smp"', 'cannot run in PE "smp"'),
        ("jobs = 2", 'jobs = 2\nparallel_environment = "nope"', 'requested parallel environment "nope" does not exist'),
        ("jobs = 2", 'jobs = 2\naccount = "nope"', 'requested project "nope" does not exist'),
        ("jobs = 2", 'jobs = 2\nmemory_resource = "nope"', 'unknown resource "nope"'),
        ("jobs = 2", 'jobs = 2\noptions = ["--nonsense"]', 'invalid option argument "--nonsense"'),
    ],
)
def test_what_grid_engine_refuses_is_told_at_once(cluster, old, new, said):
    with pytest.raises(ClusterUnavailable, match=re.escape(said)), connect(cluster((old, new))):
        pytest.fail("it was not refused")
    assert listed() == []


def test_a_lab_goes_down_with_its_owner_its_jobs_too_and_takes_no_other_along(tmp_path, start):
    lab, port = tmp_path / "lab", free_ports(N_PORTS)
    owner = start(command=("sleep", "600"))
    environment = os.environ | {"SGE_LAB": str(lab), "PORT": str(port), "OWNER": str(owner.pid)}
    subprocess.run([SCRIPTS / "sge-up.sh"], check=True, timeout=120, env=environment)
    submit = f'. {lab}/default/common/settings.sh; cd {tmp_path}; qsub -b y -cwd sleep 600; echo "$SGE_QMASTER_PORT"'
    assert subprocess.run(["bash", "-c", submit], check=True, capture_output=True, text=True).stdout.split()[-1] == str(
        port
    )

    def here():
        return [each for each in psutil.process_iter(["cwd"]) if (each.info["cwd"] or "").startswith(str(tmp_path))]

    wait_until(lambda: any(each.name() == "sleep" for each in here() if each.pid != owner.pid), 30, "a job")
    owner.kill()
    owner.wait()
    wait_until(lambda: not lab.exists(), 60, "the lab's end")
    assert here() == []
    assert listed() == []  # the one of this test answers


@pytest.mark.parametrize(("taken", "said"), [("port", "is taken"), ("folder", "is in use; take it down first")])
def test_a_lab_takes_neither_ports_nor_folder_of_another(tmp_path, taken, said):
    lab = os.environ["SGE_LAB"] if taken == "folder" else str(tmp_path)
    environment = os.environ | {"SGE_LAB": lab, "PORT": os.environ["SGE_QMASTER_PORT"]}
    done = subprocess.run(
        [SCRIPTS / "sge-up.sh"],
        timeout=60,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert said in done.stderr
    assert list(tmp_path.iterdir()) == []
    assert listed() == []
