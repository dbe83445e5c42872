"""A step runs again if something it depends on has changed, and only then; a run that ended early is gone on with."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
import zarr

import spae_dask.pipelines.record
from spae_dask import load_encoder
from spae_dask.errors import InvalidInput, OutputExists, StorageError
from spae_dask.pipelines.record import read_record
from spae_dask.pipelines.steps import KINDS
from tests.pipelines.conftest import Folder, planted
from tests.storage.genotypes import dosages, write_bed

CHAIN = """output = "out"

[[step]]
kind = "ingest"
name = "matrix"
source = "x.npy"

[[step]]
kind = "check"
data = "@matrix"

[[step]]
kind = "fit"
name = "encoder"
data = "@matrix"
n_components = 2
method = "batch"
n_nonzero = 3

[[step]]
kind = "transform"
name = "codes"
data = "x.npy"
encoder = "@encoder"

[[step]]
kind = "evaluate"
data = "@matrix"
encoder = "@encoder"

[[step]]
kind = "path"
data = "@matrix"
n_components = [1]
n_nonzero = [2, 3]
method = "batch"
"""

STEPS = ("matrix", "check", "encoder", "codes", "evaluate", "path")


def ran(statuses):
    """Names of the steps that ran; the others must have been skipped."""
    assert set(statuses.values()) <= {"ran", "skipped"}
    return [name for name, status in statuses.items() if status == "ran"]


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    """The chain after a first run."""
    folder = Folder(tmp_path_factory.mktemp("first"))
    np.save(folder.path / "x.npy", planted())
    folder.write(CHAIN)
    assert ran(folder.statuses()) == list(STEPS)
    return folder


@pytest.fixture
def done(first, folder):
    """A copy of it, which is as good as the original."""
    shutil.copytree(first.path, folder.path, dirs_exist_ok=True, copy_function=shutil.copyfile)
    return folder


def test_a_first_run_makes_what_the_verbs_make(done):
    assert zarr.open_array(done.out / "matrix.zarr", mode="r")[...] == pytest.approx(planted())
    encoder = load_encoder(done.out / "encoder.zarr")
    assert (encoder.n_components, encoder.n_nonzero) == (2, 3)
    codes = zarr.open_array(done.out / "codes.zarr", mode="r")[...]
    np.testing.assert_allclose(codes, encoder.transform(planted()), rtol=1e-12)
    assert json.loads((done.out / "check.json").read_text())["problems"] == []
    evaluated = json.loads((done.out / "evaluate.json").read_text())
    assert evaluated["ratio"] == pytest.approx(encoder.certificate_.ratio, rel=1e-9)
    header, *rows = (done.out / "path.csv").read_text().splitlines()
    assert header.startswith("n_components,n_nonzero,")
    assert len(rows) == 2
    assert {each.name for each in done.out.iterdir()} == {
        "matrix.zarr", "check.json", "encoder.zarr", "codes.zarr", "evaluate.json", "path.csv",
        *(f"{name}.step.json" for name in STEPS),
    }  # fmt: skip


def test_a_second_run_does_nothing_and_changes_no_byte(done):
    before = done.files()
    assert ran(done.statuses()) == []
    assert done.files() == before


def test_a_parameter_that_changed_runs_that_step_and_what_depends_on_it(done, edit):
    edit("n_nonzero = 3\n\n", "n_nonzero = 4\n\n")
    outcomes = done.run()
    assert ran({name: each.status for name, each in outcomes.items()}) == ["encoder", "codes", "evaluate"]
    assert outcomes["encoder"].reason == "its parameters changed"
    assert outcomes["codes"].reason == "its input changed: encoder"
    assert load_encoder(done.out / "encoder.zarr").n_nonzero == 4
    assert ran(done.statuses()) == []


def test_a_default_that_is_written_out_changes_nothing(done, edit):
    edit("n_nonzero = 3\n\n", 'n_nonzero = 3\nselection = "dual-set"\n\n')
    assert ran(done.statuses()) == []


def test_an_input_that_changed_anywhere_runs_all_that_depends_on_it(done):
    rows = planted()
    rows[211, 3] += 1
    np.save(done.path / "x.npy", rows)
    assert ran(done.statuses()) == list(STEPS)


def test_an_input_that_only_moved_in_time_or_space_changes_nothing(done, edit):
    (done.path / "x.npy").rename(done.path / "y.npy")
    (done.path / "p.toml").write_text(CHAIN.replace("x.npy", "y.npy"))
    (done.path / "y.npy").touch()
    assert ran(done.statuses()) == []


@pytest.mark.parametrize("damage", ["gone", "changed"])
def test_an_output_that_is_gone_or_damaged_is_made_again_and_nothing_else(done, damage):
    if damage == "gone":
        shutil.rmtree(done.out / "encoder.zarr")
    else:
        (done.out / "encoder.zarr" / "zarr.json").write_text("{}")
    assert ran(done.statuses()) == ["encoder"]
    assert load_encoder(done.out / "encoder.zarr").n_nonzero == 3


def test_a_new_version_of_the_package_runs_everything(done, monkeypatch):
    monkeypatch.setattr(spae_dask.pipelines.record, "__version__", "99")
    outcomes = done.run()
    assert ran({name: each.status for name, each in outcomes.items()}) == list(STEPS)
    assert outcomes["matrix"].reason.startswith("it ran with version ")


def test_force_runs_everything(done):
    assert ran(done.statuses(force=True)) == list(STEPS)


def test_a_step_of_another_kind_under_the_same_name_runs(done, edit):
    edit('kind = "check"', 'kind = "plan"\nname = "check"\nn_components = 1')
    assert ran(done.statuses()) == ["check"]
    assert ran(done.statuses()) == ["check"], "the result of a plan depends on the machine"


def test_what_no_run_wrote_is_not_replaced_without_force(folder):
    folder.write(CHAIN)
    folder.out.mkdir()
    (folder.out / "path.csv").write_text("mine")
    with pytest.raises(OutputExists, match=r"path\.csv exists"):
        folder.run()
    assert folder.files().keys() == {"x.npy", "p.toml", "out/path.csv"}
    assert ran(folder.statuses(force=True)) == list(STEPS)
    assert (folder.out / "path.csv").read_text() != "mine"


@pytest.mark.parametrize("junk", ["", "[]", "null", '{"kind": 1}', "{" * 9999, '{"outputs": '])
def test_a_record_that_is_none_owns_nothing(done, junk):
    (done.out / "check.step.json").write_text(junk)
    with pytest.raises(OutputExists, match="check"):
        done.run()
    assert ran(done.statuses(force=True)) == list(STEPS)


def test_an_output_folder_that_is_a_file_is_refused(folder):
    folder.write(CHAIN)
    folder.out.write_text("mine")
    for run in (folder.run, folder.dry_run):
        with pytest.raises(OutputExists, match="is a file"):
            run()


def test_a_path_has_its_figures(folder):
    folder.write(
        CHAIN.replace("n_components = [1]", 'n_components = [1]\nfigure = ["png"]').replace("@matrix", "x.npy")
    )
    folder.run()
    assert (folder.out / "path.png").read_bytes().startswith(b"\x89PNG")


def interrupting(monkeypatch, kind, error):
    """Have steps of a kind do their work, and then raise."""
    whole = KINDS[kind].run

    def run(step, work):
        whole(step, work)
        raise error

    changed = dict(KINDS) | {kind: replace(KINDS[kind], run=run)}
    monkeypatch.setattr("spae_dask.pipelines.runner.KINDS", changed)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), StorageError("the disk is full")])
def test_a_run_that_ended_early_is_gone_on_with_at_the_unfinished_step(folder, monkeypatch, error):
    folder.write(CHAIN)
    with monkeypatch.context() as patch:
        interrupting(patch, "fit", error)
        with pytest.raises(type(error)):
            folder.run()
    record = read_record(folder.out / "encoder.step.json")
    assert record is not None
    assert record.outputs == {}
    assert not (folder.out / "codes.step.json").exists()
    outcomes = folder.run()
    assert ran({name: each.status for name, each in outcomes.items()}) == ["encoder", "codes", "evaluate", "path"]
    assert outcomes["encoder"].reason == "it was not finished"


def test_an_error_names_step_and_line_and_keeps_its_class(folder):
    folder.write(CHAIN.replace("n_nonzero = 3\n\n", "n_nonzero = 30\n\n"))
    with pytest.raises(InvalidInput, match=r"p\.toml, line 12, step encoder \(fit\): n_nonzero=30 .* from 1 to 8"):
        folder.run()
    assert not (folder.out / "encoder.zarr").exists()


def test_a_strict_check_keeps_its_findings_and_stops_the_run(folder, edit):
    rows = planted()
    rows[5, 2] = np.nan
    np.save(folder.path / "x.npy", rows)
    folder.write(CHAIN.replace('kind = "check"', 'kind = "check"\nstrict = true'))
    with pytest.raises(InvalidInput, match=r"step check: .*1 NaN entries"):
        folder.run()
    assert json.loads((folder.out / "check.json").read_text())["n_nan"] == 1
    assert not (folder.out / "encoder.zarr").exists()
    edit("strict = true\n", "")
    edit('data = "@matrix"\nn_components = 2', 'data = "@matrix"\nmissing = "mean"\nn_components = 2')
    with pytest.raises(InvalidInput, match=r"step codes|step evaluate|step path"):
        folder.run()
    assert load_encoder(folder.out / "encoder.zarr").missing == "mean"


def test_a_number_can_stand_for_missing_in_every_step_that_fits(folder):
    x = planted().round(1)
    x[::7, 2] = -9.0
    np.save(folder.path / "x.npy", x)
    given = 'missing = "mean"\nmissing_value = -9\n'
    steps = {
        "check": "missing_value = -9\n",
        "plan": f"n_components = 2\nn_nonzero = 3\n{given}",
        "fit": f"n_components = 2\nn_nonzero = 3\n{given}",
        "path": f"n_components = [2]\nn_nonzero = [3]\n{given}",
    }
    tables = (f'[[step]]\nkind = "{kind}"\ndata = "x.npy"\n{keys}' for kind, keys in steps.items())
    folder.write('output = "out"\n' + "\n".join(tables))
    found = folder.run()
    x[::7, 2] = np.nan
    filled = np.where(np.isnan(x), np.nanmean(x, axis=0), x)
    least = (np.linalg.svd(filled - filled.mean(axis=0), compute_uv=False)[2:] ** 2).sum()
    assert found["check"].result["check"]["n_nan"] == 43
    assert found["fit"].result["certificate"]["pca_loss"] == pytest.approx(least)
    assert found["path"].result["points"][0]["pca_loss"] == pytest.approx(least)
    passes = json.loads((folder.out / "plan.json").read_text())["passes"]
    assert [each["name"] for each in passes] == ["column means", "core"]


@pytest.mark.parametrize("given", ["true", '"-1"', "[]", '[-1, "x"]'])
def test_what_stands_for_missing_is_a_number_or_a_list_of_them(folder, given):
    folder.write(f'output = "out"\n[[step]]\nkind = "check"\ndata = "x.npy"\nmissing_value = {given}\n')
    with pytest.raises(InvalidInput, match=r"(?s)line 5.*missing_value"):
        folder.run()


def test_a_step_runs_again_if_a_file_beside_its_data_has_changed(folder):
    bed = write_bed(folder.path / "x.bed", dosages())
    folder.write("""output = "out"

[[step]]
kind = "fit"
name = "encoder"
data = "x.bed"
n_components = 2
n_nonzero = 3
method = "batch"
missing = "mean"
""")
    assert ran(folder.statuses()) == ["encoder"]
    assert ran(folder.statuses()) == []
    named = bed.with_suffix(".bim").read_text().replace("rs7", "rs8")
    bed.with_suffix(".bim").write_text(named)
    assert ran(folder.statuses()) == ["encoder"]
