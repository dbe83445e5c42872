"""A place for several commands' work, one after the other, that starts processes at most once."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from types import TracebackType

from spae_dask.blocks import RowBlocks
from spae_dask.cli.place import Place
from spae_dask.cli.screen import Screen
from spae_dask.passes.plan import Plan, Resources


class HeldPlace:
    """Context manager: what the first step that needs processes starts serves the later ones, and ends with the block.

    Parameters
    ----------
    place : Place
        Target that the command line asks for.
    screen : Screen
        Console of the command.
    """

    def __init__(self, place: Place, screen: Screen) -> None:
        self.place = place
        self.screen = screen
        self._stack = ExitStack()
        self._held = False

    def __enter__(self) -> "HeldPlace":
        """Start nothing yet."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        """End what was started."""
        return self._stack.__exit__(kind, error, trace)

    @property
    def memory(self) -> str | None:
        """Memory limit of each process, as given."""
        return self.place.memory

    @contextmanager
    def ready(self, source: RowBlocks) -> Iterator[None]:
        """Have the active dask client that suits, for a ``with`` block."""
        if self.place.where(source) == "none":
            with self.place.ready(source, self.screen):
                yield  # a client that is held serves these data too
            return
        if not self._held:
            self._stack.enter_context(self.place.ready(source, self.screen))
            self._held = True
        yield

    @contextmanager
    def imagined(self, source: RowBlocks) -> Iterator[Resources | None]:
        """Yield the planned resources of a run; None if the active client or this process does the work."""
        with nullcontext() if self._held else self.place.imagined(source, self.screen) as resources:
            yield resources

    def named(self, plan: Plan, source: RowBlocks) -> Plan:
        """The plan, saying where it would run."""
        return self.place.named(plan, source)
