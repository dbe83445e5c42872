"""Fits that die and are called again, by every strategy: the same bits, and only what was missing is read."""

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable
from contextvars import copy_context
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import pytest
import zarr

import spae_dask
from spae_dask import SparseEncoder, evaluate
from spae_dask.clusters.local import local_cluster
from spae_dask.errors import CheckpointWarning, InvalidInput, OtherCheckpoint, StorageError
from spae_dask.estimators import checkpointing
from spae_dask.passes.options import pass_options
from spae_dask.storage.checkpoints.checkpoint_removal import remove_checkpoint
from spae_dask.storage.checkpoints.checkpoint_summary import summarize
from spae_dask.storage.checkpoints.local_states import LocalStates
from spae_dask.storage.sources.zarr_blocks import ZarrBlocks
from tests.conftest import OptionsSetter
from tests.engine.scripted import Scripted
from tests.estimators.sources import Watched, batch_encoder, spread, zarr_array

N, D, ROWS = 6000, 9, 300
X = spread(np.random.default_rng(0), N, D)
GAPPY = np.where(np.random.default_rng(1).random((N, D)) < 0.01, np.nan, X)
SAMPLED = 3
"""Blocks that are read to know the data by."""

PARAMETERS: dict[str, dict[str, Any]] = {
    "gram": {"strategy": "gram"},
    "tsqr": {"strategy": "tsqr", "scale": True},
    "mean": {"strategy": "gram", "missing": "mean"},
    "folds": {"strategy": "gram", "folds": 3},
    "sketch": {"strategy": "sketch", "sketch_rows": 12, "n_candidates": 7},
    "sketch to an eps": {
        "strategy": "sketch",
        "method": "polished",
        "effort": 0,
        "sketch_rows": 12,
        "n_candidates": 3,
        "n_nonzero": None,
        "eps": 0.01,
    },
    "paper": {"strategy": "paper"},
    "stream": {"strategy": "stream", "sketch_rows": 5},
    "sample": {"strategy": "sample", "tolerance": 1e-9},
    "rows": {"strategy": "gram", "method": "doubly-sparse"},
}


@pytest.fixture(autouse=True)
def small_spans(options: OptionsSetter) -> None:
    options(min_span_nbytes=1, states_per_span=0, fan_in=3)


def encoder_of(name: str, **more: Any) -> SparseEncoder:
    return batch_encoder(2, **({"n_nonzero": 3} | PARAMETERS[name] | more))


def rows_of(name: str) -> Watched:
    return Watched(GAPPY if name == "mean" else X, ROWS)


def bits(encoder: SparseEncoder) -> Any:
    kept = ("components_", "decoder_", "mean_", "scale_", "singular_values_", "explained_variance_ratio_")
    return encoder.certificate_, *(getattr(encoder, each).tobytes() for each in kept)


class Enough(Exception):
    """Stands for whatever ends a run."""


@pytest.mark.parametrize("name", PARAMETERS)
def test_a_fit_that_is_cut_short_again_and_again_comes_to_the_same_bits(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = rows_of(name)
    whole = encoder_of(name).fit(wanted)
    write, lock, left = LocalStates.write, threading.Lock(), [0]

    def failing(self: LocalStates, path: str, pieces: Any) -> None:
        if path.endswith(".state"):
            with lock:
                left[0] -= 1
                if left[0] < 0:
                    raise Enough
        write(self, path, pieces)

    monkeypatch.setattr(LocalStates, "write", failing)
    n_read, n_runs = 0, 0
    while True:
        left[0] = 7
        rows = rows_of(name)
        n_runs += 1
        try:
            found = encoder_of(name, checkpoint=str(tmp_path / "kept")).fit(rows)
        except Enough:
            n_read += len(rows.reads) - SAMPLED
            time.sleep(0.02)  # a thread that had begun ends
        else:
            n_read += len(rows.reads) - SAMPLED
            break
        assert n_runs < 200
    assert n_runs > 2
    assert bits(found) == bits(whole)
    # each run may read, and not store, one block a thread and the one after it
    assert len(wanted.reads) <= n_read <= len(wanted.reads) + 4 * os.cpu_count() * n_runs


@pytest.mark.parametrize("name", PARAMETERS)
def test_a_finished_fit_called_again_reads_a_sample_of_rows_and_no_more(name: str, tmp_path: Path) -> None:
    first = encoder_of(name, checkpoint=tmp_path / "kept").fit(rows_of(name))
    rows = rows_of(name)
    again = encoder_of(name, checkpoint=tmp_path / "kept").fit(rows)
    assert bits(again) == bits(first)
    assert len(rows.reads) == SAMPLED
    assert all(each.n_done == each.n_spans for each in summarize(str(tmp_path / "kept")).passes)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"n_nonzero": 4}, "n_nonzero was 3, is 4"),
        ({"scale": True}, "scale was false, is true"),
        ({"strategy": "tsqr"}, 'strategy was "gram", is "tsqr"'),
        ({"random_state": 5}, "seed was 0, is 5"),
        ({"n_components": 3}, "n_components was 2, is 3"),
    ],
)
def test_another_parameter_is_refused_by_name(change: dict[str, Any], told: str, tmp_path: Path) -> None:
    encoder_of("gram", checkpoint=tmp_path / "kept").fit(X)
    with pytest.raises(OtherCheckpoint, match="belongs to another run: ") as caught:
        encoder_of("gram", checkpoint=tmp_path / "kept").set_params(**change).fit(X)
    assert told in str(caught.value)
    assert f"spae checkpoint rm {tmp_path / 'kept'}" in str(caught.value)


