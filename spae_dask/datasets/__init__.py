"""Small data sets with their provenance, and the matrix of the paper's lower bound in any size."""

from spae_dask.datasets.lower_bound import lower_bound_matrix
from spae_dask.datasets.pitprops import load_pitprops

__all__ = ["load_pitprops", "lower_bound_matrix"]
