"""Small data sets that come with the package, each with its provenance."""

from spae_dask.datasets.pitprops import load_pitprops

__all__ = ["load_pitprops"]
