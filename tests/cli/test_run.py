"""``spae run``: what it prints, how it ends, and that an interrupted run is gone on with."""

import json
import re
import shutil
import signal
import tomllib
from pathlib import Path

import numpy as np
import pytest

from spae_dask import load_encoder
from spae_dask.pipelines.pipeline import read_pipeline
from tests.cli.conftest import D, planted
from tests.cli.test_exit_codes import failed
from tests.cli.test_interrupts import interrupt_in_pass, wait_for_line

PAGE = Path(__file__).parents[2] / "docs" / "run" / "pipelines.md"

TWO = """output = "out"

[[step]]
kind = "fit"
name = "encoder"
data = "x.zarr"
n_components = 2
n_nonzero = 4
method = "batch"

[[step]]
kind = "evaluate"
data = "x.zarr"
encoder = "@encoder"
"""


@pytest.fixture
def pipeline(store):
    """A pipeline beside the store, whose results are in ``out``."""
    path = store.with_name("p.toml")
    path.write_text(TWO)
    return path


def test_results_are_on_stdout_and_all_else_on_stderr(spae, pipeline):
    ended = spae("run", pipeline)
    assert ended.code == 0
    assert ended.out.count("x PCA's loss") == 2
    assert "step 1 of 2, encoder (fit): runs, it has not run yet" in ended.err
    assert "step 2 of 2, evaluate: runs" in ended.err
    assert ended.err.splitlines()[-1].split() == ["results", str(pipeline.parent / "out")]
    again = spae("run", pipeline)
    assert (again.code, again.out) == (0, "")
    assert "evaluate  evaluate   skipped" in again.err


def test_json_is_one_object_with_steps_status_seconds_and_outputs(spae, pipeline):
    document = spae("run", pipeline, "--json").document
    fit, evaluate = document["steps"]
    assert document["command"] == "run"
    assert (fit["name"], fit["kind"], fit["line"], fit["status"]) == ("encoder", "fit", 3, "ran")
    assert fit["seconds"] > 0
    assert fit["outputs"] == [str(pipeline.parent / "out" / "encoder.zarr")]
    assert fit["result"]["certificate"]["ratio"] == pytest.approx(evaluate["result"]["certificate"]["ratio"])
    again = spae("run", pipeline, "--json").document
    assert [each["status"] for each in again["steps"]] == ["skipped", "skipped"]
    assert [each["result"] for each in again["steps"]] == [fit["result"], evaluate["result"]]


def test_output_is_overridden_and_force_runs_all(spae, pipeline, tmp_path):
    elsewhere = tmp_path / "some" / "where"
    assert spae("run", pipeline, "-o", elsewhere, "-q").code == 0
    assert (elsewhere / "evaluate.json").is_file()
    assert not (pipeline.parent / "out").exists()
    document = spae("run", pipeline, "-o", elsewhere, "--force", "--json").document
    assert [(each["status"], each["reason"]) for each in document["steps"]] == [("ran", "--force")] * 2


def test_a_dry_run_prints_what_would_run_and_writes_nothing(spae, pipeline):
    ended = spae("run", pipeline, "--dry-run", "--cluster", "local:2")
    assert ended.code == 0
    assert ended.out.splitlines()[0].split() == ["encoder", "fit", "to", "run", "it", "has", "not", "run", "yet"]
    assert "of 2 (processes of this machine); limit" in ended.out
    assert {each.name for each in pipeline.parent.iterdir()} == {"x.zarr", "p.toml"}


@pytest.mark.parametrize("dry", [["--dry-run"], []])
def test_4_a_plan_that_does_not_fit(spae, pipeline, dry):
    ended = spae("run", pipeline, "--memory", "250MB", *dry)
    assert ended.code == 4
    assert "line 3, step encoder (fit): " in ended.err
    assert "Use a memory limit" in ended.err.splitlines()[-1]
    assert not (pipeline.parent / "out" / "encoder.zarr").exists()
    if dry:
        assert "evaluate  evaluate   to run" in ended.out
        assert not (pipeline.parent / "out").exists()


def test_3_mistakes_are_told_with_lines_and_in_the_words_of_the_file(spae, pipeline):
    pipeline.write_text(TWO.replace("n_nonzero", "nonzeros"))
    failed(spae("run", pipeline), 3, "line 8: step[1].nonzeros: this key is not known", "n_nonzero")
    pipeline.write_text(TWO.replace("n_nonzero = 4", f"n_nonzero = {D + 1}"))
    failed(spae("run", pipeline), 3, f"step encoder (fit): n_nonzero={D + 1} is not allowed", f"from 1 to {D}")


