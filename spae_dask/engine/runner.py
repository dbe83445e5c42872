"""The dask runner: passes in threads of this process or on the workers of a cluster.

It decides what a process makes of a pass; `drive` has it made.
"""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from distributed import Client

from spae_dask.blocks import RowBlocks, nbytes_of_rows
from spae_dask.engine.drive import Calls, Cluster, Threads, TreePass
from spae_dask.errors import CheckpointWarning, DataChanged, SpaeError, StorageError, warn
from spae_dask.passes.accumulators.base import Accumulator, State
from spae_dask.passes.accumulators.codes import with_codes
from spae_dask.passes.checkpoint import Checkpoint, MissingNode, PassIncomplete
from spae_dask.passes.chosen import choose_blocks
from spae_dask.passes.events import PassEnded, PassStarted, Resumed, RowsDone, RunAgain, Watcher, ignore
from spae_dask.passes.layout import PassLayout, Tally
from spae_dask.passes.merge_tree import MergeTree, Node
from spae_dask.passes.orientation import CODES, RowCount, joined, oriented, read_before
from spae_dask.passes.spans import Span
from spae_dask.passes.sweep import SameRows, Swept, unchecked
from spae_dask.passes.tasks import SpanWork
from spae_dask.passes.threads import one_blas_thread

Result = TypeVar("Result")


