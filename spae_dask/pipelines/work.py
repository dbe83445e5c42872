"""Objects that a step works with, and the result it returns."""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from spae_dask.blocks import RowBlocks
from spae_dask.passes.events import Event
from spae_dask.passes.plan import Plan, Resources
from spae_dask.toml.lines import KeyPath


class Target(Protocol):
    """Execution target of passes.

    Attributes
    ----------
    memory : str or None
        Memory limit of each process.
    """

    @property
    def memory(self) -> str | None: ...

    def ready(self, source: RowBlocks) -> AbstractContextManager[None]:
        """Have the dask client that suits the data, for a ``with`` block."""
        ...

    def planned_resources(self, source: RowBlocks) -> AbstractContextManager[Resources | None]:
        """Yield the planned resources of a run, without starting it; None if ``ready`` gives no others."""
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
    """Execution target of a run, and receivers of its progress and messages. All steps share them.

    Attributes
    ----------
    where : Target
        Threads, processes or a cluster.
    progress : Progress
        Receiver of the progress of passes.
    say : Say
        Receiver of messages.
    """

    where: Target
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
        Execution target of the step, and receivers of its progress and messages.
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
    """Result of a step, apart from its outputs.

    Attributes
    ----------
    text : str
        Text for people.
    document : dict
        Content for JSON.
    """

    text: str
    document: dict[str, Any]
