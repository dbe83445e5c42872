"""The reference runner: spans one after another, merged in the tree as they come, in this thread."""

import time
from dataclasses import dataclass
from typing import Any, TypeVar

from spae_dask.blocks import RowBlocks, nbytes_of_rows
from spae_dask.passes.accumulators.base import Accumulator
from spae_dask.passes.accumulators.codes import with_codes
from spae_dask.passes.checkpoint import Checkpoint, MissingNode, PassCheckpoint
from spae_dask.passes.events import PassEnded, PassStarted, Resumed, RowsDone, Watcher, ignore
from spae_dask.passes.layout import PassLayout, Tally
from spae_dask.passes.merge_tree import MergeTree, Node
from spae_dask.passes.orientation import CODES, RowCount, joined, oriented, read_before
from spae_dask.passes.spans import Span
from spae_dask.passes.sweep import BlockWatcher, SameRows, Swept, merge_swept, sweep, unchecked
from spae_dask.passes.tasks import SpanWork
from spae_dask.passes.threads import one_blas_thread

Result = TypeVar("Result")


@dataclass(frozen=True)
class _Pass:
    """One pass as it is made."""

    source: RowBlocks
    recipe: Accumulator[Any]
    layout: PassLayout
    tree: MergeTree
    kept: PassCheckpoint | None
    stored: frozenset[Node]
    watch: BlockWatcher


class SerialRunner:
    """Runs passes over ``source`` one span after another.

    Parameters
    ----------
    source : RowBlocks
        The matrix.
    watch : callable
        Receives events.
    checkpoint : Checkpoint, optional
        Keeps the states of spans; a run that was cut short goes on from them.

    Attributes
    ----------
    tally : Tally
        Passes made and bytes read so far.
    """

    def __init__(self, source: RowBlocks, watch: Watcher = ignore, checkpoint: Checkpoint | None = None) -> None:
        self.source = source
        self.watch = watch
        self.checkpoint = checkpoint
        self.tally = Tally()
        self._same_rows = SameRows(source)

    def run_pass(self, accumulator: Accumulator[Result], name: str = "pass") -> Result:
        """Sweep the source once and return what ``accumulator`` makes of it.

        Where it is read by columns, cross products take a read before this one.
        """
        before = read_before(self.source, accumulator)
        if before is not None:
            accumulator = with_codes(accumulator, self.run_pass(before, CODES))
        layout = PassLayout.of(*oriented(self.source, accumulator))
        began = time.perf_counter()
        self.watch(PassStarted(name, len(layout.spans), self.source.shape[0], layout.nbytes))
        tree = MergeTree(len(layout.spans), layout.fan_in)
        source, recipe = oriented(self.source, self._same_rows.recipe(accumulator))
        count = RowCount(source.shape[0] // self.source.shape[0])

        def watch(n_rows: int, nbytes: int) -> None:
            self.watch(RowsDone(count.more(n_rows), nbytes))

        kept = None if self.checkpoint is None else self.checkpoint.begin(name, recipe, layout, self.source)
        stored = frozenset() if kept is None else kept.stored()
        if done := tree.covered(stored):
            n_rows = sum(layout.spans[i].n_rows for i in done)
            self.watch(Resumed(len(done), tree.n_spans, count.more(n_rows), nbytes_of_rows(source, n_rows)))
        with one_blas_thread():
            swept = self._state_of(tree.root, _Pass(source, recipe, layout, tree, kept, stored, watch))
            with unchecked():
                result = accumulator.result(self._same_rows.checked(joined(recipe, swept.state), name))
        self.tally.add(layout.nbytes)
        self.watch(PassEnded(name, time.perf_counter() - began, swept.read_seconds, swept.compute_seconds))
        return result

    def _state_of(self, node: Node, job: "_Pass") -> Swept:
        """The state of a node of the merge tree: two states a level are held."""
        if job.kept is not None and node in job.stored:
            try:
                return job.kept.load(node, job.recipe)
            except MissingNode as missing:
                assert self.checkpoint is not None
                self.checkpoint.found_missing(job.kept, missing, job.recipe)
        level, number = node
        children = job.tree.children(node) if level else ()
        if children:
            swept = merge_swept(job.recipe, (self._state_of(each, job) for each in children))
        else:
            swept = sweep(job.source, job.recipe, job.layout.spans[number], prefetch=False, watch=job.watch)
        if job.kept is not None:
            job.kept.save(node, swept)
            job.kept.discard(children)
        return swept

    def run_spans(self, work: SpanWork[Result], spans: tuple[Span, ...], name: str = "pass") -> list[Result]:
        """Run ``work`` on every span and return the results in order."""
        began = time.perf_counter()
        n_rows = sum(span.n_rows for span in spans)
        nbytes = nbytes_of_rows(self.source, n_rows)
        self.watch(PassStarted(name, len(spans), n_rows, nbytes))
        results = []
        with one_blas_thread():
            for span in spans:
                results.append(work(self.source, span))
                self._rows_done(span.n_rows, nbytes_of_rows(self.source, span.n_rows))
        self.tally.add(nbytes)
        seconds = time.perf_counter() - began
        self.watch(PassEnded(name, seconds, 0.0, seconds))
        return results

    def _rows_done(self, n_rows: int, nbytes: int) -> None:
        self.watch(RowsDone(n_rows, nbytes))
