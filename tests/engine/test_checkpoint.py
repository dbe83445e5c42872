"""States that are kept: whichever are there, the result has the same bits, and no row of theirs is read again."""

import errno
import io
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, BinaryIO
from weakref import WeakValueDictionary

import numpy as np
import pytest
from distributed import Client
from hypothesis import given, settings
from hypothesis import strategies as st

from spae_dask.engine.runner import DaskRunner
from spae_dask.errors import CheckpointWarning, StorageError
from spae_dask.passes.accumulators import Gram, NonFinite, Together, Triangular
from spae_dask.passes.checkpoint import ArrayPart, Checkpoint, PassIncomplete, digest_of
from spae_dask.passes.events import Event, Resumed, RowsDone
from spae_dask.passes.merge_tree import MergeTree
from spae_dask.passes.options import pass_options
from spae_dask.passes.serial import SerialRunner
from spae_dask.passes.state_file import UnusableState, read_state, state_bytes
from spae_dask.passes.sweep import Swept
from tests.conftest import ClusterOpener, OptionsSetter
from tests.engine.bits import bits
from tests.estimators.sources import Watched
from tests.passes.accumulators.recipes import RECIPES

N, D, ROWS = 1180, 6, 60
N_SPANS = 20
X = np.random.default_rng(0).standard_normal((N, D)) + 3
RECIPE = Together({"nonfinite": NonFinite(D), "core": Triangular(D)})


_HERE: WeakValueDictionary[int, Any] = WeakValueDictionary()


class Here:
    """An object of which no copies are made: workers of this process are given the object itself."""

    def __reduce__(self) -> Any:
        _HERE[id(self)] = self
        return _here, (id(self),)


def _here(number: int) -> Any:
    return _HERE[number]


@dataclass
class Held(Here):
    """A store in a dictionary, which may fail from its n-th write of a state on."""

    kept: dict[str, bytes] = field(default_factory=dict)
    writes_left: int | None = None
    failure: Callable[[], Exception] = lambda: StorageError("no space left on device")

    def describe(self) -> str:
        return "a store in memory"

    def make(self, folder: str) -> None:
        pass

    def folders(self) -> list[str]:
        return sorted({path.split("/")[0] for path in self.kept})

    def files(self, folder: str) -> list[str]:
        return sorted(path.split("/")[1] for path in list(self.kept) if path.startswith(f"{folder}/"))

    def write(self, path: str, pieces: Iterable[bytes | memoryview]) -> None:
        if path.endswith(".state") and self.writes_left is not None:
            if self.writes_left == 0:
                raise self.failure()
            self.writes_left -= 1
        self.kept[path] = b"".join(pieces)

    @contextmanager
    def open(self, path: str) -> Iterator[BinaryIO]:
        if path not in self.kept:
            raise FileNotFoundError(errno.ENOENT, path)
        yield io.BytesIO(self.kept[path])

    def remove(self, path: str) -> None:
        self.kept.pop(path, None)

    @property
    def states(self) -> list[str]:
        return sorted(path for path in self.kept if path.endswith(".state"))


@pytest.fixture(autouse=True)
def one_block_a_span(options: OptionsSetter) -> None:
    options(min_span_nbytes=1, states_per_span=0, fan_in=3)


class Rows(Here, Watched):
    """Rows that all readers of this process share."""


def source() -> Rows:
    return Rows(X, ROWS)


CLIENTS: list[Client] = []


@pytest.fixture(scope="module", autouse=True)
def client(open_cluster: ClusterOpener) -> Iterator[None]:
    """Of two workers in this process."""
    CLIENTS.append(open_cluster(2, processes=False))
    yield
    CLIENTS.clear()


def runner_of(kind: str, rows: Any, checkpoint: Checkpoint | None, watch: Any = lambda event: None) -> Any:
    if kind == "serial":
        return SerialRunner(rows, watch, checkpoint)
    return DaskRunner(rows, None if kind == "threads" else CLIENTS[0], 2, watch, checkpoint)


@pytest.fixture(scope="module")
def wanted() -> Any:
    with pass_options(min_span_nbytes=1, states_per_span=0, fan_in=3):
        return bits(SerialRunner(source()).run_pass(RECIPE, "core"))