def test_3_as_json_tells_what_was_done_before(spae, pipeline):
    pipeline.write_text(TWO.replace('data = "x.zarr"\nencoder', 'data = "narrow.npy"\nencoder'))
    np.save(pipeline.with_name("narrow.npy"), planted()[:, :5])
    document = spae("run", pipeline, "--json").document
    assert [each["status"] for each in document["steps"]] == ["ran", "failed"]
    assert document["error"]["exit_code"] == 3
    assert "5 features" in document["error"]["message"]


@pytest.mark.parametrize(("name", "code"), [("none.toml", 3), ("", 5)])
def test_no_file_and_a_folder(spae, tmp_path, name, code):
    failed(spae("run", tmp_path / name), code, "Give the path of a pipeline")


def test_2_an_option_that_is_not_known(spae, pipeline):
    ended = spae("run", pipeline, "--dryrun")
    assert ended.code == 2
    assert "Did you mean --dry-run?" in ended.err


def test_5_a_damaged_store_stops_the_run_and_names_the_step(spae, store, pipeline):
    (store / "c" / "2" / "0").write_bytes(b"not a chunk")
    failed(spae("run", pipeline), 5, "step encoder (fit)", "'c/2/0'")


def test_strict_refuses_missing_chunks(spae, store, pipeline):
    shutil.rmtree(store / "c" / "2")
    assert spae("run", pipeline, "-q").code == 0
    assert spae("run", pipeline, "--force", "--strict").code == 3


HUGE = """output = "out"

[[step]]
kind = "ingest"
name = "small"
source = "x.npy"

[[step]]
kind = "fit"
data = "{data}"
n_components = 2
n_nonzero = 3
method = "batch"
"""


def interrupted_and_run_again(spae, spae_process, huge, where, signum):
    """See that an interrupted run has the signal's code, and that the next one goes on at the unfinished step."""
    pipeline = huge.with_name("p.toml")
    np.save(huge.with_name("x.npy"), planted())
    pipeline.write_text(HUGE.format(data="huge.zarr"))
    process = spae_process("run", pipeline, "--cluster", where, "--json")
    wait_for_line(process, "step 2 of 2")
    results = huge.with_name("out")
    out, _ = interrupt_in_pass(process, signum, group=False, begun=results / "fit.checkpoint")
    assert process.returncode == 128 + signum
    assert [each["status"] for each in json.loads(out)["steps"]] == ["ran", "interrupted"]
    assert {each.name for each in results.iterdir()} == {
        "small.zarr",
        "small.step.json",
        "fit.step.json",
        "fit.checkpoint",  # what it goes on from
    }
    pipeline.write_text(HUGE.format(data="@small"))
    document = spae("run", pipeline, "--json").document
    assert [each["status"] for each in document["steps"]] == ["skipped", "ran"]


@pytest.mark.chaos
def test_an_interrupted_run_has_the_signals_code_and_goes_on_at_the_unfinished_step(spae, spae_forked, huge):
    interrupted_and_run_again(spae, spae_forked, huge, "none", signal.SIGTERM)


def test_one_cluster_serves_all_steps(spae, pipeline):
    ended = spae("run", pipeline, "--cluster", "local:1")
    assert ended.code == 0
    assert ended.err.count("cluster   tls://") == 1


def test_the_example_of_the_documentation_runs(spae, tmp_path):
    text = PAGE.read_text(encoding="utf-8")
    (example,) = (each for each in re.findall(r"```toml\n(.*?)```", text, re.DOTALL) if "[[step]]" in each)
    assert len(tomllib.loads(example)["step"]) > 2
    (tmp_path / "pipeline.toml").write_text(example)
    names = ",".join(f"gene{i}" for i in range(D))
    np.savetxt(tmp_path / "table.csv", planted()[:400], delimiter=",", header=names, comments="")
    np.save(tmp_path / "new.npy", planted(1))
    ended = spae("run", tmp_path / "pipeline.toml", "--json")
    assert ended.code == 0
    pipeline = read_pipeline(tmp_path / "pipeline.toml")
    assert all(path.exists() for node in pipeline.nodes for path in node.outputs.values())
    (fit,) = [node for node in pipeline.nodes if node.step.kind == "fit"]
    assert load_encoder(fit.outputs[".zarr"]).certificate_.ratio >= 1