class DaskRunner:
    """Runs passes over ``source`` on dask.

    Parameters
    ----------
    source : RowBlocks
        The matrix.
    client : distributed.Client or None
        Client of the cluster that runs the passes; ``None`` for threads of this process.
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
        self._tasks_per_worker = tasks_per_worker
        self._watch = watch
        self._watch_lock = threading.Lock()
        self._count = RowCount(1)

    def run_pass(self, accumulator: Accumulator[Result], name: str = "pass") -> Result:
        """Read the source once and return the result of ``accumulator``.

        Where it is read by columns, cross products take a read before this one.
        """
        before = read_before(self.source, accumulator)
        if before is not None:
            accumulator = with_codes(accumulator, self.run_pass(before, CODES))
        state = self.run_state(accumulator, name)
        with one_blas_thread(), unchecked():
            return accumulator.result(state)

    def run_state(self, accumulator: Accumulator[Any], name: str = "pass") -> State:
        """Read the source once and return the state of all its rows, to which more rows can be added.

        An equal run that ends removes the checkpoint that both use. This run then goes on without one.
        """
        try:
            return self._run_state(accumulator, name)
        except StorageError:
            if self.checkpoint is None or self.checkpoint.part is not None or not self.checkpoint.is_gone():
                raise
            warn(
                f"the checkpoint {self.checkpoint.store.describe()} was removed during the run, probably by an equal "
                "run that ended. This run goes on without it.",
                CheckpointWarning,
            )
            self.checkpoint = None
            return self._run_state(accumulator, name)

    def _run_state(self, accumulator: Accumulator[Any], name: str) -> State:
        layout = PassLayout.of(*oriented(self.source, accumulator))
        source, recipe = oriented(self.source, self._same_rows.recipe(accumulator))
        job = TreePass(name, recipe, layout, MergeTree(len(layout.spans), layout.fan_in))
        if self.checkpoint is not None:
            kept = self.checkpoint.begin(name, recipe, layout, self.source)
            job = replace(job, kept=kept, stored=kept.stored())
        with self._on_same_data():
            (swept,) = self._run(source, self._with_part(source, job))
        state = self._same_rows.checked(joined(recipe, swept.state), name)
        self.tally.add(layout.nbytes)
        if self.checkpoint is not None:
            self.checkpoint.end()
        return state

    def run_blocks(self, numbers: npt.NDArray[np.intp], accumulator: Accumulator[Result], name: str) -> Result:
        """Read some row blocks, in the order of their numbers. All calls together count as one pass."""
        source = choose_blocks(self.source, numbers)
        runner = DaskRunner(
            source, self.client, self._tasks_per_worker, self._watch, self.checkpoint, self._refuse_changed
        )
        result = runner.run_pass(accumulator, name)
        self.tally.passes, self.tally.nbytes = 1, self.tally.nbytes + runner.tally.nbytes
        return result

    def run_spans(self, work: SpanWork[Result], spans: tuple[Span, ...], name: str = "pass") -> list[Result]:
        """Run ``work`` on every span and return the (small) results in order."""
        calls = self._calls(self.source)
        with self._on_same_data(), self._told(self.source, name, spans):
            if self.client is None:
                results = Threads(calls).run_work(work, spans, name)
            else:
                results = Cluster(self.client, calls, name, len(spans), self._emit).run_work(work, spans)
        self.tally.add(nbytes_of_rows(self.source, sum(span.n_rows for span in spans)))
        return list(results)

    def _with_part(self, source: RowBlocks, job: TreePass) -> TreePass:
        """Make the part of a pass that this process is to make, if it is one; give the pass with all that is stored.

        Raises
        ------
        PassIncomplete
            If spans of other parts are missing.
        """
        missing = frozenset(range(job.tree.n_spans)) - job.tree.covered(job.stored)
        if self.checkpoint is None or self.checkpoint.part is None or job.kept is None or not missing:
            return job
        mine = missing.intersection(self.checkpoint.part.spans(job.tree.n_spans))
        self.checkpoint.n_swept += len(mine)
        if mine:
            ends = frozenset(job.tree.tops(job.tree.covered(job.stored) | mine)) - job.stored
            self._run(source, replace(job, ends=ends))
        job = replace(job, stored=job.kept.stored())
        left = self.checkpoint.missing(job.name, job.tree, job.stored)
        if left.missing:
            raise PassIncomplete(left)
        return job

    def _run(self, source: RowBlocks, job: TreePass) -> list[Swept]:
        """Give the states of the targets of a pass over the source as it is oriented."""
        done = job.tree.covered(job.stored)
        wanted = done.union(*map(job.tree.spans, job.targets))
        calls = self._calls(source)

        def stored_now(error: MissingNode) -> frozenset[Node]:
            assert self.checkpoint is not None
            assert job.kept is not None
            self.checkpoint.found_missing(job.kept, error, job.recipe)
            return job.kept.stored()

        spans = job.layout.spans
        with self._told(source, job.name, [spans[i] for i in wanted], [spans[i] for i in done]) as ended:
            if self.client is not None:
                cluster = Cluster(self.client, calls, job.name, len(wanted) - len(done), self._emit)
                ended += cluster.run_pass(job, stored_now)
                return ended
            while True:
                try:
                    ended += Threads(calls).run_pass(job)
                    return ended
                except MissingNode as error:
                    job = replace(job, stored=stored_now(error))

    def _calls(self, source: RowBlocks) -> Calls:
        return Calls.over(source, self._tasks_per_worker, self._rows_done if self.client is None else None)

    @contextmanager
    def _told(
        self, source: RowBlocks, name: str, spans: Sequence[Span], done: Sequence[Span] = ()
    ) -> Iterator[list[Swept]]:
        """Tell the watcher that a pass begins and ends; the seconds of the pass are those of the list's states."""
        n_rows, pieces = sum(span.n_rows for span in spans), source.shape[0] // self.source.shape[0]
        self._count = RowCount(pieces)
        self._emit(PassStarted(name, len(spans), n_rows // pieces, nbytes_of_rows(source, n_rows)))
        if done:
            already = sum(span.n_rows for span in done)
            self._emit(Resumed(len(done), len(spans), already, nbytes_of_rows(source, already)))
        began = time.perf_counter()
        ended: list[Swept] = []
        yield ended
        read, compute = sum(each.read_seconds for each in ended), sum(each.compute_seconds for each in ended)
        self._emit(PassEnded(name, time.perf_counter() - began, read, compute))

    @contextmanager
    def _on_same_data(self) -> Iterator[None]:
        """End with ``DataChanged`` if data changed meanwhile, also if what they changed to cannot be read."""
        try:
            yield
        except (SpaeError, OSError, ArithmeticError) as error:
            try:
                self._refuse_changed()
            except DataChanged as changed:
                raise changed from error
            raise
        self._refuse_changed()

    def _rows_done(self, n_rows: int, nbytes: int) -> None:
        self._emit(RowsDone(n_rows, nbytes))

    def _emit(self, event: PassStarted | Resumed | RowsDone | RunAgain | PassEnded) -> None:
        with self._watch_lock:
            if isinstance(event, Resumed | RowsDone):
                event = replace(event, n_rows=self._count.more(event.n_rows))
            self._watch(event)
