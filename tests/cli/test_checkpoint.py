"""Commands that are killed and given again, parts of a fit, and what is done with checkpoints."""

import contextlib
import io
import json
import os
import random
import shlex
import signal
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st

from spae_dask.cli.fit import FitGiven
from spae_dask.cli.fit_part import command_of_finish, command_of_parts
from spae_dask.cli.main import main
from spae_dask.cli.options.groups import gathered, options_of
from spae_dask.storage.checkpoints import checkpoint_removal
from spae_dask.strategies.parameters import PARAMETERS, Choice
from tests.cli.conftest import QUICK, K, R, planted, write_zarr


def arrays(encoder: Path) -> dict[str, bytes]:
    group = zarr.open_group(encoder, mode="r")
    return {name: array[...].tobytes() for name, array in group.arrays()}


def certificate(encoder: Path) -> object:
    return zarr.open_group(encoder, mode="r").attrs["certificate"]


@pytest.fixture
def wide(tmp_path: Path) -> Path:
    """Three spans of 32 MiB, of rows that repeat, so that they are soon written and read."""
    rng = np.random.default_rng(0)
    values = (rng.normal(size=(5_000, 3)) @ rng.normal(size=(3, 64)) + rng.normal(size=(5_000, 64))).astype("f8")
    return write_zarr(tmp_path / "wide.zarr", np.tile(values, (40, 1)), chunk_rows=10_000)


def test_a_fit_removes_its_checkpoint_when_the_encoder_is_written(spae, store, tmp_path):
    ended = spae("fit", store, "-k", K, "-r", R, *QUICK, "-o", tmp_path / "e.zarr", "--checkpoint", tmp_path / "kept")
    assert ended.code == 0
    assert "checkpoint in" in ended.err
    assert not (tmp_path / "kept").exists()


def test_a_kept_checkpoint_serves_again_and_says_so(spae, store, tmp_path):
    words = ["fit", store, "-k", K, "-r", R, *QUICK, "--checkpoint", tmp_path / "kept", "--keep-checkpoint"]
    assert spae(*words, "-o", tmp_path / "a.zarr").code == 0
    again = spae(*words, "-o", tmp_path / "b.zarr")
    assert again.code == 0
    assert "resumed: 1 of 1 spans already done" in again.err
    assert arrays(tmp_path / "a.zarr") == arrays(tmp_path / "b.zarr")
    other = spae(*words, "--seed", 3, "-o", tmp_path / "c.zarr")
    assert other.code == 3
    assert "seed was 0, is 3" in other.err
    assert not (tmp_path / "c.zarr").exists()


