"""The dask runner: passes on threads of this process or on a cluster's workers.

It decides what is swept and what is loaded; `task_graphs` makes the tasks of that, and `computing` has them done.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, TypeVar

from distributed import Client

from spae_dask.accumulators.base import Accumulator, State
from spae_dask.blocks import RowBlocks, nbytes_of_rows
from spae_dask.engine.checkpoint import Checkpoint
from spae_dask.engine.computing import Computing
from spae_dask.engine.events import Resumed, Watcher, ignore
from spae_dask.engine.kept_pass import KeptPass, LostState
from spae_dask.engine.layout import PassLayout, Tally
from spae_dask.engine.merge_tree import MergeTree, Node
from spae_dask.engine.reruns import marks_reruns, runs_again
from spae_dask.engine.same_rows import SameRows
from spae_dask.engine.shares import NotWhole
from spae_dask.engine.spans import Span
from spae_dask.engine.sweep import unchecked
from spae_dask.engine.task_graphs import Tasks
from spae_dask.engine.threads import one_blas_thread
from spae_dask.engine.work import SpanWork
from spae_dask.errors import DataChanged, SpaeError

Result = TypeVar("Result")


class DaskRunner:
    """Runs passes over ``source`` on dask.

    Parameters
    ----------
    source : RowBlocks
        The matrix.
    client : distributed.Client or None
        Where to run; ``None`` is the threaded scheduler of this process.
    tasks_per_worker : int
        Span tasks that run at once in one process.
    watch : callable
        Receives events, from one thread at a time.
    checkpoint : Checkpoint, optional
        Keeps the states of spans; a run that was cut short goes on from them, and of a worker that is lost nothing is
        read again that it has stored.
    refuse_changed : callable, optional
        Called after each pass; raises ``DataChanged`` if what is stored is not what it was when the run began.

    Attributes
    ----------
    tally : Tally
        Passes made and bytes read so far.
    """

    def __init__(
        self,
        source: RowBlocks,
        client: Client | None,
        tasks_per_worker: int,
        watch: Watcher = ignore,
        checkpoint: Checkpoint | None = None,
        refuse_changed: Callable[[], None] | None = None,
    ) -> None:
        self.checkpoint = checkpoint
        self._refuse_changed = refuse_changed or (lambda: None)
        self._same_rows = SameRows(source)
        self.source = source
        self.client = client
        self.tally = Tally()
        self._computing = Computing(source, client, tasks_per_worker, watch)
        self._tasks = Tasks(source, tasks_per_worker, self._computing.rows_done if client is None else None)

    def run_pass(self, accumulator: Accumulator[Result], name: str = "pass") -> Result:
        """Sweep the source once and return what ``accumulator`` makes of it."""
        state = self.run_state(accumulator, name)
        with one_blas_thread(), unchecked():
            return accumulator.result(state)

    def run_state(self, accumulator: Accumulator[Any], name: str = "pass") -> State:
        """Sweep the source once and return the state of all its rows, to which more can be added."""
        layout = PassLayout.of(self.source, accumulator)
        tree = MergeTree(len(layout.spans), layout.fan_in)
        recipe = self._same_rows.recipe(accumulator)
        kept, state = None, None
        if self.checkpoint is not None:
            kept = self._kept(self.checkpoint.begin(name, recipe, layout, self.source))
        while state is None:
            try:
                with self._on_same_data():
                    state = self._run_kept(recipe, name, layout, tree, kept)
            except LostState as lost:
                assert self.checkpoint is not None
                assert kept is not None
                self.checkpoint.lost(kept, lost, recipe)
                kept = replace(kept, fresh=False)
        state = self._same_rows.checked(state, name)
        self.tally.add(layout.nbytes)
        if self.checkpoint is not None:
            self.checkpoint.end()
        return state

    def run_spans(self, work: SpanWork[Result], spans: tuple[Span, ...], name: str = "pass") -> list[Result]:
        """Run ``work`` on every span and return the (small) results in order."""
        with self._on_same_data():
            results = list(self._computing.compute(name, self._tasks.of_work(work, spans, name)))
        self.tally.add(nbytes_of_rows(self.source, sum(span.n_rows for span in spans)))
        return results

    @contextmanager
    def _on_same_data(self) -> Iterator[None]:
        """End with ``DataChanged`` if data changed meanwhile, also where they changed to what cannot be read."""
        try:
            yield
        except (SpaeError, OSError, ArithmeticError) as error:
            try:
                self._refuse_changed()
            except DataChanged as changed:
                raise changed from error
            raise
        self._refuse_changed()

    def _kept(self, kept: KeptPass) -> KeptPass:
        """The stored states of a pass as tasks are given them."""
        if self.client is None or not kept.fresh:
            return kept  # threads run no task again, and of a pass that is resumed each task looks
        return replace(kept, runs_again=runs_again) if marks_reruns(self.client) else replace(kept, fresh=False)

    def _run_kept(
        self, accumulator: Accumulator[Any], name: str, layout: PassLayout, tree: MergeTree, kept: KeptPass | None
    ) -> State:
        """Sweep what is not stored, or this process's share of it, and put all states together."""
        stored: frozenset[Node] = frozenset()
        if kept is not None:
            assert self.checkpoint is not None
            share, stored = self.checkpoint.share, kept.stored()
            missing = set(range(tree.n_spans)) - tree.covered(stored)
            if share is not None and missing:
                mine = missing.intersection(share.spans(tree.n_spans))
                self.checkpoint.n_swept += len(mine)
                if mine:
                    self._run_tree(accumulator, name, layout, tree, kept, stored, frozenset(mine))
                lacking = self.checkpoint.lacking(name, kept)
                if lacking.missing:
                    raise NotWhole(lacking)
                stored = kept.stored()
        state: State = self._run_tree(accumulator, name, layout, tree, kept, stored).state
        return state

    def _run_tree(
        self,
        accumulator: Accumulator[Any],
        name: str,
        layout: PassLayout,
        tree: MergeTree,
        kept: KeptPass | None,
        stored: frozenset[Node],
        only: frozenset[int] | None = None,
    ) -> Any:
        graph = self._tasks.of_pass(name, accumulator, layout, tree, kept, stored, only)
        done = tree.covered(stored)
        already = sum(layout.spans[i].n_rows for i in done)
        resumed = Resumed(len(done), tree.n_spans, already, nbytes_of_rows(self.source, already)) if done else None
        return self._computing.compute(name, graph, resumed)
