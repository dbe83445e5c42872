"""Memory that a cluster file leaves to the plan: what is asked for holds the plan, and what has none is refused."""

from pathlib import Path

import numpy as np
import pytest
import yaml

from spae_dask import plan
from spae_dask.cli import planned_memory
from spae_dask.cli.pipeline_memory import place_for, planners_of
from spae_dask.cli.planned_memory import STEP_NBYTES, sized
from spae_dask.cli.target import Target
from spae_dask.clusters import job_options as jobs
from spae_dask.clusters.specs import QueueSpec
from spae_dask.errors import InvalidInput
from spae_dask.passes.memory import IDLE_NBYTES, LAST_SHARE, LIMIT_SHARE
from spae_dask.passes.plan import Resources
from spae_dask.pipelines.pipeline import read_pipeline
from spae_dask.quantities import format_nbytes
from tests.cli.conftest import QUICK

QUEUE = 'kind = "slurm"\njobs = 2\ncores = 4\nprocesses = 2\n'
PODS = 'kind = "kubernetes"\nimage = "i"\nworkers = 2\ncores = 2\n[[volumes]]\nclaim = "c"\npath = "/results"\n'
FIT = '\n[[step]]\nkind = "fit"\nname = "{name}"\ndata = "{data}"\nn_components = 2\nn_nonzero = 3\neffort = 0\n'


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    np.save("small.npy", rng.standard_normal((400, 8)))
    np.save("wide.npy", rng.standard_normal((400, 1500)))
    Path("q.toml").write_text(QUEUE)
    Path("k.toml").write_text(PODS)
    return tmp_path


def pipeline(*data):
    text = "".join(FIT.format(name=f"fit{number}", data=each) for number, each in enumerate(data))
    Path("p.toml").write_text(f'output = "/results/out"\n{text}')
    return read_pipeline("p.toml")


def asked(*data):
    return place_for(pipeline(*data), Target("q.toml", None)).spec


@pytest.mark.parametrize("data", ["small.npy", "wide.npy"])
def test_what_is_asked_for_holds_the_plan_with_all_threads_busy_and_little_more(place, data):
    spec = asked(data)
    assert spec.memory % STEP_NBYTES == 0
    fits = plan(data, 2, n_nonzero=3, calibrate=False, resources=Resources("", 4, 2, spec.worker_nbytes))
    assert fits.tasks_per_worker == 2
    needed = 2 * (max(fits.worker_nbytes, fits.finish_nbytes) + IDLE_NBYTES) / 0.7 / 0.9
    assert needed <= spec.memory <= needed + STEP_NBYTES + (8 << 20)


def test_a_pipeline_asks_for_its_most_demanding_fit(place):
    assert asked("small.npy").memory < asked("wide.npy").memory == asked("small.npy", "wide.npy").memory


OTHERS = {
    "evaluate": '\n[[step]]\nkind = "evaluate"\nname = "e"\ndata = "wide.npy"\nencoder = "@fit0"\n',
    "path": '\n[[step]]\nkind = "path"\nname = "p"\ndata = "wide.npy"\nn_components = [2, 4]\nn_nonzero = [3, 5]\n',
}


def ended_in(nbytes, spae):
    return spae("run", "p.toml", "--output", "out", "--force", "--memory", f"{nbytes}B", "--cluster", "none")


def test_a_pipeline_asks_for_its_evaluation_too_which_takes_more_than_its_fit(place, spae, monkeypatch):
    monkeypatch.setattr(planned_memory, "STEP_NBYTES", 1)  # which may hide it
    np.save("small.npy", np.random.default_rng(0).standard_normal((40_000, 8)))  # several panels of rows
    Path("q.toml").write_text(QUEUE.replace("processes = 2", "processes = 4"))
    of_fit = asked("small.npy").worker_nbytes
    text = Path("p.toml").read_text() + OTHERS["evaluate"].replace("wide", "small")
    Path("p.toml").write_text(text)
    of_both = place_for(read_pipeline("p.toml"), Target("q.toml", None)).spec.worker_nbytes
    # in a limit of which threads use as much, rather than be refused, as a worker of that size may use
    assert ended_in(int(of_fit * LIMIT_SHARE / LAST_SHARE), spae).code == 4
    ended = ended_in(of_both, spae)
    assert ended.code == 0, ended.err


