"""A fit in parts: processes that know nothing of each other sweep their shares of the spans into one checkpoint."""

from dataclasses import dataclass
from typing import Any

from spae_dask.engine.shares import AllWhole, Lacking, NotWhole, Share
from spae_dask.estimators.sparse_encoder import SparseEncoder


@dataclass(frozen=True)
class PartDone:
    """Work that is left after a part.

    Attributes
    ----------
    lacking : Lacking or None
        Missing spans of the pass at hand; None if all passes are complete.
    of : int
        Into how many parts the spans are cut.
    """

    lacking: Lacking | None
    of: int

    @property
    def missing(self) -> tuple[int, ...]:
        """Numbers of the parts of which spans are missing."""
        return () if self.lacking is None else parts_missing(self.lacking, self.of)


def parts_missing(lacking: Lacking, of: int) -> tuple[int, ...]:
    """Numbers of the parts that have spans which a pass lacks."""
    missing = set(lacking.missing)
    return tuple(i for i in range(1, of + 1) if not missing.isdisjoint(Share(i, of).spans(lacking.n_spans)))


def fit_part(encoder: SparseEncoder, x: Any, share: Share) -> PartDone:
    """Reduce a share of every pass that can begin. A pass begins when the one before it is complete.

    After the last pass no search is made: `spae fit-finish` makes it.

    Done again it does nothing, and that is no error: a scheduler may start a job anew that had done its work.

    Parameters
    ----------
    encoder : SparseEncoder
        Encoder whose ``checkpoint`` is a ``CheckpointAt`` with this share.
    x : object
        Anything :func:`spae_dask.open_matrix` opens.
    share : Share
        Part of the spans to reduce.
    """
    try:
        encoder.fit(x)
    except NotWhole as found:
        return PartDone(found.args[0], share.of)
    except AllWhole:
        return PartDone(None, share.of)
    return PartDone(None, share.of)


def listed(parts: tuple[int, ...]) -> str:
    """``part 3``, or ``parts 3, 5 and 8``; the first few of many."""
    if len(parts) == 1:
        return f"part {parts[0]}"
    few = [str(each) for each in parts[:8]]
    if len(parts) > len(few):
        return f"parts {', '.join(few)} and {len(parts) - len(few)} more"
    return f"parts {', '.join(few[:-1])} and {few[-1]}"
