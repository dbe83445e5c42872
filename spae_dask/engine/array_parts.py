"""A run that the jobs of an array share: the spans of each part, and the spans that a pass still misses. Pure.

The two exceptions here pass through the strategies, which are written for one process that finishes every pass. A
return value would need a second way out of every strategy.
"""

from dataclasses import dataclass


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