def test_a_parameter_that_changes_no_bit_is_not_looked_at(tmp_path: Path) -> None:
    encoder_of("gram", checkpoint=tmp_path / "kept").fit(rows_of("gram"))
    rows = rows_of("gram")
    encoder_of("gram", checkpoint=tmp_path / "kept", memory_limit="2GB", eps=0.3, progress=lambda event: None).fit(rows)
    assert len(rows.reads) == SAMPLED


@pytest.mark.parametrize(
    ("other", "told"),
    [
        (X[:-1], "data.shape was [6000, 9], is [5999, 9]"),
        (X.astype(np.float32), 'data.dtype was "<f8", is "<f4"'),
        (np.where(np.arange(N)[:, None] == N // 2, 0.0, X), "data.content was"),
    ],
)
def test_other_data_are_refused_by_what_differs(other: Any, told: str, tmp_path: Path) -> None:
    encoder_of("gram", checkpoint=tmp_path / "kept").fit(Watched(X, ROWS))
    with pytest.raises(OtherCheckpoint) as caught:
        encoder_of("gram", checkpoint=tmp_path / "kept").fit(Watched(other, ROWS))
    assert told in str(caught.value)


def test_another_version_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    encoder_of("gram", checkpoint=tmp_path / "kept").fit(X)
    numpy_version = np.__version__
    monkeypatch.setattr(checkpointing, "__version__", "9.9")
    monkeypatch.setattr(np, "__version__", "1.0")
    with pytest.raises(OtherCheckpoint, match=r'versions\.spae_dask was ".*", is "9\.9"') as caught:
        encoder_of("gram", checkpoint=tmp_path / "kept").fit(X)
    libraries = f"spae-dask=={spae_dask.__version__} numpy=={numpy_version}"
    assert f"install the libraries it ran with (`pip install {libraries}`)" in str(caught.value)
    assert "give the parameters and data it was given" not in str(caught.value)


def test_dask_arrays_are_known_by_their_graph(tmp_path: Path) -> None:
    lazy = da.from_array(X, chunks=(ROWS, D))
    whole = encoder_of("gram").fit(lazy)
    found = encoder_of("gram", checkpoint=tmp_path / "kept").fit(lazy)
    assert bits(found) == bits(whole)
    assert bits(encoder_of("gram", checkpoint=tmp_path / "kept").fit(da.from_array(X, chunks=(ROWS, D)))) == bits(whole)
    with pytest.raises(OtherCheckpoint, match=r"data\.graph was"):
        encoder_of("gram", checkpoint=tmp_path / "kept").fit(lazy + 1)


@pytest.mark.parametrize("given", ["", 7, b"folder", ["a"]])
def test_nonsense_for_a_checkpoint_is_refused(given: Any) -> None:
    with pytest.raises(InvalidInput, match="checkpoint="):
        encoder_of("gram", checkpoint=given).fit(X)


def test_a_folder_of_other_things_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("irreplaceable")
    with pytest.raises(InvalidInput, match=r"is not a checkpoint: it contains 'thesis\.txt'"):
        encoder_of("gram", checkpoint=tmp_path).fit(X)
    with pytest.raises(InvalidInput, match="Nothing was removed"):
        remove_checkpoint(str(tmp_path))
    assert [each.name for each in tmp_path.iterdir()] == ["thesis.txt"]


def test_a_file_and_a_folder_in_no_folder_are_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidInput, match="is a file"):
        encoder_of("gram", checkpoint=tmp_path / "file").fit(X)
    with pytest.raises(StorageError, match="cannot be made"):
        encoder_of("gram", checkpoint=tmp_path / "no" / "where").fit(X)


def test_a_state_file_of_garbage_is_made_anew(tmp_path: Path) -> None:
    whole = encoder_of("tsqr", checkpoint=tmp_path / "kept").fit(X)
    (state,) = tmp_path.rglob("*.state")
    state.write_bytes(os.urandom(500))
    with pytest.warns(CheckpointWarning, match="cannot be used"):
        assert bits(encoder_of("tsqr", checkpoint=tmp_path / "kept").fit(X)) == bits(whole)


def test_evaluating_goes_on_too(tmp_path: Path) -> None:
    encoder = batch_encoder(2, n_nonzero=3).fit(X)
    wanted = evaluate(Watched(X, ROWS), encoder)
    assert evaluate(Watched(X, ROWS), encoder, checkpoint=tmp_path / "kept") == wanted
    rows = Watched(X, ROWS)
    assert evaluate(rows, encoder, checkpoint=tmp_path / "kept") == wanted
    assert len(rows.reads) == SAMPLED
    with pytest.raises(OtherCheckpoint, match="encoder was"):
        evaluate(X, batch_encoder(2, n_nonzero=4).fit(X), checkpoint=tmp_path / "kept")


def test_two_runs_on_one_checkpoint_at_once_come_to_the_same_bits(tmp_path: Path) -> None:
    whole = encoder_of("mean").fit(rows_of("mean"))
    found, failed = [], []

    def run() -> None:
        rows = rows_of("mean")
        rows.pause = 0.01
        try:
            found.append(encoder_of("mean", checkpoint=tmp_path / "kept").fit(rows))
        except BaseException as error:
            failed.append(error)

    runs = [threading.Thread(target=copy_context().run, args=(run,)) for _ in range(3)]
    for each in runs:
        each.start()
    for each in runs:
        each.join()
    assert failed == []
    assert [bits(each) for each in found] == 3 * [bits(whole)]


def _fit_and_die(path: str, folder: str, kept: str) -> None:
    source = Scripted(ZarrBlocks(zarr.open_array(path), target_nbytes=1), Path(folder), {2: ("killed", "read")})
    with pass_options(min_span_nbytes=1, states_per_span=0):
        encoder_of("gram", checkpoint=kept).fit(source)


@pytest.mark.chaos
def test_a_process_that_is_killed_leaves_what_it_had_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: OptionsSetter
) -> None:
    options(fan_in=None)  # the child has the usual one
    array = zarr_array(tmp_path / "x.zarr", X, (ROWS, D))
    (tmp_path / "reads").mkdir()
    child = multiprocessing.get_context("forkserver").Process(
        target=_fit_and_die, args=(str(tmp_path / "x.zarr"), str(tmp_path / "reads"), str(tmp_path / "kept"))
    )
    child.start()
    child.join(60)
    assert child.exitcode == -signal.SIGKILL
    source = Scripted(ZarrBlocks(array, target_nbytes=1), tmp_path / "reads", {2: ("killed", "read")})
    before = source.all_readings()
    assert before > 10
    found = encoder_of("gram", checkpoint=tmp_path / "kept").fit(source)
    n_blocks = len(source.bounds) - 1
    assert source.all_readings() <= n_blocks + 2 * SAMPLED + 4
    assert bits(found) == bits(encoder_of("gram").fit(source.inner))


