"""Work that is done span by span and gives back something small, such as the checksum of what it wrote."""

from typing import Protocol, TypeVar

from spae_dask.blocks import RowBlocks
from spae_dask.engine.spans import Span

Result_co = TypeVar("Result_co", covariant=True)


class SpanWork(Protocol[Result_co]):
    """A picklable callable; running it again on the same span must do no harm."""

    def __call__(self, source: RowBlocks, span: Span) -> Result_co: ...
