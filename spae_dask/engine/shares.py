"""A run that several processes share, each a part of every pass: whose the spans are, and what is lacking. Pure."""

from dataclasses import dataclass


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
