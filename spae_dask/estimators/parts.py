"""A fit in parts: processes that know nothing of each other sweep their parts of the passes into one checkpoint."""

from dataclasses import dataclass
from typing import Any

from spae_dask.estimators.sparse_encoder import SparseEncoder
from spae_dask.passes.checkpoint import ArrayPart, MissingSpans, PassesComplete, PassIncomplete


@dataclass(frozen=True)
class PartDone:
    """Work that is left after a part.

    Attributes
    ----------
    lacking : MissingSpans or None
        Missing spans of the pass at hand; None if all passes are complete.
    of : int
        Into how many parts the spans are cut.
    """

    lacking: MissingSpans | None
    of: int

    @property
    def missing(self) -> tuple[int, ...]:
        """Numbers of the parts of which spans are missing."""
        return () if self.lacking is None else parts_missing(self.lacking, self.of)


def parts_missing(lacking: MissingSpans, of: int) -> tuple[int, ...]:
    """Numbers of the parts that have spans which a pass lacks."""
    missing = set(lacking.missing)
    return tuple(i for i in range(1, of + 1) if not missing.isdisjoint(ArrayPart(i, of).spans(lacking.n_spans)))


def fit_part(encoder: SparseEncoder, x: Any, part: ArrayPart) -> PartDone:
    """Make a part of every pass that can begin. A pass begins when the one before it is complete.

    After the last pass no search is made: `spae fit-finish` makes it.

    Done again it does nothing, and that is no error: a scheduler may start a job anew that had done its work.

    Parameters
    ----------
    encoder : SparseEncoder
        Encoder whose ``checkpoint`` is a ``CheckpointAt`` with this part.
    x : object
        Anything :func:`spae_dask.open_matrix` opens.
    part : ArrayPart
        Part of the spans to reduce.
    """
    try:
        encoder.fit(x)
    except PassIncomplete as found:
        return PartDone(found.args[0], part.of)
    except PassesComplete:
        return PartDone(None, part.of)
    return PartDone(None, part.of)


def listed(parts: tuple[int, ...]) -> str:
    """``part 3``, or ``parts 3, 5 and 8``; the first few of many."""
    if len(parts) == 1:
        return f"part {parts[0]}"
    few = [str(each) for each in parts[:8]]
    if len(parts) > len(few):
        return f"parts {', '.join(few)} and {len(parts) - len(few)} more"
    return f"parts {', '.join(few[:-1])} and {few[-1]}"
