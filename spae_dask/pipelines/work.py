"""What a step is handed to work with, and what it hands back."""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from spae_dask.blocks import RowBlocks
from spae_dask.engine.events import Event
from spae_dask.engine.plan import Plan, Resources
from spae_dask.toml.lines import KeyPath


class Where(Protocol):
    """Where passes run.

    Attributes
    ----------
    memory : str or None
        What each process may use.
    """

    @property
    def memory(self) -> str | None: ...

    def ready(self, source: RowBlocks) -> AbstractContextManager[None]:
        """Have the dask client that suits the data, for a ``with`` block."""
        ...

    def imagined(self, source: RowBlocks) -> AbstractContextManager[Resources | None]:
        """For a plan, which starts no processes: those a run would start; None where it has what ``ready`` gives."""
        ...

    def named(self, plan: Plan, source: RowBlocks) -> Plan:
        """The plan, saying where it would run."""
        ...


class Progress(Protocol):
    """Shows how far a pass has come."""

    def __call__(self, event: Event) -> None:
        """Take an event of the engine."""
        ...

    def begin(self, name: str) -> None:
        """Rows will come in."""
        ...

    def stand_at(self, rows: int, n_rows: int | None) -> None:
        """So many have, of so many if that is known."""
        ...

    def end(self) -> None:
        """All have."""
        ...


class Say(Protocol):
    """Told, a line at a time, what is being done."""

    def __call__(self, text: str, /) -> None: ...


@dataclass(frozen=True)
class Machinery:
    """What a run has, whichever step it is at.

    Attributes
    ----------
    where : Where
        Threads, processes or a cluster.
    progress : Progress
        Who watches passes.
    say : Say
        Who is told.
    """

    where: Where
    progress: Progress
    say: Say


@dataclass(frozen=True, eq=False)
class Work:
    """One step's share of it.

    Attributes
    ----------
    files : Mapping
        Path or URL of each input, by the key that names it.
    outputs : Mapping
        Path of each output, by suffix; what is there is the step's own and may be replaced.
    machinery : Machinery
        What it works with.
    """

    files: Mapping[KeyPath, str]
    outputs: Mapping[str, Path]
    machinery: Machinery

    @property
    def data(self) -> str:
        """Path or URL of the data."""
        return self.files[("data",)]


@dataclass(frozen=True)
class Result:
    """What came of a step, apart from its outputs.

    Attributes
    ----------
    text : str
        For people.
    document : dict
        For JSON.
    """

    text: str
    document: dict[str, Any]
