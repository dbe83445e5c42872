"""Former name of :mod:`spae_dask.passes.events`, the events that ``progress`` receives."""

from spae_dask.passes.events import *  # noqa: F403
