"""Steps about encoders: what they take reaches the fit, and what was killed goes on."""

import json

import numpy as np
import pytest

from spae_dask import SparseEncoder, load_encoder
from spae_dask.errors import InvalidInput, OtherCheckpoint
from spae_dask.passes.events import Resumed
from tests.pipelines.conftest import NoProgress, planted

FIT = 'output = "out"\n[[step]]\nkind = "fit"\ndata = "x.npy"\nn_components = 2\nn_nonzero = 3\n'
BATCH = 'method = "batch"\n'
"""Of fits whose search is not what is tested."""


@pytest.mark.parametrize(
    "given",
    [
        {"precision": "fast"},
        {"strategy": "sketch", "certified": True, "n_candidates": 7, "sketch_rows": 40},
        {"strategy": "stream", "certified": True, "sketch_rows": 5, "n_candidates": 6},
        {"tolerance": 0.5},
        {"shared_support": True},
    ],
)
def test_a_fit_step_is_the_fit_of_the_same_parameters(folder, given):
    given = ({} if "shared_support" in given else {"method": "batch"}) | given
    folder.write(FIT + "".join(f"{key} = {json.dumps(value)}\n" for key, value in given.items()))
    planned = folder.dry_run()["fit"].result["plan"]
    folder.run()
    found = load_encoder(folder.out / "fit.zarr")
    wanted = SparseEncoder(2, n_nonzero=3, **given).fit(folder.path / "x.npy")
    np.testing.assert_array_equal(found.components_, wanted.components_)
    assert found.certificate_ == wanted.certificate_
    assert {key: found.get_params()[key] for key in given} == given
    assert planned["strategy"] == wanted.plan_.strategy
    assert planned["passes"] == wanted.plan_.as_dict()["passes"]


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ('precision = "half"', "give one of 'exact', 'fast'"),
        ("certified = 1", "certified"),
        ("n_candidates = 0", "n_candidates"),
        ("sketch_rows = 2.5", "sketch_rows"),
        ("tolerance = 0.0", "tolerance"),
        ("tolerance = nan", "tolerance"),
        ('tolerance = "1 %"', "tolerance"),
    ],
)
def test_nonsense_is_refused_with_its_line(folder, keys, said):
    folder.write(FIT + keys)
    with pytest.raises(InvalidInput, match=rf"(?s)p\.toml, line 7.*{said}"):
        folder.run()


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ('strategy = "gram"\ntolerance = 0.1', "tolerance=0.1 makes strategy='sample'"),
        ('strategy = "tsqr"\nprecision = "fast"', "precision='fast'"),
        ("n_candidates = 9", "n_candidates=9 is not allowed: give a whole number from 1 to 8"),
    ],
)
def test_what_does_not_go_together_is_refused_before_a_run_too(folder, keys, said):
    folder.write(FIT + keys)
    for run in (folder.dry_run, folder.run):
        with pytest.raises(InvalidInput, match=rf"step fit: .*{said}"):
            run()


@pytest.mark.parametrize("kind", ["evaluate", "transform", "report"])
def test_an_encoder_and_data_that_are_swapped_are_told(folder, kind):
    folder.write(FIT + BATCH)
    folder.run()
    keys = 'data = "out/fit.zarr"\nencoder = "x.npy"\n'
    folder.write(f'output = "next"\n[[step]]\nkind = "{kind}"\n{keys}')
    with pytest.raises(InvalidInput, match=r"they are swapped\. Swap 'data' and 'encoder' of the step"):
        folder.run()


def test_an_evaluation_goes_by_what_reads_once_only(folder):
    folder.write(FIT + '[[step]]\nkind = "evaluate"\ndata = "x.npy"\nencoder = "@fit"\nstrategy = "sample"\n')
    with pytest.raises(InvalidInput, match="give one of 'auto', 'gram', 'tsqr', 'sketch'"):
        folder.run()