def test_a_pipeline_asks_for_its_path_too_and_it_runs_in_that(place, spae):
    of_fit = asked("small.npy").worker_nbytes
    Path("p.toml").write_text(Path("p.toml").read_text() + OTHERS["path"])
    of_both = place_for(read_pipeline("p.toml"), Target("q.toml", None)).spec.worker_nbytes
    assert of_both > of_fit
    ended = ended_in(of_both, spae)
    assert ended.code == 0, ended.err


def test_an_evaluation_of_an_encoder_that_is_there_is_planned(place, spae):
    assert spae("fit", "wide.npy", "-k", 2, "-r", 3, *QUICK, "-o", "there.zarr", "--cluster", "none").code == 0
    step = OTHERS["evaluate"].replace("@fit0", "there.zarr")
    Path("p.toml").write_text(f'output = "out"\n{step}')
    nbytes = place_for(read_pipeline("p.toml"), Target("q.toml", None)).spec.worker_nbytes
    ended = spae("run", "p.toml", "--memory", f"{nbytes}B", "--cluster", "none")
    assert ended.code == 0, ended.err


@pytest.mark.parametrize("there", [True, False])
def test_an_evaluation_is_planned_with_the_recipe_of_its_encoder(place, spae, there):
    np.save("raw.npy", np.random.default_rng(0).integers(0, 9, (400, 30), dtype=np.uint8))
    recipe = "normalize_total(100), sqrt"
    assert spae("fit", "raw.npy", "-k", 2, "-r", 3, *QUICK, "--recipe", recipe, "-o", "there.zarr").code == 0
    made = "" if there else FIT.format(name="fit0", data="raw.npy") + f'recipe = "{recipe}"\n'
    step = OTHERS["evaluate"].replace("wide.npy", "raw.npy").replace("@fit0", "there.zarr" if there else "@fit0")
    Path("p.toml").write_text(f'output = "out"\n{made}{step}')
    planned = planners_of(read_pipeline("p.toml"))[-1](Resources("", 1, 1, 4 << 30))
    assert planned.dtype == "float64"
    assert "reads raw data: normalize_total(100), sqrt, in the read" in planned.notes


def test_an_evaluation_of_data_that_are_yet_to_be_made_cannot_be_planned(place, spae):
    step = '\n[[step]]\nkind = "ingest"\nname = "m"\nsource = "small.npy"\n'
    evaluation = OTHERS["evaluate"].replace("wide.npy", "@m")
    Path("p.toml").write_text(f'output = "out"\n{FIT.format(name="fit0", data="small.npy")}{step}{evaluation}')
    ended = spae("run", "p.toml", "--cluster", "q.toml", "-n")
    assert (ended.code, "step m has not yet made the data of step e" in ended.err) == (3, True), ended.err


def test_a_plan_that_is_larger_than_what_is_assumed_is_made_without_a_limit(place):
    def huge(resources):
        return plan(
            np.broadcast_to(np.float64(1), (40_000, 15_000)), 2, strategy="gram", n_nonzero=3, calibrate=False,
            resources=resources,
        )  # fmt: skip

    spec = sized(QueueSpec.model_validate({"kind": "slurm", "jobs": 1}), [huge])
    assert spec.memory > 4 << 30
    assert huge(Resources("", 1, 1, spec.worker_nbytes)).strategy == "gram"


def test_the_job_of_a_worker_asks_for_it(place):
    spec = asked("wide.npy")
    options = jobs.job_options(spec, "n")
    assert options["job_mem"] == f"{spec.memory >> 20}M"
    assert int(options["memory"]) == 2 * spec.worker_nbytes


