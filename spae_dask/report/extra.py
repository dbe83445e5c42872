"""Error for a library of the ``report`` extra that is not installed."""

from spae_dask.errors import InvalidInput


def missing_library(library: str) -> InvalidInput:
    """The error to raise if ``library`` cannot be imported."""
    return InvalidInput(
        f'reports need {library}, which is not installed. Run `pip install "spae-dask[report]"`; '
        "everything but reports works without it."
    )
