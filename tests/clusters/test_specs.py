"""Mistakes in cluster files are told with their lines; the files in deploy are right."""

import json
import sys
from pathlib import Path

import pytest

from spae_dask.clusters.connect import connect
from spae_dask.clusters.specs import SPECS, read_cluster
from spae_dask.errors import ClusterUnavailable, InvalidInput, NotFound
from tests.clusters.conftest import ROOT, SLURM_TOML


def error_of(tmp_path, text):
    (tmp_path / "c.toml").write_text(text)
    with pytest.raises(InvalidInput) as raised:
        read_cluster(tmp_path / "c.toml")
    return str(raised.value)


@pytest.mark.parametrize("path", sorted(ROOT.glob("deploy/*/*.toml")), ids=lambda path: path.stem)
def test_the_files_in_deploy_are_right(path):
    assert read_cluster(path).kind in SPECS


@pytest.mark.parametrize(
    ("old", "new", "line", "said"),
    [
        ('kind = "slurm"', 'kind = "slrum"', 1, "kind: 'slrum' is not allowed: give one of 'local'"),
        ('kind = "slurm"', 'kind = "slrum"', 1, "Did you mean 'slurm'?"),
        ('kind = "slurm"\n', "", 1, "kind: it is missing"),
        ("jobs = 2", "job = 2", 2, "job: this key is not known. Did you mean 'jobs'?"),
        ("jobs = 2", "jobs = -1", 2, "jobs: -1 is not allowed"),
        ("jobs = 2", "jobs = 2.5", 2, "jobs: 2.5 is not allowed: give a whole number"),
        ("jobs = 2", "jobs = true", 2, "jobs: True is not allowed"),
        (
            "jobs = 2",
            "jobs = 2\ncores = 3\nprocesses = 2",
            1,
            "'cores' is 3, which is not a multiple of 'processes', 2",
        ),
        ('memory = "1GB"', "memory = 1", 3, "memory: 1 is not allowed: give a number of bytes with its unit"),
        ('memory = "1GB"', 'memory = "0GB"', 3, "memory: '0GB' is not allowed"),
        ('memory = "1GB"', 'memory = "plans"', 3, "such as '4GB' or '512MiB'; or 'plan'"),
        ('walltime = "20m"', 'walltime = "20"', 4, "walltime: '20' is not allowed: give a time such as '90s'"),
        ('walltime = "20m"', 'walltime = "1m"', 1, "line 1: 'walltime' is less than two minutes"),
        ("jobs = 2", "jobs = 2\nmemory_resource = 'h_vmem'", 1, "'memory_resource' is for Grid Engine, kind = 'sge'"),
        ("jobs = 2", "jobs = 2\nparallel_environment = 'smp'", 1, "'parallel_environment' is for Grid Engine"),
        ('walltime = "20m"', 'walltime = "9999999d"', 4, "give a time"),
        ('queue = "debug"', 'queue = ["debug"]', 5, "queue: ['debug'] is not allowed"),
        ('timeout = "60s"', "timeout = '60s'\n[driver]\ncpus = 2", 9, "driver.cpus: this key is not known."),
        ('timeout = "60s"', "timeout = '60s'\n[environment]\nA = 1", 8, "names of variables"),
    ],
)
def test_the_line_and_the_remedy_of_each_mistake(tmp_path, old, new, line, said):
    assert SLURM_TOML.count(old) == 1
    message = error_of(tmp_path, SLURM_TOML.replace(old, new))
    assert f"line {line}: " in message
    assert said in message


def test_several_cores_of_grid_engine_need_a_parallel_environment(tmp_path):
    text = SLURM_TOML.replace('"slurm"', '"sge"').replace("jobs = 2", "jobs = 2\ncores = 4")
    assert "Give 'parallel_environment', such as 'smp'. `qconf -spl` lists those" in error_of(tmp_path, text)
    for key in ("parallel_environment = 'smp'", "options = ['-pe  shared 4']"):
        (tmp_path / "c.toml").write_text(f"{text}{key}\n")
        assert read_cluster(tmp_path / "c.toml").cores == 4


@pytest.mark.parametrize("evil", ["h_vmem=1G", "", ",", "h_vmem,", "-l", "a b", "h_vmem\n#$ -o x"])
def test_resources_are_names(tmp_path, evil):
    text = SLURM_TOML.replace('"slurm"', '"sge"')
    assert "give names of resources" in error_of(tmp_path, f"{text}memory_resource = {json.dumps(evil)}\n")


def test_all_mistakes_are_told_at_once(tmp_path):
    message = error_of(tmp_path, 'kind = "kubernetes"\nimage = ""\nworkers = "4"\n[[volumes]]\nclaim = "A"\n')
    assert "has 4 problems" in message
    assert "volumes[1].claim" in message


@pytest.mark.parametrize(
    "text", ["", "kind = 3", "kind = ['slurm']", "kind = {}", "[kind]\nx = 1", "a = " + "[" * 3000]
)
def test_nonsense_is_refused(tmp_path, text):
    assert str(tmp_path / "c.toml") in error_of(tmp_path, text)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(NotFound, match="Give the path of a cluster in TOML"):
        read_cluster(tmp_path / "c.toml")


@pytest.mark.parametrize(
    ("given", "seconds"), [("90s", 90), ("30m", 1800), ("2d", 172800), ("01:30:00", 5400), ("1-00:00:10", 86410)]
)
def test_times(tmp_path, given, seconds):
    (tmp_path / "c.toml").write_text(SLURM_TOML.replace('"20m"', f'"{given}"') if seconds > 119 else SLURM_TOML)
    spec = read_cluster(tmp_path / "c.toml")
    assert spec.walltime == (seconds if seconds > 119 else 1200)


def test_a_scheduler_that_does_not_answer(tmp_path):
    (tmp_path / "c.toml").write_text('kind = "scheduler"\naddress = "tcp://127.0.0.1:9"\ntimeout = "1s"\n')
    with pytest.raises(ClusterUnavailable, match=r"within 1\.0 s"), connect(str(tmp_path / "c.toml")):
        pytest.fail("it connected")


def test_workers_of_this_machine_from_a_file(tmp_path):
    (tmp_path / "c.toml").write_text('kind = "local"\nworkers = 1\nmemory = "1GB"\n')
    with connect(str(tmp_path / "c.toml")) as client:
        (worker,) = client.scheduler_info()["workers"].values()
        assert worker["memory_limit"] == 1_000_000_000


def test_a_file_for_mpi_says_how_it_is_used(tmp_path):
    (tmp_path / "c.toml").write_text('kind = "mpi"\n')
    with pytest.raises(InvalidInput, match="mpirun -n 4 spae mpi --cluster"), connect(str(tmp_path / "c.toml")):
        pytest.fail("it connected")


@pytest.mark.parametrize(
    ("kind", "module", "extra"),
    [("slurm", "dask_jobqueue", "slurm"), ("kubernetes", "kr8s", "kubernetes")],
)
def test_a_missing_library_is_told_with_its_extra(monkeypatch, kind, module, extra):
    path = Path(ROOT / f"deploy/{kind}").glob("*.toml")
    for name in [each for each in sys.modules if each == f"spae_dask.clusters.{'queue' if kind == 'slurm' else kind}"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(InvalidInput, match=rf'pip install "spae-dask\[{extra}\]"'), connect(str(next(path))):
        pytest.fail("it connected")