def killed_and_given_again(where, moments, spae, spae_process, wide, tmp_path):
    """Kill a fit when so many states of its six spans in two passes have been seen, and let the last one end.

    States are merged as they come.
    """
    common = ["fit", wide, "-k", K, "-r", R, *QUICK, "--missing", "mean", "--cluster", where]
    assert spae(*common, "-o", tmp_path / "whole.zarr", "-q", "--cluster", "none").code == 0
    draw, kept = random.Random(where), tmp_path / "kept"
    for n_states in moments:
        process = spae_process(*common, "-o", tmp_path / "e.zarr", "--checkpoint", kept)
        seen: set[str] = set()
        while len(seen) < n_states and process.poll() is None:
            seen |= {each.parent.name + each.name for each in kept.rglob("*.state")}
            time.sleep(0.005)
        time.sleep(draw.uniform(0, 0.05))
        os.killpg(process.pid, signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
        assert not (tmp_path / "e.zarr").exists()
    last = spae(*common, "-o", tmp_path / "e.zarr", "--checkpoint", kept)
    assert last.code == 0
    assert "resumed: " in last.err
    assert arrays(tmp_path / "e.zarr") == arrays(tmp_path / "whole.zarr")
    assert certificate(tmp_path / "e.zarr") == certificate(tmp_path / "whole.zarr")
    assert not (tmp_path / "kept").exists()


@pytest.mark.chaos
def test_a_fit_that_is_killed_comes_to_the_same_bits(spae, spae_forked, wide, tmp_path):
    killed_and_given_again("none", [2], spae, spae_forked, wide, tmp_path)


def test_parts_come_to_the_bits_of_one_fit_in_rounds_that_are_told(spae, wide, tmp_path):
    common = [wide, "-k", K, "-r", R, *QUICK, "--missing", "mean"]
    assert spae("fit", *common, "-o", tmp_path / "whole.zarr", "--cluster", "none").code == 0
    parts = [*common, "--checkpoint", tmp_path / "kept"]
    finish = ["fit-finish", *parts, "-o", tmp_path / "e.zarr", "--json"]
    first = spae("fit-part", "2/3", *parts, "--json")
    assert first.code == 0
    assert first.document["missing_parts"] == [1, 3]
    assert (first.document["whole"], first.document["pass"]) == (False, 1)
    again = spae("fit-part", "2/3", *parts)
    assert again.code == 0
    assert "part 2/3 of pass 1 (column means) was done before" in again.out
    assert f"fit-part I/N {wide}" in again.err
    early = spae(*finish)
    assert early.code == 75
    assert early.document["missing_parts"] == [1, 3]
    # the commands that it names are run as they are
    for command in early.document["error"]["message"].split("`")[1::2]:
        assert spae(*shlex.split(command)[1:]).code == 0
    between = spae(*finish)
    assert between.code == 75
    assert "pass 2 (core) is incomplete" in between.document["error"]["message"]
    for command in between.document["error"]["message"].split("`")[1::2]:
        assert spae(*shlex.split(command)[1:]).code == 0
    done = spae(*finish)
    assert done.code == 0
    assert arrays(tmp_path / "e.zarr") == arrays(tmp_path / "whole.zarr")
    assert certificate(tmp_path / "e.zarr") == certificate(tmp_path / "whole.zarr")
    assert not (tmp_path / "kept").exists()


@pytest.mark.parametrize("part", ["0/3", "4/3", "3", "a/b", "1/0", "-1/3", "1/5000", "1/3/5", ""])
def test_what_is_no_part_is_a_mistake_of_usage(part, spae, store, tmp_path):
    ended = (
        spae("fit-part", "--", part, store)
        if part.startswith("-")
        else spae("fit-part", part, store, "-k", K, "-r", R, *QUICK, "--checkpoint", tmp_path / "kept")
    )
    assert ended.code == 2
    assert not (tmp_path / "kept").exists()


def test_finishing_what_was_not_begun_is_bad_input_and_begins_nothing(spae, store, tmp_path):
    words = [
        "fit-finish",
        store,
        "-k",
        K,
        "-r",
        R,
        *QUICK,
        "--checkpoint",
        tmp_path / "kept",
        "-o",
        tmp_path / "e.zarr",
    ]
    ended = spae(*words)
    assert ended.code == 3
    assert "there is no checkpoint" in ended.err
    assert not (tmp_path / "kept").exists()


def test_the_words_of_a_command_are_those_that_differ_from_the_defaults():
    given = {"data": "my data.zarr", "components": 3, "nonzeros": (4, 5, 6), "center": False, "scale": True}
    given |= {"missing": "zero", "quiet": True}
    assert gathered(FitGiven, given).words() == (
        "'my data.zarr' -k 3 -r 4,5,6 --no-center --scale --missing zero --quiet"
    )
    given = {"data": "x", "components": 1, "eps": 0.5, "strategy": "tsqr", "memory": "2GB"}
    assert gathered(FitGiven, given).words() == "x -k 1 --eps 0.5 --strategy tsqr --memory 2GB"


AWKWARD = st.text(st.sampled_from("abz -'\"$`\\*é;&|\n."), min_size=1, max_size=8)
POSITIVE = st.floats(1e-12, 1e3)
COUNT = st.integers(1, 99)
NAMES = st.text("ab*é -'\\,\"", min_size=1).filter(lambda name: name.strip() == name)
FEATURES = st.lists(NAMES, min_size=1, max_size=3).map(tuple)


def one_or_several(values: list[Any]) -> Any:
    """A number, or a tuple of several."""
    return tuple(values) if len(values) > 1 else values[0]


CHOICES = {each.option: each.kind.names for each in PARAMETERS.values() if isinstance(each.kind, Choice)}
OPTIONAL: dict[str, Any] = {
    **{name: st.sampled_from(names) for name, names in CHOICES.items()},
    "center": st.booleans(),
    "scale": st.booleans(),
    "orthonormal": st.booleans(),
    "shared_support": st.booleans(),
    "recipe": st.sampled_from(["log1p", "normalize_total(10000), sqrt", "arcsinh(0.5), clip(3)"]),
    "covariates": st.lists(st.text("ab*é -'\\.()", min_size=1).filter(str.strip), min_size=1, max_size=3).map(",".join),
    "include": FEATURES,
    "exclude": FEATURES,
    "costs": st.dictionaries(NAMES, POSITIVE, min_size=1, max_size=3),
    "groups": st.dictionaries(NAMES, st.text("ab*é'", min_size=1), min_size=1, max_size=3),
    "positions": st.dictionaries(NAMES, POSITIVE, min_size=1, max_size=3),
    "min_distance": POSITIVE,
    "at_most": st.one_of(COUNT, st.dictionaries(NAMES, COUNT, min_size=1, max_size=3)),
    "at_least": st.one_of(COUNT, st.dictionaries(NAMES, COUNT, min_size=1, max_size=3)),
    "folds": st.integers(2, 100),
    "bootstraps": st.integers(0, 10_000),
    "fold_groups": st.text("ab*é -'\\.()", min_size=1).filter(str.strip),
    "top_features_batch": st.text("ab*é -'\\.()", min_size=1).filter(str.strip),
    "row_weights": AWKWARD.filter(str.strip),
    "search_tol": POSITIVE,
    "effort": st.integers(0, 3),
    "rows": COUNT,
    "seed": st.integers(0, 2**40),
    "array": AWKWARD,
    "mask": AWKWARD,
    "columns": st.lists(st.text("ab*é -'\\.", min_size=1).filter(str.strip), min_size=1, max_size=3).map(",".join),
    "where": AWKWARD,
    "sample_dim": AWKWARD,
    "weights": AWKWARD,
    "top_features": COUNT,
    "missing_value": st.lists(st.floats(allow_nan=False), min_size=1, max_size=3),
    "raw": st.booleans(),
    "strict": st.booleans(),
    "repeats": COUNT,
    "power_iterations": st.integers(0, 9),
    "oversampling": st.integers(2, 99),
    "certified": st.booleans(),
    "candidates": COUNT,
    "sketch_rows": COUNT,
    "tolerance": POSITIVE,
    "keep_state": st.booleans(),
    "memory": st.sampled_from(["2GB", "512 MiB", "1.5GiB", "2000000000"]),
    "as_json": st.booleans(),
    "quiet": st.booleans(),
    "verbose": st.integers(0, 3),
    "debug": st.booleans(),
    "log_json": st.booleans(),
}


@st.composite
def givens(draw: st.DrawFn) -> FitGiven:
    """Anything that may be given to a fit."""
    if draw(st.booleans()):
        size = {"nonzeros": draw(st.lists(COUNT, min_size=1, max_size=3).map(one_or_several))}
    elif draw(st.booleans()):
        size = {"eps": draw(POSITIVE)}
    elif draw(st.booleans()):
        size = {draw(st.sampled_from(["n_features", "budget"])): draw(COUNT)}
    else:
        size = {"keep": draw(st.floats(0.0, 1.0, exclude_min=True, exclude_max=True))}
    more = draw(st.fixed_dictionaries({}, optional=OPTIONAL))
    return gathered(FitGiven, {"data": draw(AWKWARD), "components": draw(COUNT), **size, **more})


def test_random_givens_cover_every_option() -> None:
    assert {"data", "components", "nonzeros", "n_features", "budget", "eps", "keep", *OPTIONAL} == {
        each.name for each in options_of(FitGiven)
    }


@settings(max_examples=30)
@given(given=givens(), checkpoint=AWKWARD, verb=st.sampled_from(["part", "finish"]))
def test_commands_that_are_told_say_all_that_was_given(given: FitGiven, checkpoint: str, verb: str) -> None:
    heard: list[FitGiven] = []

    def hear(self: FitGiven) -> None:
        heard.append(self)
        raise KeyboardInterrupt

    command = command_of_parts(given, checkpoint, "3/8") if verb == "part" else command_of_finish(given, checkpoint)
    words = shlex.split(command)
    assert words[:2] == ["spae", f"fit-{verb}"]
    assert words[words.index("--checkpoint", len(words) - 4) + 1] == checkpoint
    quiet = contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO())
    with pytest.MonkeyPatch.context() as patch, quiet[0], quiet[1]:
        patch.setattr(FitGiven, "check", hear)
        assert main(words[1:]) == 130
    data = f"./{given.data}" if given.data.startswith("-") else given.data
    assert heard == [replace(given, data=data)]


