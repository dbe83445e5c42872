"""Job scripts, whole; and what hostile strings become in them."""

import json
import subprocess
from pathlib import Path

import pytest

from spae_dask.cli.main import main
from spae_dask.clusters.batch_job import BatchJob, job_name, own_processes
from spae_dask.clusters.job_options import grid_engine_memory, lifetime
from spae_dask.clusters.queue import job_script
from spae_dask.clusters.slurm_script import array_script, batch_script
from spae_dask.clusters.specs import Driver, QueueSpec

GOLDEN = Path(__file__).parent / "golden"

TABLE = {
    "jobs": 4,
    "cores": 4,
    "processes": 2,
    "memory": "16GiB",
    "walltime": "4h",
    "queue": "normal",
    "account": "project",
    "interface": "ib0",
    "scratch": "/local/my scratch",
    "logs": "spae-logs",
    "python": "/opt/venv/bin/python",
    "modules": ["python/3.11"],
    "environment": {"GREETING": "it's $HOME; `id`"},
    "prologue": ["source $HOME/venv/bin/activate"],
    "driver": {"cores": 2, "memory": "8GiB", "walltime": "12h"},
}
OPTION = {"slurm": "--constraint=icelake", "pbs": "-l place=scatter", "lsf": "-R select[big]", "sge": "-l gpu=0"}
KEYS = {"sge": {"parallel_environment": "smp"}}


def a_queue(kind="slurm", **changes):
    return QueueSpec.model_validate({"kind": kind, "options": [OPTION[kind]]} | TABLE | KEYS.get(kind, {}) | changes)


def a_job(*words):
    return BatchJob("spae-p", words, "/home/me/my runs", a_queue().driver, 120, 3)


def a_driver(cores):
    return Driver.model_validate({"cores": cores, "memory": "10GB"})


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # the queue's logs are made where it is used


@pytest.mark.parametrize("kind", ["slurm", "pbs", "lsf", "sge"])
def test_the_script_of_a_worker_is_this_one(kind):
    script = job_script(a_queue(kind), "tcp://10.0.0.1:4242", "spae-1a2b3c4d")
    assert script == (GOLDEN / f"worker-{kind}.sh").read_text()


@pytest.mark.parametrize(
    ("resource", "asked"),
    [
        (None, "h_vmem=4608M"),  # (16 GiB, and 1 GiB of addresses for each of two processes) over four slots
        ("h_vmem,mem_free", "h_vmem=4608M,mem_free=4096M"),
        ("m_mem_free", "m_mem_free=4096M"),
    ],
)
def test_grid_engine_is_asked_for_memory_by_the_slot_and_for_addresses_where_it_counts_them(resource, asked):
    script = job_script(a_queue("sge", memory_resource=resource), "tcp://10.0.0.1:4242", "spae-1")
    assert f"\n#$ -l {asked}\n" in script


def test_memory_of_a_slot_is_rounded_up():
    spec = a_queue("sge", memory="1GiB", cores=3, processes=1, memory_resource="h_rss")
    assert grid_engine_memory(spec) == "h_rss=342M"


def test_a_user_s_own_number_of_allocator_arenas_is_kept():
    script = job_script(a_queue("sge", environment={"MALLOC_ARENA_MAX": "7"}), "tcp://10.0.0.1:4242", "spae-1")
    assert [line for line in script.split("\n") if "ARENA" in line] == ["export MALLOC_ARENA_MAX=7"]


def test_the_script_of_a_batch_job_is_this_one():
    words = ("run", "/home/me/my runs/p.toml", "--cluster", "/home/me/slurm.toml")
    assert batch_script(a_queue(), a_job(*words)) == (GOLDEN / "batch.sh").read_text()


def test_the_script_of_an_array_is_this_one():
    words = ("fit-part", "x.zarr", "--components", "3", "--nonzeros", "5", "--checkpoint", "out/enc.checkpoint")
    assert array_script(a_queue(), a_job(*words), 8) == (GOLDEN / "array.sh").read_text()


HOSTILE = ["$(touch pwned)", "`touch pwned`", "'; touch pwned; '", '"; touch pwned; "', "a b", "-rf", "\\", "é", "a\nb"]


@pytest.mark.parametrize("evil", HOSTILE)
def test_a_shell_gets_what_users_write_as_they_write_it(evil, tmp_path):
    fake = tmp_path / "python it's"
    fake.write_text('#!/bin/sh\nprintf "%s\\0" "$EVIL" "$PWD" "$@" > "$SEEN"\n')
    fake.chmod(0o755)
    folder = tmp_path / evil
    folder.mkdir()
    spec = a_queue(
        python=str(fake), modules=[], prologue=[], environment={"EVIL": evil, "SEEN": str(tmp_path / "seen")}
    )
    job = BatchJob("spae-p", ("run", evil), str(folder), spec.driver, 120, 3)
    subprocess.run(
        ["bash", "-c", batch_script(spec, job)], check=True, env={"PATH": "/usr/bin:/bin", "SLURM_JOB_ID": "1"}
    )
    seen = (tmp_path / "seen").read_text().split("\0")[:-1]
    assert seen == [evil, str(folder), "-m", "spae_dask", "run", evil]
    assert not list(tmp_path.rglob("pwned"))


