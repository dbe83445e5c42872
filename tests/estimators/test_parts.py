"""Fits in parts that know nothing of each other: whatever is asked for, the bits of one fit."""

import itertools
import threading
import time
from contextvars import copy_context
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from spae_dask import ColumnSelector, SparseEncoder
from spae_dask.blocks import ArrayBlocks
from spae_dask.errors import OtherCheckpoint, StorageError
from spae_dask.estimators.checkpointing import CheckpointAt, PartDone, fit_part
from spae_dask.passes.checkpoint import ArrayPart, PassIncomplete
from spae_dask.storage.checkpoints import checkpoint_record
from spae_dask.storage.checkpoints.checkpoint_record import LocalStates
from spae_dask.storage.checkpoints.checkpoint_removal import remove_checkpoint
from spae_dask.storage.checkpoints.checkpoint_summary import summarize
from tests.conftest import OptionsSetter
from tests.estimators.sources import Watched, batch_encoder, spread

N, D, ROWS = 300, 7, 30
X = spread(np.random.default_rng(0), N, D)
GAPPY = np.where(np.random.default_rng(1).random((N, D)) < 0.01, np.nan, X)
FEW = sp.csr_array(np.where(np.random.default_rng(2).random((N, D)) < 0.7, 0.0, X))
SAMPLED = 3
"""Blocks that are read to know the data by."""


class WatchedRows(Watched):
    """The same of CSR rows."""

    @property
    def stored(self) -> Any:
        """What the blocks hold."""
        return ArrayBlocks(self.X, self.rows_per_block).stored


PAPER = {"strategy": "paper"}
SKETCH = {"strategy": "sketch", "sketch_rows": 12, "n_candidates": 5}
STREAM = {"strategy": "stream", "sketch_rows": 5}
SAMPLE = {"strategy": "sample", "tolerance": 1e-9}

