"""The stored states of one pass, as its tasks see them. Pure: the store is handed in.

The state of a span is stored as soon as it is swept. When all the states that the merge tree puts together are there,
the merged one takes their place: there is never more than one state for a span. A state always has the same bits, so it
does no harm if two runs store it, or one takes away what the other has merged.

A task that dask runs again, since the worker that had its state is lost, finds that state in the store, or hears that
it is part of a merged one: then it gives a word on that instead of a state (`Merged`), which the task that merges the
states takes as a sign to load its own.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

from spae_dask.accumulators.base import Accumulator
from spae_dask.engine.merge_tree import MergeTree, Node
from spae_dask.engine.state_bytes import UnusableState, read_state, state_bytes
from spae_dask.engine.state_store import StateStore
from spae_dask.engine.sweep import Swept

STATE_NAME = re.compile(r"(\d{1,2})-(\d{5,})\.state")


class LostState(Exception):
    """A state that was listed is not there any more, or cannot be used: ``args`` are its node and why, if there was."""


@dataclass(frozen=True)
class Merged:
    """Stands for a state that is part of a stored one.

    Attributes
    ----------
    into : tuple of int
        The node whose state is stored.
    """

    into: Node


Found: TypeAlias = Swept | Merged
"""What a task makes of a node, or finds."""


def _never() -> bool:
    return False


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
    fresh : bool
        Whether nothing was stored when this process began the pass, so that a task looks in vain when it is first run.
    runs_again : callable
        Asked by a task whether it was run before; picklable.
    """

    store: StateStore
    folder: str
    key: str
    tree: MergeTree
    fresh: bool = False
    runs_again: Callable[[], bool] = _never

    def path(self, node: Node) -> str:
        """Of the file of a node."""
        return f"{self.folder}/{node[0]}-{node[1]:05d}.state"

    def stored(self) -> frozenset[Node]:
        """Nodes that are stored; those that a stored one above them holds are removed."""
        known = self._listed()
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

    def load_or_tell(self, node: Node, recipe: Accumulator[Any]) -> Found:
        """A stored state, or what it was merged into since it was listed.

        Raises
        ------
        LostState
            If it is in neither, or cannot be used.
        """
        try:
            return self.load(node, recipe)
        except LostState:
            holder = self._holder(node)
            if holder in (None, node):
                raise
            return Merged(holder)

    def may_have(self) -> bool:
        """Whether the task that asks could find its state: it costs a request to look."""
        return not self.fresh or self.runs_again()

    def find(self, node: Node, recipe: Accumulator[Any]) -> Found | None:
        """The state of a node if it is stored, or what it was merged into; None if there is none that can be used."""
        holder = self._holder(node)
        if holder is None:
            return None
        if holder != node:
            return Merged(holder)
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

    def _holder(self, node: Node) -> Node | None:
        """The highest stored node that has the rows of ``node``; one listing, where to open each were more requests."""
        return max(self._listed().intersection(self.tree.holders(node)), default=None)

    def _listed(self) -> frozenset[Node]:
        found = {(int(m[1]), int(m[2])) for name in self.store.files(self.folder) if (m := STATE_NAME.fullmatch(name))}
        return frozenset(node for node in found if self.tree.has(node))