@pytest.mark.parametrize("evil", [each for each in HOSTILE if "\n" not in each])  # others are refused with the file
def test_the_script_of_a_worker_too(evil, tmp_path):
    fake = tmp_path / "python it's"
    fake.write_text('#!/bin/sh\nprintf "%s\\0" "$EVIL" "$@" > "$SEEN"\n')
    fake.chmod(0o755)
    environment = {"EVIL": evil, "SEEN": str(tmp_path / "seen")}
    scratch = f"/scratch/{evil}"
    spec = a_queue(python=str(fake), modules=[], prologue=[], scratch=scratch, environment=environment)
    script = job_script(spec, "tcp://10.0.0.1:4242", "spae-1")
    subprocess.run(["bash", "-c", script], check=True, env={"PATH": "/usr/bin:/bin"})
    seen = (tmp_path / "seen").read_text().split("\0")[:-1]
    assert seen[0] == evil
    assert seen[seen.index("--local-directory") + 1] == scratch
    assert not list(tmp_path.rglob("pwned"))


@pytest.mark.parametrize("key", ["queue", "account", "interface", "logs", "parallel_environment", "memory_resource"])
@pytest.mark.parametrize("evil", ["a\n#SBATCH --wrap=id", "a b", "$(id)", "a;id", "-x", "", "`id`", "a'b", 'a"b'])
def test_what_would_end_a_line_of_the_batch_system_is_refused(key, evil):
    with pytest.raises(ValueError, match=r"give (a string of letters|names of resources)"):
        a_queue("sge", **{key: evil})


@pytest.mark.parametrize("given", ["$TMPDIR", "${SLURM_TMPDIR}/x", "~/scratch", "~", "$(mktemp -d)"])
def test_scratch_that_only_a_shell_would_find_is_refused(given):
    with pytest.raises(ValueError, match="no shell expands variables or ~"):
        a_queue(scratch=given)


@pytest.mark.parametrize("evil", ["--x\n#SBATCH --y", "x", "", "\t--x", "--x\0", "--é"])
def test_an_option_is_one_option(evil):
    with pytest.raises(ValueError, match="give each option"):
        a_queue(options=[evil])


@pytest.mark.parametrize("name", ["a b", "1A", "A-B", "", "A;id", "LD$"])
def test_a_variable_has_the_name_of_a_variable(name):
    with pytest.raises(ValueError, match="names of variables"):
        a_queue(environment={name: "x"})


@pytest.mark.parametrize("walltime", [120, 600, 3600, 86400, 30 * 86400])
def test_workers_leave_before_the_time_is_over_but_not_long_before(walltime):
    words = lifetime(walltime)
    seconds, spread = int(words[1][:-1]), int(words[3][:-1])
    assert 0.7 * walltime <= seconds - spread
    assert seconds + spread < walltime


def test_a_job_of_its_own_keeps_to_its_memory():
    words = own_processes(a_driver(4))
    assert words == ("--cluster", "local:4", "--memory", "1800000000B")
    assert own_processes(a_driver(1))[1] == "none"


@pytest.mark.parametrize("stem", ["p", "my Pipeline.v2", "--x", "ünï", "", "a" * 300, "$(id)"])
def test_any_file_gives_a_name_of_a_job(stem):
    name = job_name(stem)
    assert json.dumps(name).isascii()
    assert name.replace("-", "").isalnum()
    assert len(name) <= 40


@pytest.mark.parametrize("words", [(), ("--array", "3")])
def test_a_dry_run_shows_the_script_as_it_is_submitted(words, tmp_path, capsys):
    Path("x.npy").write_bytes(b"")
    Path("p.toml").write_text(
        'output = "out"\n[[step]]\nkind = "fit"\nname = "e"\ndata = "x.npy"\nn_components = 1\nn_nonzero = 1\n'
    )
    Path("c.toml").write_text(
        'kind = "slurm"\njobs = 0\noptions = ["--comment=method=x"]\n[environment]\neps = "array=1"\n'
    )
    order = ["submit", "slurm", "p.toml", "--cluster", "c.toml", *words]
    assert main([*order, "--dry-run", "-o", "job.sh"]) == 0
    shown = capsys.readouterr().out
    written = [Path(each).read_text() for each in ("job.sh", "job-2.sh") if Path(each).exists()]
    assert shown.rstrip("\n") == "\n".join(written).rstrip("\n")
    assert "export eps=array=1" in shown
    assert "#SBATCH --comment=method=x" in shown