@pytest.fixture
def kept(spae, store, tmp_path) -> Path:
    folder = tmp_path / "kept"
    words = ["fit", store, "-k", K, "-r", R, *QUICK, "-o", tmp_path / "e.zarr", "--checkpoint", folder]
    words.append("--keep-checkpoint")
    assert spae(*words, "-q").code == 0
    return folder


def test_checkpoints_are_listed(spae, kept, store, tmp_path):
    for place in (kept, tmp_path):
        out = spae("checkpoint", "ls", place).out
        assert f"{kept}: fit, " in out
        assert str(store) in out
        assert "core: 1 of 1 spans" in out
    (found,) = spae("checkpoint", "ls", tmp_path, "--json").document["checkpoints"]
    assert found["job"]["parameters"]["n_components"] == K
    assert found["passes"] == [{"name": "core", "n_spans": 1, "n_done": 1}]


def test_where_there_is_none_listing_is_bad_input(spae, tmp_path):
    for place in (tmp_path, tmp_path / "nowhere"):
        ended = spae("checkpoint", "ls", place)
        assert ended.code == 3
        assert "there is no checkpoint" in ended.err


def test_a_damaged_one_is_told_of_among_others(spae, kept, tmp_path):
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "checkpoint.json").write_text("{")
    ended = spae("checkpoint", "ls", tmp_path, "--json")
    assert ended.code == 0
    assert len(ended.document["checkpoints"]) == 1
    assert "damaged" in ended.document["warnings"][0]


