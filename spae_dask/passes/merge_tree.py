"""The fixed tree in which the states of spans are merged. Pure."""

from collections.abc import Set
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

Node: TypeAlias = tuple[int, int]
"""Level and number: ``(0, i)`` is the state of span i, ``(1, 0)`` the merged state of the first ``fan_in`` spans."""


@dataclass(frozen=True)
class MergeTree:
    """The tree over ``n_spans`` spans: each node above the leaves merges the next ``fan_in`` of the level below.

    Parameters
    ----------
    n_spans : int
        Number of leaves.
    fan_in : int
        Number of states merged into one.
    """

    n_spans: int
    fan_in: int

    @cached_property
    def widths(self) -> tuple[int, ...]:
        """Number of nodes of each level; one in the last."""
        widths = [self.n_spans]
        while widths[-1] > 1:
            widths.append(-(-widths[-1] // self.fan_in))
        return tuple(widths)

    @property
    def root(self) -> Node:
        """The state of all rows."""
        return len(self.widths) - 1, 0

    def has(self, node: Node) -> bool:
        """Tell whether there is such a node."""
        level, number = node
        return 0 <= level < len(self.widths) and 0 <= number < self.widths[level]

    def children(self, node: Node) -> tuple[Node, ...]:
        """Children of a node above the leaves, in order."""
        level, number = node
        first = number * self.fan_in
        return tuple((level - 1, i) for i in range(first, min(first + self.fan_in, self.widths[level - 1])))

    def parent(self, node: Node) -> Node:
        """Parent of a node."""
        level, number = node
        return level + 1, number // self.fan_in

    def spans(self, node: Node) -> range:
        """Spans below a node."""
        level, number = node
        stride = self.fan_in**level
        return range(number * stride, min((number + 1) * stride, self.n_spans))

    def covered(self, stored: Set[Node]) -> frozenset[int]:
        """Spans below stored nodes."""
        return frozenset(span for node in stored for span in self.spans(node))

    def outdated(self, stored: Set[Node]) -> list[Node]:
        """Stored nodes below other stored nodes."""
        return [node for node in stored if not stored.isdisjoint(self.holders(node)[1:])]

    def holders(self, node: Node) -> tuple[Node, ...]:
        """A node and all nodes above it, from below."""
        found = [node]
        while found[-1] != self.root:
            found.append(self.parent(found[-1]))
        return tuple(found)

    def tops(self, ready: Set[int]) -> list[Node]:
        """The highest nodes all of whose spans are among ``ready``, in order of spans."""
        found, start = [], 0
        while start < self.n_spans:
            if start not in ready:
                start += 1
                continue
            node = (0, start)
            while node != self.root:
                above = self.parent(node)
                spans = self.spans(above)
                if spans.start != start or not all(span in ready for span in spans):
                    break
                node = above
            found.append(node)
            start = self.spans(node).stop
        return found