@pytest.mark.chaos
def test_a_worker_that_is_killed_reads_nothing_again_that_was_stored(tmp_path: Path) -> None:
    array = zarr_array(tmp_path / "x.zarr", X, (ROWS, D))
    inner = ZarrBlocks(array, target_nbytes=1)
    (tmp_path / "reads").mkdir()
    # block 15 is not among the three of the sample
    source = Scripted(inner, tmp_path / "reads", {15: ("killed", "read")})
    with local_cluster(2, memory_limit=1 << 30):
        found = encoder_of("gram", checkpoint=tmp_path / "kept").fit(source)
    assert source.readings(15) == 2
    assert source.all_readings() <= len(source.bounds) - 1 + SAMPLED + 4
    assert bits(found) == bits(encoder_of("gram").fit(inner))


@pytest.fixture
def no_room(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """After so many states the disk is full."""
    replace, left = os.replace, [0]

    def full(source: Any, target: Any, **more: Any) -> None:
        left[0] -= str(target).endswith(".state")
        if left[0] < 0:
            raise OSError(28, "No space left on device", str(target))
        replace(source, target, **more)

    def after(n_states: int) -> None:
        left[0] = n_states
        monkeypatch.setattr(os, "replace", full)

    return after


def test_a_full_disk_ends_the_fit_and_loses_nothing(
    no_room: Callable[[int], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: OptionsSetter
) -> None:
    no_room(6)
    with pytest.raises(StorageError, match=r"No space left.*Stored states are kept"):
        encoder_of("gram", checkpoint=tmp_path / "kept").fit(rows_of("gram"))
    time.sleep(0.1)
    assert not [each for each in (tmp_path / "kept").rglob("*") if "partial" in each.name]
    monkeypatch.undo()
    done = sum(each.n_done for each in summarize(str(tmp_path / "kept")).passes)
    assert done >= 4
    rows = Watched(X, ROWS)
    options(min_span_nbytes=1, states_per_span=0, fan_in=3)
    found = encoder_of("gram", checkpoint=tmp_path / "kept").fit(rows)
    assert len(rows.reads) == SAMPLED + 20 - done
    assert bits(found) == bits(encoder_of("gram").fit(rows_of("gram")))
