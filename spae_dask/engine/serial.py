"""The reference runner: spans one after another, merged in the tree as they come, in this thread."""

import time
from typing import Any, TypeVar

from spae_dask.accumulators.base import Accumulator
from spae_dask.blocks import RowBlocks, nbytes_of_rows
from spae_dask.engine.events import PassEnded, PassStarted, RowsDone, Watcher, ignore
from spae_dask.engine.layout import PassLayout, Tally
from spae_dask.engine.spans import Span, merge_levels
from spae_dask.engine.sweep import Swept, merge_swept, sweep, unchecked
from spae_dask.engine.threads import one_blas_thread
from spae_dask.engine.work import SpanWork

Result = TypeVar("Result")


class SerialRunner:
    """Runs passes over ``source`` one span after another.

    Parameters
    ----------
    source : RowBlocks
        The matrix.
    watch : callable
        Receives events.

    Attributes
    ----------
    tally : Tally
        Passes made and bytes read so far.
    """

    def __init__(self, source: RowBlocks, watch: Watcher = ignore) -> None:
        self.source = source
        self.watch = watch
        self.tally = Tally()

    def run_pass(self, accumulator: Accumulator[Result], name: str = "pass") -> Result:
        """Sweep the source once and return what ``accumulator`` makes of it."""
        layout = PassLayout.of(self.source, accumulator)
        began = time.perf_counter()
        self.watch(PassStarted(name, len(layout.spans), self.source.shape[0], layout.nbytes))
        with one_blas_thread():
            depth = len(merge_levels(len(layout.spans), layout.fan_in))
            swept = self._sweep_tree(accumulator, layout, depth, 0)
            with unchecked():
                result = accumulator.result(swept.state)
        self.tally.add(layout.nbytes)
        self.watch(PassEnded(name, time.perf_counter() - began, swept.read_seconds, swept.compute_seconds))
        return result

    def _sweep_tree(self, accumulator: Accumulator[Any], layout: PassLayout, level: int, first: int) -> Swept:
        """The state at ``level`` of the merge tree that starts at span ``first``: two states a level are held."""
        if level == 0:
            return sweep(self.source, accumulator, layout.spans[first], prefetch=False, watch=self._rows_done)
        stride = layout.fan_in ** (level - 1)
        firsts = range(first, min(first + stride * layout.fan_in, len(layout.spans)), stride)
        return merge_swept(accumulator, (self._sweep_tree(accumulator, layout, level - 1, i) for i in firsts))

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