def test_removing_removes_a_checkpoint_and_nothing_else(spae, kept, tmp_path):
    assert spae("checkpoint", "rm", tmp_path).code == 3
    assert spae("checkpoint", "rm", tmp_path / "nowhere").code == 3
    assert kept.exists()
    ended = spae("checkpoint", "rm", kept)
    assert ended.code == 0
    assert ended.out.startswith(f"removed {kept}, ")
    assert not kept.exists()
    assert (tmp_path / "x.zarr").exists()


def test_only_old_ones_are_removed_if_that_is_asked_for(spae, kept, tmp_path):
    young = spae("checkpoint", "rm", tmp_path, "--older-than", "7d")
    assert young.code == 0
    assert "none is older than 7d" in young.out
    assert kept.exists()
    long_ago = time.time() - 8 * 86400
    for path in kept.rglob("*"):
        os.utime(path, (long_ago, long_ago))
    ended = spae("checkpoint", "rm", tmp_path, "--older-than", "7d", "--json")
    assert list(ended.document["removed"]) == [str(kept)]
    assert not kept.exists()


@pytest.mark.parametrize("age", ["7", "d", "-1d", "7w", "1.5h"])
def test_what_is_no_age_is_a_mistake_of_usage(age, spae, kept):
    assert spae("checkpoint", "rm", kept, f"--older-than={age}").code == 2
    assert kept.exists()


@pytest.mark.parametrize("verb", ["ls", "rm"])
def test_the_help_of_both_has_examples(verb, spae):
    out = spae("checkpoint", verb, "--help").out
    assert f"spae checkpoint {verb}" in out.split("Examples:")[1]


def test_evaluate_and_path_take_one_too(spae, store, encoder, tmp_path):
    folder = tmp_path / "of another verb"
    for words in (["evaluate", store, encoder], ["path", store, "-k", "1,2", "-r", "2,3", *QUICK]):
        without = spae(*words, "--json").document
        kept = spae(*words, "--checkpoint", folder, "--keep-checkpoint", "--json").document
        again = spae(*words, "--checkpoint", folder)
        assert "resumed: 1 of 1 spans" in again.err
        assert not folder.exists()
        assert json.dumps(kept) == json.dumps(without)


