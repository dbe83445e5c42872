"""States of spans kept in a store, from which a pass that was cut short goes on. Pure: the store is handed in.

A pass has a folder, named by its number, its name and a key: the digest of its recipe, of its spans and of how they are
merged. The state of a span is stored there as soon as it is swept. When all the states that the merge tree puts
together are there, the merged one takes their place: there is never more than one state for a span, and of a finished
pass there is one in all. Nothing depends on workers. A state always has the same bits, so it does no harm if two runs
store it, or one takes away what the other has merged.
"""

import json
import re
import warnings
from collections.abc import Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, BinaryIO, Protocol

from spae_dask.accumulators.base import Accumulator
from spae_dask.blocks import RowBlocks, nbytes_of_rows
from spae_dask.engine.chosen import ChosenBlocks
from spae_dask.engine.layout import PassLayout
from spae_dask.engine.merge_tree import MergeTree, Node
from spae_dask.engine.recipe_digest import digest_of
from spae_dask.engine.state_bytes import UnusableState, read_state, state_bytes
from spae_dask.engine.sweep import Swept
from spae_dask.errors import CheckpointWarning, StorageError

STATE_NAME = re.compile(r"(\d{1,2})-(\d{5,})\.state")

DESCRIPTION = "about.json"

MOST_LOSSES = 30
"""Times that a pass begins anew because a state it was to go on from was not to be had."""


class StateStore(Protocol):
    """Where states are kept: files in folders, each written whole or not at all. Picklable."""

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


class LostState(Exception):
    """A state that was listed is not there any more, or cannot be used: ``args`` are its node and why, if there was."""


class NotWhole(Exception):
    """A pass lacks states that this process is not to make: ``args`` are a ``Lacking``."""


class AllWhole(Exception):
    """The last pass is whole, and what it leaves is not for this process, which does a share, to use."""


@dataclass(frozen=True)
class Lacking:
    """What a pass lacks.

    Attributes
    ----------
    name : str
        Of the pass.
    number : int
        From 1, in the order of passes.
    n_spans : int
        Spans there are.
    missing : tuple of int
        Those that are not stored.
    n_swept : int
        Spans that this process had to sweep as its share, in all passes.
    """

    name: str
    number: int
    n_spans: int
    missing: tuple[int, ...]
    n_swept: int


