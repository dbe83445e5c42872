"""The checkpoint of a run: its store, digests of recipes, parts of array jobs, and the folder of each pass. Pure.

A pass has a folder, named by its number, its name and a key: the digest of its recipe, of its spans and of how they are
merged. `PassCheckpoint` describes the files in it; a finished pass has one state. Nothing depends on workers.
"""

import dataclasses
import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, BinaryIO, Protocol

import numpy as np

from spae_dask.blocks import RowBlocks, nbytes_of_rows
from spae_dask.errors import CheckpointWarning, StorageError, warn
from spae_dask.passes.accumulators.base import Accumulator, has_exact_sums
from spae_dask.passes.chosen import ChosenBlocks
from spae_dask.passes.layout import PassLayout
from spae_dask.passes.merge_tree import MergeTree, Node
from spae_dask.passes.state_file import UnusableState, read_state, state_bytes
from spae_dask.passes.sweep import Swept


class StateStore(Protocol):
    """Place for states: files in folders. A file is readable only when it is complete. Picklable."""

    def make(self, folder: str) -> None:
        """Make sure that a folder is there."""
        ...

    def folders(self) -> list[str]:
        """All folders."""
        ...

    def files(self, folder: str) -> list[str]:
        """Names of the files in a folder."""
        ...

    def write(self, path: str, pieces: Iterable[bytes | memoryview]) -> None:
        """Write ``FOLDER/NAME``, in place of what is there.

        Raises
        ------
        StorageError
            If it cannot be written, or the folder is not there.
        """
        ...

    def open(self, path: str) -> AbstractContextManager[BinaryIO]:
        """Open a file to read.

        Raises
        ------
        FileNotFoundError
            If it is not there.
        StorageError
            If it cannot be read.
        """
        ...

    def remove(self, path: str) -> None:
        """Remove a file, if it is there."""
        ...

    def describe(self) -> str:
        """Path or URL."""
        ...


class PassIncomplete(Exception):
    """A pass misses states that other parts have to make: ``args`` are a `MissingSpans`."""


class PassesComplete(Exception):
    """The last pass of a run is complete, and this process only makes a part of the run."""


@dataclass(frozen=True)
class MissingSpans:
    """Spans that a pass misses.

    Attributes
    ----------
    name : str
        Name of the pass.
    number : int
        Number of the pass, from 1.
    n_spans : int
        Number of spans in the pass.
    missing : tuple of int
        Spans that are not stored.
    n_swept : int
        Number of spans that this process had to reduce as its part, in all passes.
    """

    name: str
    number: int
    n_spans: int
    missing: tuple[int, ...]
    n_swept: int


