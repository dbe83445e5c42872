"""The stored states of one pass, as its tasks see them. Pure: the store is handed in.

A task stores the state of its span as soon as the span is reduced. The merged state of a node replaces the states of
its children, so the store never holds more than one state for a span. A state always has the same bits. Therefore two
runs may store the same state, and one run may remove what the other has merged.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from spae_dask.accumulators.base import Accumulator
from spae_dask.engine.merge_tree import MergeTree, Node
from spae_dask.engine.state_bytes import UnusableState, read_state, state_bytes
from spae_dask.engine.state_store import StateStore
from spae_dask.engine.sweep import Swept

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