WANTED: dict[str, dict[str, Any]] = {
    "default": {"method": "polished", "effort": 0},
    "gram": {"strategy": "gram"},
    "tsqr, scaled": {"strategy": "tsqr", "scale": True},
    "not centered": {"center": False},
    "fast": {"precision": "fast"},
    "orthonormal": {"method": "polished", "orthonormal": True, "effort": 0},
    "shared support": {"method": "polished", "shared_support": True, "effort": 0},
    "batch": {"method": "batch", "selection": "adaptive", "random_state": 3},
    "iterative": {"method": "iterative", "n_nonzero": (4, 2)},
    "eps": {"n_nonzero": None, "eps": 0.05},
    "folds": {"folds": 3},
    "folds of groups": {"folds": 3, "fold_groups": np.arange(N) // 7 % 11, "n_nonzero": "cv"},
    "doubly sparse": {"method": "doubly-sparse", "n_rows": 5},
    "doubly sparse, means for gaps": {"method": "doubly-sparse", "missing": "mean"},
    "zeros for gaps": {"missing": "zero"},
    "a number for gaps": {"missing_value": -1.0, "missing": "mean"},
    "sketch": SKETCH | {"method": "polished", "effort": 0},
    "sketch, certified": SKETCH | {"certified": True, "scale": True},
    "sketch, fast": SKETCH | {"precision": "fast", "center": False},
    "sketch, means for gaps": SKETCH | {"missing": "mean"},
    "sketch, batch": SKETCH | {"method": "batch"},
    "sketch to an eps": SKETCH | {"method": "polished", "effort": 0, "n_candidates": 3, "n_nonzero": None, "eps": 0.01},
    "paper": PAPER,
    "paper, repeated and sharpened": PAPER | {"n_repeats": 3, "power_iterations": 2, "method": "batch"},
    "paper, means for gaps": PAPER | {"missing": "mean", "scale": True},
    "stream": STREAM,
    "stream, certified": STREAM | {"certified": True, "n_candidates": 5, "missing": "zero"},
    "sample": SAMPLE,
    "sample that stops": {"tolerance": 0.5, "center": False},
}


@pytest.fixture(autouse=True)
def small_spans(options: OptionsSetter) -> None:
    options(min_span_nbytes=1, states_per_span=0, fan_in=3)


def encoder_of(name: str, checkpoint: CheckpointAt | None = None) -> SparseEncoder:
    return batch_encoder(2, **({"n_nonzero": 3} | WANTED[name] | {"checkpoint": checkpoint}))


def rows_of(name: str, kind: str = "dense") -> Watched:
    if kind == "sparse":
        return WatchedRows(FEW, ROWS)
    gappy = WANTED[name].get("missing", "error") != "error"
    return Watched(GAPPY if gappy else X, ROWS)


def bits(encoder: SparseEncoder) -> Any:
    kept = ("components_", "decoder_", "mean_", "scale_", "singular_values_", "explained_variance_ratio_")
    rows = getattr(encoder, "selected_rows_", np.zeros(0))
    return encoder.certificate_, rows.tolist(), *(getattr(encoder, each).tobytes() for each in kept)


SLOW = {"not centered", "orthonormal", "zeros for gaps", "sketch, certified", "sketch, fast", "sketch, means for gaps"}
SLOW |= {"doubly sparse, means for gaps", "paper, means for gaps", "stream", "sample", "sketch", "fast", "gram"}
"""Cases whose parts others have as well."""

CASES = [pytest.param(name, "dense", marks=[pytest.mark.slow] * (name in SLOW)) for name in WANTED]
CASES += [(name, "sparse") for name in ("default", "doubly sparse", "sketch", "paper", "stream")]
CASES += [pytest.param(name, "sparse", marks=pytest.mark.slow) for name in ("fast", "sample")]


def do_part(name: str, place: Path, number: int, of: int, rows: Any) -> PartDone:
    share = ArrayPart(number, of)
    return fit_part(encoder_of(name, CheckpointAt(place, share)), rows, share)


def finish(name: str, place: Path, rows: Any) -> SparseEncoder:
    return encoder_of(name, CheckpointAt(place, ArrayPart(0, 1))).fit(rows)


@pytest.mark.parametrize(("name", "kind"), CASES)
def test_parts_put_together_have_the_bits_of_one_fit(name: str, kind: str, tmp_path: Path) -> None:
    wanted, place = rows_of(name, kind), tmp_path / "kept"
    whole = encoder_of(name).fit(wanted)
    draw, reads = np.random.default_rng(len(name)), []
    for n_rounds in itertools.count(1):  # noqa: B007 - counted
        for number in draw.permutation([1, 2]).tolist():
            rows = rows_of(name, kind)
            do_part(name, place, number, 2, rows)
            reads += rows.reads[SAMPLED:]
        rows = rows_of(name, kind)
        try:
            found = finish(name, place, rows)
            break
        except PassIncomplete:
            assert len(rows.reads) == SAMPLED
    assert bits(found) == bits(whole)
    assert sorted(reads) == sorted(wanted.reads)
    # the last part of a round goes on with the next pass; in the next round it finds its share done, and ends well
    assert n_rounds <= len(summarize(str(place)).passes)


def test_more_parts_than_spans_do_no_harm(tmp_path: Path) -> None:
    name, place, n_spans, of = "batch", tmp_path / "kept", N // ROWS, 25
    for number in range(1, of + 1):
        do_part(name, place, number, of, rows_of(name))
    assert sum(bool(ArrayPart(number, of).spans(n_spans)) for number in range(1, of + 1)) == n_spans
    assert bits(finish(name, place, rows_of(name))) == bits(encoder_of(name).fit(rows_of(name)))


@pytest.mark.parametrize(
    "name", ["default", "eps", "doubly sparse, means for gaps", "sketch, batch", "paper", "stream"]
)
def test_a_part_that_finds_all_passes_whole_searches_for_no_encoder(name: str, tmp_path: Path) -> None:
    place = tmp_path / "kept"
    with pytest.raises(PassIncomplete):
        finish(name, place, rows_of(name))
    while do_part(name, place, 1, 1, rows_of(name)).lacking is not None:
        pass
    at, rows = CheckpointAt(place, ArrayPart(1, 1)), rows_of(name)
    encoder = encoder_of(name, at)
    assert fit_part(encoder, rows, ArrayPart(1, 1)) == PartDone(None, 1)
    assert len(rows.reads) == SAMPLED
    assert not hasattr(encoder, "components_")
    assert bits(finish(name, place, rows_of(name))) == bits(encoder_of(name).fit(rows_of(name)))


class Killed(BaseException):
    """Ends a process where it is."""


@pytest.mark.parametrize("n_writes", [0, 1, 2, 4])
def test_a_part_that_died_anywhere_and_is_started_again_ends_well_and_reads_only_what_it_had_not(
    n_writes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, place, lock, left = "batch", tmp_path / "kept", threading.Lock(), [n_writes]
    write = LocalStates.write

    def dying(self: LocalStates, path: str, pieces: Any) -> None:
        with lock:
            left[0] -= path.endswith(".state")
            if left[0] < 0:
                raise Killed
        write(self, path, pieces)

    first, n_mine = rows_of(name), len(ArrayPart(2, 4).spans(N // ROWS))
    with monkeypatch.context() as patch:
        patch.setattr(LocalStates, "write", dying)
        try:
            do_part(name, place, 2, 4, first)
        except Killed:
            time.sleep(0.02)  # a thread that had begun ends
        else:
            assert n_writes > n_mine
    stored = sum(each.n_done for each in summarize(str(place)).passes)
    for n_reads in (n_mine - stored, 0):
        rows = rows_of(name)
        assert do_part(name, place, 2, 4, rows).missing == (1, 3, 4)
        assert len(rows.reads) == SAMPLED + n_reads
    for number in (1, 3, 4):
        do_part(name, place, number, 4, rows_of(name))
    assert do_part(name, place, 2, 4, rows_of(name)).lacking is None
    assert bits(finish(name, place, rows_of(name))) == bits(encoder_of(name).fit(rows_of(name)))
    assert remove_checkpoint(str(place)) > 0
    assert not place.exists()


def at_once(*calls: Any) -> list[Any]:
    """What calls in threads return, or raise."""
    found: list[Any] = [None] * len(calls)

    def run(number: int) -> None:
        try:
            found[number] = calls[number]()
        except BaseException as error:
            found[number] = error

    threads = [threading.Thread(target=copy_context().run, args=(run, number)) for number in range(len(calls))]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    return found


def test_the_same_part_twice_at_once_does_no_harm(tmp_path: Path) -> None:
    name, place = "doubly sparse", tmp_path / "kept"

    def twice(number: int) -> Any:
        rows = rows_of(name)
        rows.pause = 0.002
        return lambda: do_part(name, place, number, 2, rows)

    for number in (1, 2, 1, 2):  # of two passes
        for each in at_once(twice(number), twice(number)):
            assert isinstance(each, PartDone)
    assert bits(finish(name, place, rows_of(name))) == bits(encoder_of(name).fit(rows_of(name)))


def test_parts_of_different_data_that_begin_at_the_same_moment_are_never_put_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, barrier = tmp_path / "kept", threading.Barrier(2)
    read_job = checkpoint_record.read_job

    def both_find_nothing(store: Any) -> Any:
        found = read_job(store)
        barrier.wait(10)
        return found

    with monkeypatch.context() as patch:
        patch.setattr(checkpoint_record, "read_job", both_find_nothing)
        one, two = at_once(
            lambda: do_part("gram", place, 1, 2, Watched(X, ROWS)),
            lambda: do_part("gram", place, 2, 2, Watched(X + 1.0, ROWS)),
        )
    assert all(isinstance(each, PartDone | OtherCheckpoint | StorageError) for each in (one, two)), (one, two)
    for rows in (Watched(X, ROWS), Watched(X + 1.0, ROWS)):
        with pytest.raises((PassIncomplete, OtherCheckpoint, StorageError)):
            finish("gram", place, rows)


def test_a_selector_of_columns_goes_on_too(tmp_path: Path) -> None:
    whole = ColumnSelector(3).fit(X)
    for reads in (N // ROWS + SAMPLED, SAMPLED):
        rows = Watched(X, ROWS)
        found = ColumnSelector(3, checkpoint=tmp_path / "kept").fit(rows)
        assert len(rows.reads) == reads
        assert found.selected_idx_.tolist() == whole.selected_idx_.tolist()
    with pytest.raises(OtherCheckpoint, match="n_nonzero was 3, is 4"):
        ColumnSelector(4, checkpoint=tmp_path / "kept").fit(Watched(X, ROWS))