def test_a_step_of_a_pipeline_that_was_killed_goes_on_and_one_that_changed_begins_anew(spae, tmp_path, monkeypatch):
    np.save(tmp_path / "x.npy", planted())
    text = '[[step]]\nkind = "fit"\nname = "enc"\ndata = "x.npy"\nn_components = 2\nn_nonzero = {}\nmethod = "batch"\n'
    pipeline = tmp_path / "p.toml"
    pipeline.write_text('output = "out"\n' + text.format(4))

    def killed(*args: object, **more: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("spae_dask.pipelines.steps.save_encoder", killed)
        assert spae("run", pipeline).code == 130
    assert (tmp_path / "out" / "enc.checkpoint" / "checkpoint.json").exists()
    again = spae("run", pipeline)
    assert again.code == 0
    assert "resumed: 1 of 1 spans already done" in again.err
    assert not (tmp_path / "out" / "enc.checkpoint").exists()
    with monkeypatch.context() as patch:
        patch.setattr("spae_dask.pipelines.steps.save_encoder", killed)
        assert spae("run", pipeline, "--force").code == 130
    pipeline.write_text('output = "out"\n' + text.format(5))
    changed = spae("run", pipeline)
    assert changed.code == 0
    assert "resumed" not in changed.err
    assert not (tmp_path / "out" / "enc.checkpoint").exists()


@pytest.mark.parametrize(("value", "code"), [("false", 0), ('"mine"', 0), ("true", 3), ("7", 3)])
def test_a_pipeline_says_where_or_that_there_shall_be_none(value, code, spae, tmp_path):
    np.save(tmp_path / "x.npy", planted())
    (tmp_path / "p.toml").write_text(
        'output = "out"\n[[step]]\nkind = "fit"\nname = "enc"\ndata = "x.npy"\nn_components = 2\nn_nonzero = 3\n'
        f'method = "batch"\ncheckpoint = {value}\n'
    )
    assert spae("run", tmp_path / "p.toml").code == code


@pytest.mark.parametrize("place", ["e.zarr", "e.zarr/kept", "x.zarr", "x.zarr/kept", ".", "x.zarr/zarr.json"])
def test_a_checkpoint_in_the_place_of_something_else_is_refused_at_once(place, spae, store, tmp_path):
    before = sorted(tmp_path.rglob("*"))
    ended = spae("fit", store, "-k", K, "-r", R, *QUICK, "-o", tmp_path / "e.zarr", "--checkpoint", tmp_path / place)
    assert ended.code == 3
    assert sorted(tmp_path.rglob("*")) == before


def test_a_checkpoint_that_cannot_be_made_is_an_error_of_storage(spae, store, tmp_path):
    ended = spae(
        "fit", store, "-k", K, "-r", R, *QUICK, "-o", tmp_path / "e.zarr", "--checkpoint", tmp_path / "no" / "where"
    )
    assert ended.code == 5
    assert "cannot be made" in ended.err


def test_two_equal_fits_on_one_checkpoint_both_end_well(spae_forked, store, tmp_path):
    place, outs = tmp_path / "run", [tmp_path / "a.zarr", tmp_path / "b.zarr"]
    fits = [
        spae_forked("fit", store, "-k", 2, "-r", 3, *QUICK, "-o", out, "--checkpoint", place, "--cluster", "none")
        for out in outs
    ]
    ends = [process.communicate(timeout=120) for process in fits]
    assert [process.returncode for process in fits] == [0, 0], ends
    assert arrays(outs[0]) == arrays(outs[1])
    assert not place.exists()


def test_a_checkpoint_that_an_equal_run_has_removed_is_no_error(spae, store, tmp_path, monkeypatch):
    place = tmp_path / "run"
    remove = checkpoint_removal.remove_checkpoint

    def removed_before(name):
        remove(name)
        return remove(name)

    monkeypatch.setattr(checkpoint_removal, "remove_checkpoint", removed_before)
    ended = spae(
        "fit", store, "-k", 2, "-r", 3, *QUICK, "-o", tmp_path / "e.zarr", "--checkpoint", place, "--cluster", "none"
    )
    assert ended.code == 0, ended
