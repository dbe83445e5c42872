"""Sparse PCA with a certificate, on matrices that do not fit in memory."""

__version__ = "0.1.0"
