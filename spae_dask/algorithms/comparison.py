"""Former name of :mod:`spae_dask.strategies.comparison`."""

from spae_dask.strategies.comparison import *  # noqa: F403
