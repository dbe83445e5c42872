"""Conditions on the parts of an encoder: checked before memory is taken, and again on the values."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import zarr
from dask.utils import format_bytes
from zarr.core.sync import sync

from spae_dask.errors import InvalidInput

MAX_EXPANSION = 1 << 16
"""Bytes in memory per byte stored, no less than constant arrays reach under Zarr's codecs."""


def damaged(name: str, what: str) -> str:
    """The message for an encoder that is not as it was written."""
    return f"the encoder {name} is damaged: {what}. Restore it from a copy, or fit again."


def check_shapes(shapes: dict[str, tuple[int, ...]], feature_names: Sequence[str] | None, name: str) -> None:
    """Refuse shapes that contradict each other."""
    if len(shapes["decoder"]) != 2 or 0 in shapes["decoder"]:
        raise InvalidInput(f"{name} has a decoder of shape {shapes['decoder']}; it must be (k, d), both at least 1.")
    k, d = shapes["decoder"]
    nnz = math.prod(shapes["values"])
    wanted = {"indptr": (k + 1,), "indices": (nnz,), "values": (nnz,), "mean": (d,), "scale": (d,)}
    for key, shape in wanted.items():
        if shapes[key] != shape:
            raise InvalidInput(
                f"{name} contradicts itself: {key!r} has shape {shapes[key]}, but a decoder of shape {(k, d)} and "
                f"{nnz} values call for {shape}. Write the encoder again."
            )
    if shapes["fill"] not in ((0,), (d,)):
        raise InvalidInput(f"{name} contradicts itself: 'fill' has shape {shapes['fill']}; it must be (0,) or ({d},).")
    if len(shapes["spectrum"]) != 1:
        raise InvalidInput(f"{name} has a spectrum of shape {shapes['spectrum']}; it must be one-dimensional.")
    if nnz > k * d:
        raise InvalidInput(f"{name} contradicts itself: it has {nnz} values for {d} x {k} entries of H.")
    if feature_names is not None and len(feature_names) != d:
        raise InvalidInput(f"{name} contradicts itself: it has {len(feature_names)} feature names for {d} columns.")


def check_size(group: zarr.Group, members: Mapping[str, Any], name: str) -> None:
    """Refuse metadata that promise far more than is stored, before the memory for it is taken."""
    if not group.store.supports_listing:
        return
    stored = sync(group.store.getsize_prefix(group.path))
    claimed = sum(
        member.dtype.itemsize * max(math.prod(member.shape), math.prod(member.shards or member.chunks))
        for member in members.values()
    )
    if claimed > MAX_EXPANSION * stored:
        raise InvalidInput(
            damaged(
                name, f"its metadata call for {format_bytes(claimed)} of memory, but {format_bytes(stored)} are stored"
            )
        )


def check_values(arrays: dict[str, npt.NDArray[Any]], name: str) -> None:
    """Refuse entries that are not finite, scales that are not positive and indices that make no sparse matrix."""
    for key in ("values", "decoder", "mean", "scale", "fill", "spectrum"):
        if not np.isfinite(arrays[key]).all():
            raise InvalidInput(f"{name} holds NaN or infinite entries in {key!r}. Fit again on finite data.")
    if not (arrays["scale"] > 0).all():
        raise InvalidInput(f"{name} holds a scale that is not positive; use 1 for columns that are not scaled.")
    indptr, indices = arrays["indptr"], arrays["indices"]
    d, nnz = arrays["mean"].size, indices.size
    if indptr[0] != 0 or indptr[-1] != nnz or (np.diff(indptr) < 0).any():
        raise InvalidInput(f"{name} is not a valid encoder: 'indptr' must ascend from 0 to {nnz}. Write it again.")
    if nnz and not (indices.min() >= 0 and indices.max() < d):
        raise InvalidInput(f"{name} is not a valid encoder: 'indices' must lie in 0 to {d - 1}. Write it again.")
    starts_column = np.zeros(nnz, dtype=bool)
    starts_column[indptr[:-1][indptr[:-1] < nnz]] = True
    if not (starts_column[1:] | (np.diff(indices) > 0)).all():
        raise InvalidInput(
            f"{name} is not a valid encoder: 'indices' must ascend within each column of H, without repeats. "
            "Call H.sum_duplicates() before writing it."
        )