SWEEPS = {
    "fit": ("save_encoder", f"n_components = 2\nn_nonzero = 4\n{BATCH}"),
    "evaluate": ("write_json", 'encoder = "@first"\n'),
    "path": ("write_csv", f"n_components = [1, 2]\nn_nonzero = [2, 3]\n{BATCH}"),
}
"""What writes the output of a step, and its keys."""


def with_second(kind, more=""):
    first = FIT.replace('"fit"\n', '"fit"\nname = "first"\n') + BATCH
    return f'{first}\n[[step]]\nkind = "{kind}"\nname = "second"\ndata = "x.npy"\n{SWEEPS[kind][1]}{more}'


class Killed(BaseException):
    """Ends a process where it is."""


@pytest.fixture
def resumed(monkeypatch):
    """What passes find done when they begin."""
    found = []
    monkeypatch.setattr(
        NoProgress, "__call__", lambda self, event: found.append(event) if isinstance(event, Resumed) else None
    )
    return found


def die_before_writing(folder, monkeypatch, kind):
    """Have the second step killed when it has swept all rows, and has not written what comes of them."""
    whole = (folder.path / "p.toml").read_text()
    folder.write(whole[: whole.rindex("[[step]]")])
    folder.run()
    folder.write(whole)

    def die(*args, **kwargs):
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(f"spae_dask.pipelines.steps.{SWEEPS[kind][0]}", die)
        with pytest.raises(Killed):
            folder.run()


@pytest.mark.parametrize("kind", SWEEPS)
def test_a_step_that_was_killed_reads_only_what_is_missing(folder, monkeypatch, resumed, kind):
    folder.write(with_second(kind))
    die_before_writing(folder, monkeypatch, kind)
    kept = folder.out / "second.checkpoint"
    assert list(kept.rglob("*.state"))
    assert not resumed
    ended = folder.run()["second"]
    assert (ended.status, ended.reason) == ("ran", "it was not finished")
    assert [each.n_done == each.n_spans for each in resumed] == [True]
    assert not kept.exists()
    monkeypatch.undo()
    other = folder.run(force=True)["second"]
    assert other.result == ended.result


@pytest.mark.parametrize("kind", SWEEPS)
def test_a_checkpoint_of_other_parameters_is_the_step_s_own_to_remove(folder, monkeypatch, kind):
    folder.write(with_second(kind))
    die_before_writing(folder, monkeypatch, kind)
    np.save(folder.path / "x.npy", planted(1))
    assert folder.statuses()["second"] == "ran"
    assert not (folder.out / "second.checkpoint").exists()


@pytest.mark.parametrize("kind", SWEEPS)
def test_a_checkpoint_that_is_named_is_there_and_never_taken_from_others(folder, monkeypatch, kind):
    folder.write(with_second(kind, 'checkpoint = "mine"\n'))
    die_before_writing(folder, monkeypatch, kind)
    assert (folder.out / "mine" / "checkpoint.json").is_file()
    np.save(folder.path / "x.npy", planted(1))
    with pytest.raises(OtherCheckpoint, match=rf"step second \({kind}\): "):
        folder.run()
    assert (folder.out / "mine" / "checkpoint.json").is_file()


@pytest.mark.parametrize("kind", SWEEPS)
def test_none_is_kept_if_none_is_wanted(folder, monkeypatch, resumed, kind):
    folder.write(with_second(kind, "checkpoint = false\n"))
    die_before_writing(folder, monkeypatch, kind)
    assert not (folder.out / "second.checkpoint").exists()
    assert folder.statuses()["second"] == "ran"
    assert not resumed


@pytest.mark.parametrize("kind", SWEEPS)
def test_where_a_checkpoint_is_changes_no_outcome_and_runs_nothing_again(folder, kind):
    folder.write(with_second(kind))
    folder.run()
    folder.write(with_second(kind, 'checkpoint = "elsewhere"\n'))
    assert set(folder.statuses().values()) == {"skipped"}
