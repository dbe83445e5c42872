"""Published sparse PCA methods for comparison: truncated power, generalised power, and their deflations.

The functions have the names of the modules ``tpower`` and ``gpower``, and take their place here. The modules are found
under their full names, as in ``from spae_dask.baselines.tpower import truncate``.
"""

from spae_dask.baselines.deflation import deflate
from spae_dask.baselines.gpower import gpower
from spae_dask.baselines.tpower import tpower
from spae_dask.baselines.variance import adjusted_variance

__all__ = ["adjusted_variance", "deflate", "gpower", "tpower"]
