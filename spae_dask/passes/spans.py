"""Spans and the merge tree: how a pass is cut into tasks. Pure; the same data and state always give the same cut.

Spans never depend on the number of workers, and states are merged in a fixed tree over span numbers, so a result has
the same bits on one worker and on a hundred.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

from spae_dask.passes.options import current_options


@dataclass(frozen=True)
class Span:
    """A run of consecutive row blocks that one task sweeps into one state.

    Attributes
    ----------
    first_block, last_block : int
        Blocks ``first_block`` to ``last_block - 1``.
    first_row, last_row : int
        Rows ``first_row`` to ``last_row - 1``.
    """

    recipe_kind: ClassVar[str] = "spae_dask.engine.spans.Span"

    first_block: int
    last_block: int
    first_row: int
    last_row: int

    @property
    def n_rows(self) -> int:
        """Rows in the span."""
        return self.last_row - self.first_row


def cut_spans(
    bounds: Sequence[int],
    row_nbytes: int,
    state_nbytes: int,
    blocks_are_tasks: bool = False,
    offsets: Sequence[int] | None = None,
) -> tuple[Span, ...]:
    """Cut row blocks into spans of about equal bytes.

    Parameters
    ----------
    bounds : sequence of int
        Row bounds of the blocks, ``n_blocks + 1`` of them.
    row_nbytes : int
        Decoded bytes of a row.
    state_nbytes : int
        Bytes of the state a span is swept into.
    blocks_are_tasks : bool
        True if the blocks are results of tasks of their own. A span is then one block, unless states are larger than
        blocks: a scheduler computes the blocks of a long span here and there, and well before they are wanted.
    offsets : sequence of int, optional
        Bytes before each bound, where rows are not all of ``row_nbytes``.

    Returns
    -------
    tuple of Span
        In row order; together they cover every block exactly once. None is longer than an equal share and one block.
    """
    # by rows or bytes, not by blocks: the chunks of a dask array may be of any lengths
    places, unit_nbytes = (bounds, row_nbytes) if offsets is None else (offsets, 1)
    total = places[-1] * unit_nbytes
    options = current_options()
    least = max(options.min_span_nbytes, least_of_states(total, state_nbytes))
    span_nbytes = max(state_nbytes if blocks_are_tasks else least, share_of(total), 1)
    n_spans = max(1, total // span_nbytes)
    # shares that end in one long block end in one cut
    cuts = [0]
    while places[cuts[-1]] < places[-1]:
        share = -(-(places[cuts[-1]] + 1) * n_spans // places[-1])  # the first that ends behind the last cut
        cuts.append(bisect_left(places, places[-1] * share // n_spans))
    return tuple(Span(first, last, bounds[first], bounds[last]) for first, last in pairwise(cuts))


def least_of_states(total: int, state_nbytes: int) -> int:
    """Bytes of a span below which its state is too large beside it.

    Data of few spans have more of them, each of a state's bytes at least, so that all threads are busy; together their
    states stay within ``few_states_nbytes``.
    """
    options = current_options()
    n_few = max(1, min(options.states_per_span, options.few_states_nbytes // max(1, state_nbytes)))
    return min(options.states_per_span * state_nbytes, max(state_nbytes, total // n_few))


def share_of(total: int) -> int:
    """Bytes of a span that keep a pass over so many bytes to its number of spans."""
    options = current_options()
    usual = -(-total // options.max_spans)
    return max(min(usual, options.large_span_nbytes), -(-total // max(options.max_spans, options.most_spans)))


def fan_in_for(state_nbytes: int) -> int:
    """Number of states that one task merges: many small ones, or two large ones."""
    return current_options().fan_in or (2 if state_nbytes > (32 << 20) else 8)


def most_waiting(n_states: int, fan_in: int) -> int:
    """Most states that wait to be merged if they come in order, the last child of a merge among them.

    The first ``i`` states are merged into as many as the sum of the digits of ``i`` to the base ``fan_in``.

    Examples
    --------
    >>> [most_waiting(n, 2) for n in (2, 3, 4, 5)]
    [2, 2, 3, 3]
    """
    before, most, place = n_states - 1, 0, 1
    while place <= before:  # the largest sum is that of the number itself, or of one that ends with the largest digits
        most = max(most, _sum_of_digits(before // place - 1, fan_in) + _sum_of_digits(place - 1, fan_in))
        place *= fan_in
    return 1 + max(most, _sum_of_digits(before, fan_in))


def _sum_of_digits(number: int, base: int) -> int:
    total = 0
    while number > 0:
        number, digit = divmod(number, base)
        total += digit
    return total