DASK_KINDS = pytest.mark.parametrize("kind", ["threads", "cluster"])
KINDS = pytest.mark.parametrize("kind", ["serial", "threads", "cluster"])


@KINDS
@pytest.mark.parametrize("n_writes", [0, 1, 9, 21, 30])
def test_a_pass_that_dies_after_any_write_goes_on_with_the_same_bits(kind: str, n_writes: int, wanted: Any) -> None:
    store = Held(writes_left=n_writes)
    with pytest.raises(StorageError, match="no space left"):
        runner_of(kind, source(), Checkpoint(store)).run_pass(RECIPE, "core")
    store = Held(dict(store.kept))  # threads that had begun may still write to the other one
    kept = {span for name in store.states for span in _spans_of(name)}
    assert len(kept) >= min(n_writes, 1)
    rows = source()
    found = runner_of(kind, rows, Checkpoint(store)).run_pass(RECIPE, "core")
    assert bits(found) == wanted
    assert sorted(rows.reads) == sorted(set(range(N_SPANS)) - kept)


def _spans_of(path: str) -> range:
    level, number = map(int, path.split("/")[1].removesuffix(".state").split("-"))
    return MergeTree(N_SPANS, 3).spans((level, number))


@KINDS
def test_of_a_finished_pass_one_state_is_left_and_nothing_is_read_again(kind: str, wanted: Any) -> None:
    store = Held()
    first = runner_of(kind, source(), Checkpoint(store))
    assert bits(first.run_pass(RECIPE, "core")) == wanted
    assert len(store.states) == 1
    rows = source()
    again = runner_of(kind, rows, Checkpoint(store))
    assert bits(again.run_pass(RECIPE, "core")) == wanted
    assert rows.reads == []
    assert again.tally == first.tally


@pytest.fixture(scope="module")
def every_state() -> dict[str, bytes]:
    """The states of all nodes, which no run ever has at once."""

    class Hoarder(Held):
        def remove(self, path: str) -> None:
            pass

    store = Hoarder()
    with pass_options(min_span_nbytes=1, states_per_span=0, fan_in=3):
        SerialRunner(source(), checkpoint=Checkpoint(store)).run_pass(RECIPE, "core")
    return store.kept


@settings(max_examples=20)
@given(data=st.data())
def test_whichever_states_are_there_the_bits_are_the_same(
    data: st.DataObject, every_state: dict[str, bytes], wanted: Any
) -> None:
    names = sorted(name for name in every_state if name.endswith(".state"))
    there = data.draw(st.sets(st.sampled_from(names)))
    broken = data.draw(st.sets(st.sampled_from(sorted(there)))) if there else set()
    kind = data.draw(st.sampled_from(["serial", "threads", "cluster"]))
    store = Held({name: every_state[name][:-5] if name in broken else every_state[name] for name in there})
    rows = source()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CheckpointWarning)
        found = runner_of(kind, rows, Checkpoint(store)).run_pass(RECIPE, "core")
    assert bits(found) == wanted
    if not broken:
        done = {span for name in there for span in _spans_of(name)}
        assert sorted(rows.reads) == sorted(set(range(N_SPANS)) - done)
    assert len(store.states) == 1


def _garbled(data: bytes) -> bytes:
    return data[:-60] + bytes([data[-60] ^ 1]) + data[-59:]


