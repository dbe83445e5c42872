"""Constructions of a sparse encoder H and its decoder G on a core, one a file."""

from spae_dask.maths.encoders.batch import BatchEncoder, encode_batch, encoder_from_columns, theorem_bound

__all__ = ["BatchEncoder", "encode_batch", "encoder_from_columns", "theorem_bound"]
