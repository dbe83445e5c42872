"""Small data sets that come with the package, each with its provenance, and the hardest matrix, made to order."""

from spae_dask.datasets.lower_bound import lower_bound_matrix
from spae_dask.datasets.pitprops import load_pitprops

__all__ = ["load_pitprops", "lower_bound_matrix"]
