"""Cut of a pass into spans, and the bytes that it holds. Pure."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from spae_dask.blocks import (
    LazyRowBlocks,
    RowBlocks,
    largest_block_nbytes,
    largest_block_rows,
    nbytes_of_rows,
    stored_entries,
    total_nbytes,
)
from spae_dask.passes.accumulators.base import Accumulator, merge_scratch_nbytes, scratch_nbytes
from spae_dask.passes.accumulators.by_columns import ByColumns
from spae_dask.passes.accumulators.read_sum import sparse_sum_nbytes
from spae_dask.passes.accumulators.sparse import PANEL_ROWS, PANEL_STORED, flops_per_sparse_row, sparse_scratch
from spae_dask.passes.memory import Footprint
from spae_dask.passes.spans import Span, cut_spans, fan_in_for, most_waiting


@dataclass
class Tally:
    """Passes made and bytes read so far."""

    passes: int = 0
    nbytes: int = 0

    def add(self, nbytes: int) -> None:
        """One more pass of so many decoded bytes."""
        self.passes += 1
        self.nbytes += nbytes


def _lazy_blocks_held(source: LazyRowBlocks, spans: Sequence[Span]) -> int:
    """Blocks there may be at once: all those of a span, while those of the span before are not yet released."""
    rows = max(source.bounds[span.last_block] - source.bounds[span.first_block] for span in spans)
    return -(-nbytes_of_rows(source, rows) // largest_block_nbytes(source)) * min(2, len(spans))


def write_footprint(source: RowBlocks, spans: Sequence[Span], unit_nbytes: int, n_selected: int) -> Footprint:
    """Bytes a task holds that encodes the rows of a span of ``source`` and writes units of ``unit_nbytes``."""
    block_rows = largest_block_rows(source)
    held = _lazy_blocks_held(source, spans) if isinstance(source, LazyRowBlocks) else 1
    return Footprint(
        block_nbytes=largest_block_nbytes(source),
        # sparse rows are copied out of their block; dense ones are seen through a view
        n_blocks_held=held + (stored_entries(source) is not None),
        read_nbytes=source.read_nbytes,
        # the selected columns as read, in float64 and scaled; the unit being filled, as stored and as read back
        work_nbytes=3 * 8 * block_rows * n_selected + 3 * unit_nbytes,
        state_nbytes=0,
        n_states_waiting=0,
        fan_in=1,
    )


@dataclass(frozen=True)
class PassLayout:
    """The cut of a pass.

    Attributes
    ----------
    spans : tuple of Span
        One task each.
    fan_in : int
        States merged by one task; 1 if nothing is merged.
    nbytes : int
        Decoded bytes read.
    flops : float
        Floating point operations.
    footprint : Footprint
        Bytes held.
    decodes_per_chunk : int
        Number of times that each chunk is decoded.
    prefetches : bool
        True if a task reads its next block while it works on the present one.
    """

    spans: tuple[Span, ...]
    fan_in: int
    nbytes: int
    flops: float
    footprint: Footprint
    decodes_per_chunk: int = 1
    prefetches: bool = False

    @classmethod
    def of(cls, source: RowBlocks, accumulator: Accumulator[Any]) -> "PassLayout":
        """Lay out a pass; depends on the data's shape, what of it is stored, and the state's size only."""
        n, d = source.shape
        stored = stored_entries(source)
        lazy = isinstance(source, LazyRowBlocks)
        by_columns = accumulator if isinstance(accumulator, ByColumns) else None
        one_state = by_columns.nbytes_of_groups(0, 1) if by_columns is not None else accumulator.state_nbytes
        spans = cut_spans(
            source.bounds,
            d * source.dtype.itemsize,
            one_state,
            blocks_are_tasks=lazy,
            offsets=None if stored is None else stored.offsets,
        )
        fan_in = fan_in_for(one_state) if len(spans) > 1 else 1
        largest = largest_block_nbytes(source)
        if isinstance(source, LazyRowBlocks):
            held = _lazy_blocks_held(source, spans)
        else:  # one, and the next one coming
            held = min(max(span.last_block - span.first_block for span in spans), 1 if source.in_process else 2)
        state_nbytes = one_state
        if by_columns is not None:
            state_nbytes = max(by_columns.nbytes_of_rows(span.first_row, span.last_row) for span in spans)
        work, flops = scratch_nbytes(accumulator, largest_block_rows(source)), accumulator.flops_per_row
        if stored is not None:
            panel_rows = min(PANEL_ROWS, largest_block_rows(source))
            panel_stored = min(max(PANEL_STORED, d), round(panel_rows * d * stored.density))
            work = max(sparse_scratch(accumulator, panel_rows, panel_stored, d), sparse_sum_nbytes(panel_stored))
            flops = flops_per_sparse_row(accumulator, stored.density)
        footprint = Footprint(
            block_nbytes=largest,
            n_blocks_held=held,
            read_nbytes=source.read_nbytes,
            work_nbytes=work,
            state_nbytes=state_nbytes,
            n_states_waiting=_n_waiting(len(spans), fan_in, accumulator.state_nbytes / max(1, state_nbytes)),
            fan_in=fan_in,
            n_spans=len(spans),
            merge_nbytes=merge_scratch_nbytes(accumulator),
        )
        decodes = 1 if by_columns is not None else getattr(source, "decodes_per_chunk", 1)
        return cls(spans, fan_in, total_nbytes(source), flops * n, footprint, decodes, held > 1 and not lazy)


def _n_waiting(n_spans: int, fan_in: int, whole: float) -> int:
    """States of a span that wait on one worker to be merged, at most.

    If the state of all rows is ``whole`` times that of a span, merged states grow: all that wait are parts of two.
    """
    if fan_in == 1:
        return 0
    return min(n_spans, max(most_waiting(n_spans, fan_in), math.ceil(2 * whole) if whole > 1 else 0))