@dataclass(frozen=True)
class ArrayPart:
    """The part of every pass that one process makes.

    Attributes
    ----------
    number, of : int
        Part ``number``, from 1, of ``of`` equal parts; 0 for no spans at all.
    """

    number: int
    of: int

    def spans(self, n_spans: int) -> range:
        """Spans of the part."""
        if self.number == 0:
            return range(0)
        return range(n_spans * (self.number - 1) // self.of, n_spans * self.number // self.of)


def digest_of(value: Any) -> str:
    """SHA-256 of plain values, arrays, and dataclasses and containers of these.

    A dataclass is known by its ``recipe_kind``, a class attribute that stays when the class moves or is renamed.
    Checkpoints of before are found by it. The oldest kinds are the places where their classes stood first.

    Equal values have equal digests in every process, and values that differ in a type, a name, a shape or a bit have
    different ones.
    """
    digest = hashlib.sha256()
    for piece in _pieces(value):
        digest.update(len(piece).to_bytes(8, "little"))  # so that different sequences of pieces have different digests
        digest.update(piece)
    return digest.hexdigest()


def _kind_of(recipe: type) -> str:
    kind = vars(recipe).get("recipe_kind")  # its own: a recipe derived from another one computes something else
    if not isinstance(kind, str):
        raise AssertionError(
            f"the recipe {recipe.__name__} has no recipe_kind of its own. This is a bug of spae_dask. Please report it."
        )
    return kind


def _pieces(value: Any) -> Iterator[bytes]:
    if isinstance(value, np.ndarray):
        # by rows, whatever the order in memory; the order counts too, because a product's rounding may depend on it
        order = "F" if value.flags.f_contiguous and not value.flags.c_contiguous else "C"
        yield f"array {value.dtype.str} {value.shape} {order}".encode()
        yield np.ascontiguousarray(value).tobytes()
    elif isinstance(value, np.generic):
        yield f"number {value.dtype.str}".encode()
        yield value.tobytes()
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = dataclasses.fields(value)
        yield f"record {_kind_of(type(value))} {len(fields)}".encode()
        for field in fields:
            yield field.name.encode()
            yield from _pieces(getattr(value, field.name))
    elif isinstance(value, Mapping):
        yield f"mapping {len(value)}".encode()
        for name, each in value.items():
            yield from _pieces(name)
            yield from _pieces(each)
    elif isinstance(value, tuple | list | range):
        yield f"sequence {len(value)}".encode()
        for each in value:
            yield from _pieces(each)
    elif value is None or isinstance(value, bool | int | float | str):
        yield f"{type(value).__name__} {value!r}".encode()
    else:
        raise AssertionError(
            f"a recipe contains a {type(value).__name__}, which has no digest. This is a bug of spae_dask. "
            "Please report it."
        )


STATE_NAME = re.compile(r"(\d{1,2})-(\d{5,})\.state")


class MissingNode(Exception):
    """The state of a node is not stored under its name, or is unusable: ``args`` are the node and the reason or None.

    A task ends with it, and the runner lists the store again.
    """


@dataclass(frozen=True)
class PassCheckpoint:
    """The stored states of one pass. The runner sends it to tasks.

    Parameters
    ----------
    store : StateStore
        Store of the states.
    folder, key : str
        Folder of the pass in the store, and digest of the pass.
    tree : MergeTree
        Merge tree of the pass.
    """

    store: StateStore
    folder: str
    key: str
    tree: MergeTree

    def path(self, node: Node) -> str:
        """Path of the file of a node."""
        return f"{self.folder}/{node[0]}-{node[1]:05d}.state"

    def stored(self) -> frozenset[Node]:
        """Nodes that are stored. Nodes that a stored node above already holds are removed from the store."""
        known = self._listed()
        outdated = self.tree.outdated(known)
        self.discard(outdated)
        return known.difference(outdated)

    def save(self, node: Node, swept: Swept) -> None:
        """Store a state."""
        self.store.write(self.path(node), state_bytes(swept, self.key, node))

    def load(self, node: Node, recipe: Accumulator[Any]) -> Swept:
        """Load a stored state.

        Raises
        ------
        MissingNode
            If the state is not there, or is unusable.
        """
        try:
            with self.store.open(self.path(node)) as file:
                return read_state(file, self.key, node, recipe)
        except FileNotFoundError:
            raise MissingNode(node, None) from None
        except UnusableState as error:
            raise MissingNode(node, str(error)) from error

    def find(self, node: Node, recipe: Accumulator[Any]) -> Swept | None:
        """Load the state of a node if it is stored and usable; give None if the state has to be made.

        One listing of the folder finds out: opening the file of every node above would be more requests.

        Raises
        ------
        MissingNode
            If the state was merged into a stored node above.
        """
        holders = self._listed().intersection(self.tree.holders(node))
        if not holders:
            return None
        if holders != {node}:
            raise MissingNode(node, None)
        try:
            return self.load(node, recipe)
        except MissingNode:
            return None

    def discard(self, nodes: Iterable[Node]) -> None:
        """Remove states."""
        for node in nodes:
            self.store.remove(self.path(node))

    def without_unusable(self, recipe: Accumulator[Any]) -> list[tuple[str, str]]:
        """Load every stored state and remove the unusable ones; give their paths and the reasons."""
        removed = []
        for node in sorted(self.stored()):
            try:
                self.load(node, recipe)
            except MissingNode as missing:
                if missing.args[1] is not None:
                    self.discard([node])
                    removed.append((self.path(node), str(missing.args[1])))
        return removed

    def _listed(self) -> frozenset[Node]:
        found = {(int(m[1]), int(m[2])) for name in self.store.files(self.folder) if (m := STATE_NAME.fullmatch(name))}
        return frozenset(node for node in found if self.tree.has(node))


DESCRIPTION = "about.json"

MOST_LOSSES = 30
"""Times that one state may be found missing in a pass."""


class Checkpoint:
    """The stored states of one run, pass after pass.

    Parameters
    ----------
    store : StateStore
        Of this run: whoever opens it has made sure that data and parameters are those it was begun with.
    part : ArrayPart, optional
        Part of every pass that this process makes; all missing spans by default.
    run : str
        Identity of the data and parameters of this run. States of two runs are never taken for each other's, even if
        both begin in one place at the same moment.
    n_passes : int, optional
        Number of passes of the run, if it is known.
    exact_run : str, optional
        Identity of the run for passes of exact sums: without the libraries and the machine, which make no difference
        to their bits. That of the run by default.

    Attributes
    ----------
    n_swept : int
        Number of spans that this process had to reduce as its part.
    number : int
        Number of passes begun.
    """

    def __init__(
        self,
        store: StateStore,
        part: ArrayPart | None = None,
        run: str = "",
        n_passes: int | None = None,
        exact_run: str | None = None,
    ) -> None:
        self.store = store
        self.part = part
        self.run = run
        self.exact_run = run if exact_run is None else exact_run
        self.n_passes = n_passes
        self.n_swept = 0
        self.number = 0
        self._losses: Counter[Node] = Counter()
        self._folder = ""

    def begin(self, name: str, recipe: Accumulator[Any], layout: PassLayout, source: RowBlocks) -> PassCheckpoint:
        """Begin the next pass; its folder is made if it is not there."""
        self.number += 1
        chosen = source.numbers if isinstance(source, ChosenBlocks) else None
        run = self.exact_run if has_exact_sums(recipe) else self.run
        key = digest_of((run, recipe, layout.spans, layout.fan_in, chosen))
        start = f"{self.number:02d}-"
        folder = f"{start}{re.sub('[^a-z0-9]+', '-', name.lower()).strip('-')}-{key[:16]}"
        self._losses.clear()
        self._folder = folder
        others = [each for each in self.store.folders() if each.startswith(start) and each != folder]
        if others and self.part is not None:
            raise StorageError(
                f"pass {self.number} ({name}) of the checkpoint {self.store.describe()} was begun by a process "
                "that computes other bits. Run all parts on the same data, on the same kind of machine, with the "
                f"same libraries. Or start anew: `spae checkpoint rm {self.store.describe()}`."
            )
        if others:
            warn(
                f"pass {self.number} ({name}) of the checkpoint {self.store.describe()} was begun by a process "
                "that computes other bits, such as one on another kind of machine. This pass starts anew.",
                CheckpointWarning,
            )
        self.store.make(folder)
        if DESCRIPTION not in self.store.files(folder):
            about = {
                "name": name,
                "n_spans": len(layout.spans),
                "fan_in": layout.fan_in,
                "n_rows": source.shape[0],
                "nbytes": nbytes_of_rows(source, source.shape[0]),
                "state_nbytes": layout.footprint.state_nbytes,
            }
            self.store.write(f"{folder}/{DESCRIPTION}", [json.dumps(about, indent=1).encode()])
        return PassCheckpoint(self.store, folder, key, MergeTree(len(layout.spans), layout.fan_in))

    def found_missing(self, kept: PassCheckpoint, missing: MissingNode, recipe: Accumulator[Any]) -> None:
        """Note that a state is missing; if it is unusable, remove all unusable ones with a warning.

        Raises
        ------
        StorageError
            If one state is found missing again and again.
        """
        node, why = missing.args
        self._losses[node] += 1
        if self._losses[node] > MOST_LOSSES:
            raise StorageError(
                f"states stored in {self.store.describe()} were lost repeatedly. Check that disk, make sure that "
                "no other process removes files there, and run again."
            )
        if why is None:
            return  # it was merged into another state meanwhile
        for path, why in kept.without_unusable(recipe):
            warn(f"{self.store.describe()}/{path} cannot be used: {why}. Its rows are read again.", CheckpointWarning)

    def is_gone(self) -> bool:
        """Return True if nothing is left of the checkpoint, not even its record or the folder of the pass."""
        return not self.store.files("") and self._folder not in self.store.folders()

    def end(self) -> None:
        """Note that a pass is complete.

        Raises
        ------
        PassesComplete
            If it is the last pass, and this process makes a part of the run.
        """
        if self.part is not None and self.part.number and self.number == self.n_passes:
            raise PassesComplete

    def missing(self, name: str, tree: MergeTree, stored: frozenset[Node]) -> MissingSpans:
        """Spans that the present pass misses."""
        missing = set(range(tree.n_spans)) - tree.covered(stored)
        return MissingSpans(name, self.number, tree.n_spans, tuple(sorted(missing)), self.n_swept)