@dataclass(frozen=True)
class Share:
    """Which spans of every pass a process sweeps.

    Attributes
    ----------
    number, of : int
        Part ``number``, from 1, of ``of`` equal ones; 0 for none at all.
    """

    number: int
    of: int

    def spans(self, n_spans: int) -> range:
        """Its spans."""
        if self.number == 0:
            return range(0)
        return range(n_spans * (self.number - 1) // self.of, n_spans * self.number // self.of)


@dataclass(frozen=True)
class KeptPass:
    """The stored states of one pass; goes to tasks.

    Parameters
    ----------
    store : StateStore
        Where.
    folder, key : str
        Of the pass.
    tree : MergeTree
        Its nodes.
    """

    store: StateStore
    folder: str
    key: str
    tree: MergeTree

    def path(self, node: Node) -> str:
        """Of the file of a node."""
        return f"{self.folder}/{node[0]}-{node[1]:05d}.state"

    def stored(self) -> frozenset[Node]:
        """Nodes that are stored; those that a stored one above them holds are removed."""
        found = {(int(m[1]), int(m[2])) for name in self.store.files(self.folder) if (m := STATE_NAME.fullmatch(name))}
        known = frozenset(node for node in found if self.tree.has(node))
        outdated = self.tree.outdated(known)
        self.discard(outdated)
        return known.difference(outdated)

    def save(self, node: Node, swept: Swept) -> None:
        """Store a state."""
        self.store.write(self.path(node), state_bytes(swept, self.key, node))

    def load(self, node: Node, recipe: Accumulator[Any]) -> Swept:
        """A stored state.

        Raises
        ------
        LostState
            If it is not there, or cannot be used.
        """
        try:
            with self.store.open(self.path(node)) as file:
                return read_state(file, self.key, node, recipe)
        except FileNotFoundError:
            raise LostState(node, None) from None
        except UnusableState as error:
            raise LostState(node, str(error)) from error

    def find(self, node: Node, recipe: Accumulator[Any]) -> Swept | None:
        """A stored state; None if there is none that can be used."""
        try:
            return self.load(node, recipe)
        except LostState:
            return None

    def discard(self, nodes: Iterable[Node]) -> None:
        """Remove states."""
        for node in nodes:
            self.store.remove(self.path(node))

    def without_unusable(self, recipe: Accumulator[Any]) -> list[tuple[str, str]]:
        """Look at every stored state, and remove those that cannot be used; their paths, and why."""
        removed = []
        for node in sorted(self.stored()):
            try:
                self.load(node, recipe)
            except LostState as lost:
                if lost.args[1] is not None:
                    self.discard([node])
                    removed.append((self.path(node), str(lost.args[1])))
        return removed


class Checkpoint:
    """The stored states of one run, pass after pass.

    Parameters
    ----------
    store : StateStore
        Of this run: whoever opens it has made sure that data and parameters are those it was begun with.
    share : Share, optional
        Which spans to sweep, if not all that are missing.
    run : str
        What tells this run from those of other data and parameters. Their states are never taken for each other's, even
        if two runs begin in one place at the same moment.
    n_passes : int, optional
        How many the run makes, if that is known before.

    Attributes
    ----------
    n_swept : int
        Spans that this process had to sweep as its share.
    number : int
        Passes begun.
    """

    def __init__(
        self, store: StateStore, share: Share | None = None, run: str = "", n_passes: int | None = None
    ) -> None:
        self.store = store
        self.share = share
        self.run = run
        self.n_passes = n_passes
        self.n_swept = 0
        self.number = 0
        self._losses = 0

    def begin(self, name: str, recipe: Accumulator[Any], layout: PassLayout, source: RowBlocks) -> KeptPass:
        """The next pass; its folder is made if it is not there."""
        self.number += 1
        chosen = source.numbers if isinstance(source, ChosenBlocks) else None
        key = digest_of((self.run, recipe, layout.spans, layout.fan_in, chosen))
        start = f"{self.number:02d}-"
        folder = f"{start}{re.sub('[^a-z0-9]+', '-', name.lower()).strip('-')}-{key[:16]}"
        self._losses = 0
        others = [each for each in self.store.folders() if each.startswith(start) and each != folder]
        if others and self.share is not None:
            raise StorageError(
                f"pass {self.number} ({name}) of the checkpoint {self.store.describe()} was begun by a process that "
                "computes other bits than this one. Run all parts on the same data, on machines of one kind, with the "
                f"same libraries; or begin anew: `spae checkpoint rm {self.store.describe()}`."
            )
        if others:
            warnings.warn(
                f"pass {self.number} ({name}) of the checkpoint {self.store.describe()} was begun by a process that "
                "computes other bits than this one, as another kind of machine does. This pass starts anew.",
                CheckpointWarning,
                stacklevel=2,
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
        return KeptPass(self.store, folder, key, MergeTree(len(layout.spans), layout.fan_in))

    def lost(self, kept: KeptPass, lost: LostState, recipe: Accumulator[Any]) -> None:
        """A state was not to be had: if it cannot be used, remove all such, and say so.

        Raises
        ------
        StorageError
            If that happens again and again.
        """
        self._losses += 1
        if self._losses > MOST_LOSSES:
            raise StorageError(
                f"the states stored in {self.store.describe()} keep getting lost. Check that disk, make sure that "
                "nothing else removes files there, and run again."
            )
        if lost.args[1] is None:
            return  # another run has merged it, or its folder was not listed whole
        for path, why in kept.without_unusable(recipe):
            warnings.warn(
                f"{self.store.describe()}/{path} cannot be used: {why}. Its rows are read again.",
                CheckpointWarning,
                stacklevel=2,
            )

    def end(self) -> None:
        """A pass is whole.

        Raises
        ------
        AllWhole
            If it is the last one, and this process does a part of the run.
        """
        if self.share is not None and self.share.number and self.number == self.n_passes:
            raise AllWhole

    def lacking(self, name: str, kept: KeptPass) -> Lacking:
        """What the pass at hand lacks."""
        n_spans = kept.tree.n_spans
        missing = set(range(n_spans)) - kept.tree.covered(kept.stored())
        return Lacking(name, self.number, n_spans, tuple(sorted(missing)), self.n_swept)