@pytest.mark.parametrize("written", ["", 'memory = "plan"\n'])
def test_the_plan_shows_it_and_goes_by_it(place, spae, written):
    Path("q.toml").write_text(QUEUE + written)
    ended = spae("plan", "wide.npy", "-k", 2, "-r", 3, "--cluster", "q.toml", "--no-calibrate", "--json")
    assert ended.code == 0, ended.err
    spec = asked("wide.npy")
    assert ended.document["plan"]["resources"]["memory_limit"] == spec.worker_nbytes
    assert f"{format_nbytes(spec.memory)} for each job of 2 processes" in ended.document["request"]
    text = spae("plan", "wide.npy", "-k", 2, "-r", 3, "--cluster", "q.toml", "--no-calibrate").out
    assert "request   " in text


def test_a_file_that_names_its_memory_asks_for_that(place, spae):
    Path("q.toml").write_text(f'{QUEUE}memory = "8GB"\n')
    ended = spae("plan", "wide.npy", "-k", 2, "-r", 3, "--cluster", "q.toml", "--no-calibrate", "--json")
    assert ended.document["request"] is None
    assert ended.document["plan"]["resources"]["memory_limit"] == int(8e9 * 0.9) // 2


def test_the_manifest_asks_for_it(place, spae):
    pipeline("wide.npy")
    ended = spae("submit", "kubernetes", "p.toml", "--cluster", "k.toml", "-n")
    assert ended.code == 0, ended.err
    _, job = yaml.safe_load_all(ended.out)
    (worker,) = job["spec"]["cluster"]["spec"]["worker"]["spec"]["containers"]
    asks = worker["resources"]
    assert asks["requests"]["memory"] == asks["limits"]["memory"]
    nbytes = int(asks["requests"]["memory"].removesuffix("Mi")) << 20
    words = worker["args"]
    limit = int(words[words.index("--memory-limit") + 1])
    assert limit == int(nbytes * 0.9)
    assert plan("wide.npy", 2, calibrate=False, resources=Resources("", 2, 2, limit)).tasks_per_worker == 2


@pytest.mark.parametrize("system", ["slurm", "kubernetes"])
def test_data_that_are_yet_to_be_made_cannot_be_planned(place, spae, system):
    step = '[[step]]\nkind = "ingest"\nname = "m"\nsource = "small.npy"\n'
    Path("p.toml").write_text(f'output = "/results/out"\n\n{step}{FIT.format(name="f", data="@m")}')
    ended = spae("submit", system, "p.toml", "--cluster", f"{system[0] if system != 'slurm' else 'q'}.toml", "-n")
    assert ended.code == 3
    assert "step m has not yet made the data of step f" in ended.err
    assert "memory = '16GB'" in ended.err


def test_data_that_only_pods_see_cannot_be_planned_here(place, spae):
    Path("p.toml").write_text(f'output = "/results/out"\n{FIT.format(name="f", data="/data/x.zarr")}')
    ended = spae("submit", "kubernetes", "p.toml", "--cluster", "k.toml", "-n")
    assert (ended.code, "does not see its data" in ended.err, "memory = '16GB'" in ended.err) == (3, True, True)


def test_commands_without_a_fit_say_what_to_write(place, spae):
    for words in (("check", "small.npy"), ("path", "small.npy", "-k", 2, "-r", 3)):
        ended = spae(*words, "--cluster", "q.toml")
        assert (ended.code, "this command does not make a plan" in ended.err) == (3, True), ended.err
    Path("p.toml").write_text('output = "out"\n\n[[step]]\nkind = "check"\ndata = "small.npy"\n')
    ended = spae("run", "p.toml", "--cluster", "q.toml", "-n")
    assert (ended.code, "it contains none" in ended.err) == (3, True), ended.err


@pytest.mark.parametrize("given", ['"plans"', "0", '"0GB"', "true"])
def test_other_words_are_refused(place, given):
    Path("q.toml").write_text(f"{QUEUE}memory = {given}\n")
    with pytest.raises(InvalidInput, match="or 'plan'"):
        asked("small.npy")
