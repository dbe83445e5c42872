"""Sparse PCA of AnnData objects, with the conventions of scanpy's ``pp.pca``; scanpy itself is not needed.

>>> from spae_dask.scanpy import sparse_pca
>>> sparse_pca(adata, n_comps=10, n_nonzero=12)  # then sc.pp.neighbors(adata, use_rep="X_spae")
"""

from spae_dask.scanpy.sparse_pca import sparse_pca

__all__ = ["sparse_pca"]
