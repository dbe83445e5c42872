"""Former name of :mod:`spae_dask.strategies`; ``spae_dask.algorithms.comparison`` stays importable."""