DAMAGE = {
    "empty": lambda data: b"",
    "cut": lambda data: data[: len(data) // 2],
    "garbled": _garbled,
    "longer": lambda data: data + b"x",
    "foreign": lambda data: b"PK\x03\x04" + data,
    "a huge header": lambda data: data[:16] + b"\xff" * 8 + data[24:],
    "no JSON": lambda data: data[:24] + b"[" + data[25:],
}


@pytest.mark.parametrize(
    ("kind", "damage"), [("serial", each) for each in DAMAGE] + [("threads", "garbled"), ("cluster", "cut")]
)
def test_a_state_that_is_damaged_is_made_anew_with_a_warning(kind: str, damage: str, wanted: Any) -> None:
    store = Held(writes_left=7)
    with pytest.raises(StorageError):
        runner_of("serial", source(), Checkpoint(store)).run_pass(RECIPE, "core")
    store.writes_left = None
    victim = store.states[0]
    store.kept[victim] = DAMAGE[damage](store.kept[victim])
    rows = source()
    with pytest.warns(CheckpointWarning, match=r"\.state cannot be used: it.*read again"):
        found = runner_of(kind, rows, Checkpoint(store)).run_pass(RECIPE, "core")
    assert bits(found) == wanted
    assert set(_spans_of(victim)) <= set(rows.reads)


@KINDS
def test_the_state_of_other_rows_under_a_wrong_name_is_not_believed(kind: str, wanted: Any) -> None:
    store = Held(writes_left=2)
    with pytest.raises(StorageError):
        runner_of("serial", source(), Checkpoint(store)).run_pass(RECIPE, "core")
    store.writes_left = None
    first, second = store.states
    store.kept[first], store.kept[second] = store.kept[second], store.kept[first]
    with pytest.warns(CheckpointWarning, match="of other rows or of another pass"):
        assert bits(runner_of(kind, source(), Checkpoint(store)).run_pass(RECIPE, "core")) == wanted


@DASK_KINDS
def test_a_state_merged_by_another_run_meanwhile_is_found_again(
    kind: str, every_state: dict[str, bytes], wanted: Any
) -> None:
    class Overtaken(Held):
        """When the first state is opened, another run has just merged the group it was in."""

        def open(self, path: str) -> Any:
            if path.endswith("0-00000.state"):
                folder = path.partition("/")[0]
                for number in range(3):
                    self.kept.pop(f"{folder}/0-{number:05d}.state", None)
                self.kept[f"{folder}/1-00000.state"] = every_state[f"{folder}/1-00000.state"]
            return super().open(path)

    store = Overtaken({name: data for name, data in every_state.items() if "/0-" in name})
    rows = source()
    assert bits(runner_of(kind, rows, Checkpoint(store)).run_pass(RECIPE, "core")) == wanted
    assert rows.reads == []


@DASK_KINDS
def test_a_store_that_loses_all_it_lists_ends_the_pass(kind: str, every_state: dict[str, bytes]) -> None:
    class Ghosts(Held):
        def open(self, path: str) -> Any:
            raise FileNotFoundError(errno.ENOENT, path)

    with pytest.raises(StorageError, match="were lost repeatedly"):
        runner_of(kind, source(), Checkpoint(Ghosts(dict(every_state)))).run_pass(RECIPE, "core")


@DASK_KINDS
def test_the_watcher_is_told_what_was_done_before(kind: str, every_state: dict[str, bytes]) -> None:
    events: list[Event] = []
    store = Held(
        {name: data for name, data in every_state.items() if name.endswith(("1-00000.state", "0-00019.state"))}
    )
    runner_of(kind, source(), Checkpoint(store), events.append).run_pass(RECIPE, "core")
    (resumed,) = (event for event in events if isinstance(event, Resumed))
    n_rows = 3 * ROWS + N - 19 * ROWS
    assert resumed == Resumed(4, N_SPANS, n_rows, n_rows * D * 8)
    assert sum(event.n_rows for event in events if isinstance(event, RowsDone)) == N - n_rows


def test_another_recipe_at_the_same_place_starts_anew_and_says_so() -> None:
    store = Held()
    runner_of("threads", source(), Checkpoint(store)).run_pass(RECIPE, "core")
    rows = source()
    with pytest.warns(CheckpointWarning, match=r"pass 1 \(core\).*computes other bits"):
        runner_of("threads", rows, Checkpoint(store)).run_pass(Gram(D), "core")
    assert len(rows.reads) == N_SPANS
    with pytest.raises(StorageError, match="the same kind of machine"):
        runner_of("threads", rows, Checkpoint(store, ArrayPart(1, 2))).run_pass(Gram(D), "core")


@DASK_KINDS
@pytest.mark.parametrize("of", [1, 2, 3, 7, 40])
def test_parts_in_any_order_put_together_have_the_bits_of_one_run(kind: str, of: int, wanted: Any) -> None:
    store, reads = Held(), []
    for number in np.random.default_rng(of).permutation(np.arange(1, of + 1)).tolist():
        rows = source()
        left = N_SPANS - len(reads) - len(ArrayPart(number, of).spans(N_SPANS))
        part = runner_of(kind, rows, Checkpoint(store, ArrayPart(number, of)))
        if left:
            with pytest.raises(PassIncomplete) as caught:
                part.run_pass(RECIPE, "core")
            assert len(caught.value.args[0].missing) == left
        else:
            assert bits(part.run_pass(RECIPE, "core")) == wanted
        reads += rows.reads
    assert sorted(reads) == list(range(N_SPANS))
    rows = source()
    assert bits(runner_of(kind, rows, Checkpoint(store, ArrayPart(0, 1))).run_pass(RECIPE, "core")) == wanted
    assert rows.reads == []


def test_the_part_that_is_none_sweeps_nothing_and_says_what_is_missing() -> None:
    store, rows = Held(), source()
    with pytest.raises(PassIncomplete) as caught:
        runner_of("threads", rows, Checkpoint(store, ArrayPart(0, 1))).run_pass(RECIPE, "core")
    assert caught.value.args[0].missing == tuple(range(N_SPANS))
    assert rows.reads == []


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.name)
def test_the_state_of_every_accumulator_comes_back_as_it_was(recipe: Any) -> None:
    made = recipe.make(D)
    state = made.merge(made.update(made.zero(), X[:50], 0), made.update(made.zero(), X[50:90], 50))
    data = b"".join(state_bytes(Swept(state, 1.5, 2.5), "key", (2, 7)))
    back = read_state(io.BytesIO(data), "key", (2, 7), made)
    assert bits(back.state) == bits(dict(state))
    assert {name: np.asarray(each).strides for name, each in state.items()} == {
        name: each.strides for name, each in back.state.items()
    }
    assert (back.read_seconds, back.compute_seconds) == (1.5, 2.5)


