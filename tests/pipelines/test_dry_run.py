"""A dry run says what a run would do, plans what can be planned, and touches nothing."""

import pytest

from spae_dask.errors import InvalidInput, MemoryBudgetExceeded, OutputExists
from spae_dask.pipelines.pipeline import read_pipeline
from spae_dask.pipelines.runner import dry_run
from tests.pipelines.conftest import InProcess
from tests.pipelines.test_rerun import CHAIN, STEPS


def test_before_the_first_run_all_steps_would_run_and_a_fit_of_data_to_come_has_no_plan(folder):
    folder.write(CHAIN)
    before = folder.files()
    outcomes = folder.dry_run()
    assert {name: each.status for name, each in outcomes.items()} == dict.fromkeys(STEPS, "to run")
    assert outcomes["encoder"].text == "no plan yet: step matrix makes its data"
    assert folder.files() == before
    assert not folder.out.exists()


def test_after_a_run_nothing_would_run_and_after_a_change_what_depends_on_it(folder, edit):
    folder.write(CHAIN)
    folder.run()
    assert {each.status for each in folder.dry_run().values()} == {"to skip"}
    edit("n_nonzero = 3\n\n", "n_nonzero = 4\n\n")
    before = folder.files()
    outcomes = folder.dry_run()
    assert [name for name, each in outcomes.items() if each.status == "to run"] == ["encoder", "codes", "evaluate"]
    assert outcomes["encoder"].result["plan"]["shape"] == (300, 8)
    assert "in 1 pass(es)" in outcomes["encoder"].text
    assert folder.files() == before
    became = {"to run": "ran", "to skip": "skipped"}
    assert folder.statuses() == {name: became[each.status] for name, each in outcomes.items()}


def test_all_steps_are_told_before_a_plan_that_does_not_fit_is_raised(folder, monkeypatch):
    folder.write(CHAIN.replace('data = "@matrix"\nn_components = 2', 'data = "x.npy"\nn_components = 2'))
    monkeypatch.setattr(InProcess, "memory", "1MiB")
    told = []
    with pytest.raises(MemoryBudgetExceeded, match=r"line 12, step encoder \(fit\): .*Use a memory limit"):
        dry_run(read_pipeline(folder.path / "p.toml"), InProcess(), force=False, tell=told.append)
    assert [each.name for each in told] == list(STEPS)
    assert "Use a memory limit" in told[2].result["refused"]


def test_parameters_that_the_data_do_not_allow_are_found(folder):
    text = CHAIN.replace('data = "@matrix"\nn_components = 2', 'data = "x.npy"\nn_components = 20')
    folder.write(text)
    with pytest.raises(InvalidInput, match=r"step encoder \(fit\): n_components=20 is not allowed"):
        folder.dry_run()


def test_an_output_that_would_not_be_replaced_is_found(folder):
    folder.write(CHAIN)
    folder.out.mkdir()
    (folder.out / "check.json").write_text("mine")
    with pytest.raises(OutputExists, match=r"check\.json exists"):
        folder.dry_run()