def test_a_state_that_promises_more_than_the_recipe_allows_is_refused_before_memory_is_taken() -> None:
    state = Gram(D).update(Gram(D).zero(), X[:50], 0)
    data = b"".join(state_bytes(Swept(state), "key", (0, 0)))
    length = int.from_bytes(data[16:24], "little")
    header = data[24 : 24 + length].replace(b'"shape": [6, 6]', b'"shape": [99999999, 99999999]')
    assert header != data[24 : 24 + length]
    bomb = data[:16] + len(header).to_bytes(8, "little") + header + data[24 + length :]
    with pytest.raises(UnusableState, match="the largest possible size"):
        read_state(io.BytesIO(bomb), "key", (0, 0), Gram(D))


def test_digests_tell_recipes_apart_to_the_last_bit_and_nothing_else() -> None:
    assert [digest_of(recipe.make(D)) for recipe in RECIPES] == [digest_of(recipe.make(D)) for recipe in RECIPES]
    assert len({digest_of(recipe.make(D)) for recipe in RECIPES}) == len(RECIPES)
    a = np.arange(6.0)
    nearly = a.copy()
    nearly[3] = np.nextafter(3.0, 4.0)
    different = [
        a,
        nearly,
        a.reshape(2, 3),
        a.astype(np.float32),
        (1, 2),
        ((1,), 2),
        (1, (2,)),
        "1",
        1,
        1.0,
        True,
        None,
    ]
    assert len({digest_of(each) for each in different}) == len(different)
    with pytest.raises(AssertionError, match="Please report"):
        digest_of(object())


class Removed(Held):
    """A store that an equal run removes before the fourth write of a state."""

    def write(self, path: str, pieces: Iterable[bytes | memoryview]) -> None:
        if self.writes_left == 0:
            self.kept.clear()
        super().write(path, pieces)


@DASK_KINDS
def test_a_run_goes_on_without_a_checkpoint_that_an_equal_run_removes(kind: str, wanted: Any) -> None:
    store, events = Removed(writes_left=3), []
    runner = runner_of(kind, source(), Checkpoint(store), events.append)
    with pytest.warns(CheckpointWarning, match=r"a store in memory was removed .* goes on without it\.$"):
        found = runner.run_pass(RECIPE, "core")
    assert bits(found) == wanted
    assert store.kept == {}


@DASK_KINDS
def test_a_store_that_refuses_a_state_but_is_there_ends_the_run(kind: str) -> None:
    with pytest.raises(StorageError, match="no space left"):
        runner_of(kind, source(), Checkpoint(Held(writes_left=3))).run_pass(RECIPE, "core")
