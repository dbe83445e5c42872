"""The encoder on disk: a Zarr group of eight small arrays and JSON attributes, no pickle anywhere.

Layout, format versions 1 and 2 (written as Zarr format 3; copies in format 2 are read as well):

================  ==========  =============================================================
member            shape       content
================  ==========  =============================================================
``indptr``        (k + 1,)    H by columns (CSC): column ``j`` is entries ``indptr[j]:indptr[j + 1]``
``indices``       (nnz,)      rows of H, ascending within a column
``values``        (nnz,)      entries of H
``decoder``       (k, d)      G
``mean``          (d,)        subtracted before encoding
``scale``         (d,)        divided by before encoding, positive
``fill``          (d,) or 0   written into missing entries before that, empty if none may be missing
``spectrum``      (any,)      the singular values that are known, may be empty
================  ==========  =============================================================

An encoder that was fitted with ``keep_state`` has ``state`` (any,) too: bytes of the state of its pass, as a checkpoint
has them (:mod:`spae_dask.passes.state_file`), and an attribute ``state`` that describes it. Nothing but an update reads
them.

Attributes: ``format``, ``format_version``, ``certificate``, ``parameters``, ``provenance``, ``feature_names`` (a list,
or null) and ``sha256``, one digest an array; if it was made, ``curve``, an object: losses of encoders of other sizes;
and with folds ``held_out``, an object: losses on rows held out. Numbers in attributes that are not finite become
strings, see ``to_json``.

Version 2 has the attribute ``needs`` too: the parameters that a reader must obey, or the codes would be wrong. An
encoder without such parameters is of version 1, so that every reader opens it.
"""

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
import zarr
from zarr.core.sync import sync

from spae_dask.errors import InvalidInput
from spae_dask.quantities import format_nbytes

FORMAT = "spae-encoder"
FORMAT_VERSION = 2

GRID = "grid"
"""Member of the encoders whose columns are cells of a grid: the group that describes it."""

NEEDS = ("recipe", "covariates")
"""Parameters that change the rows before they are encoded: a reader must know them, if they are not None."""

STORED: dict[str, tuple[str, int]] = {
    "indptr": ("<i8", 1),
    "indices": ("<i8", 1),
    "values": ("<f8", 1),
    "decoder": ("<f8", 2),
    "mean": ("<f8", 1),
    "scale": ("<f8", 1),
    "fill": ("<f8", 1),
    "spectrum": ("<f8", 1),
}
"""Type and number of dimensions of each array."""

OF_COVARIATES: dict[str, tuple[str, int]] = {"covariate_mean": ("<f8", 1), "covariate_coefficients": ("<f8", 2)}
"""The same of an encoder that covariates were removed for."""

OF_STATE: dict[str, tuple[str, int]] = {"state": ("|u1", 1)}
"""The same of a state that is kept."""

RECORDS = ("certificate", "parameters", "provenance")
"""Attributes that are JSON objects."""

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class EncoderArtifact:
    """All there is to know about a fitted encoder.

    Parameters
    ----------
    indptr, indices, values : ndarray (k + 1,), (nnz,), (nnz,)
        The encoder H (d, k) by columns, as in ``scipy.sparse.csc_array``, indices sorted.
    decoder : ndarray (k, d)
        The decoder G.
    mean, scale : ndarray (d,)
        Codes are ``(X - mean) / scale @ H``.
    fill : ndarray (d,) or (0,)
        Values that replace missing entries of X; empty if they are not allowed.
    spectrum : ndarray
        Known singular values, descending; may be empty.
    certificate, parameters, provenance : mapping
        JSON values: what is known about the loss; how the encoder was asked for; package version, fingerprint of the
        data, seed, strategy and date.
    feature_names : tuple of str, optional
        Names of the d columns.
    curve : mapping, optional
        JSON values: losses of encoders with fewer and more nonzeros, if they were made.
    held_out : mapping, optional
        JSON values: losses on folds of the rows of encoders of the other folds, and their features.
    covariates : mapping, optional
        JSON values: ``names`` of the covariates, and ``levels`` of each; null for numbers. None if there were none.
    covariate_mean, covariate_coefficients : ndarray (p,), (p, d), optional
        Of ``X``, ``(Z - mean) @ coefficients`` is taken, Z with one column for each level, or for numbers.
    has_grid : bool
        True if the columns are cells of a grid, which is stored beside the encoder.
    state : ndarray of uint8, optional
        State of the pass, to which rows can be added. ``read_encoder`` leaves it on the disk.
    state_record : mapping, optional
        JSON values: description of the state.
    """

    indptr: Integers
    indices: Integers
    values: Floats
    decoder: Floats
    mean: Floats
    scale: Floats
    fill: Floats
    spectrum: Floats
    certificate: Mapping[str, Any]
    parameters: Mapping[str, Any]
    provenance: Mapping[str, Any]
    feature_names: tuple[str, ...] | None = None
    curve: Mapping[str, Any] | None = None
    held_out: Mapping[str, Any] | None = None
    covariates: Mapping[str, Any] | None = None
    covariate_mean: Floats | None = None
    covariate_coefficients: Floats | None = None
    has_grid: bool = False
    state: npt.NDArray[np.uint8] | None = None
    state_record: Mapping[str, Any] | None = None

    @property
    def k(self) -> int:
        """Columns of H."""
        return int(self.decoder.shape[0])

    @property
    def d(self) -> int:
        """Columns of the data."""
        return int(self.decoder.shape[1])

    @property
    def H(self) -> sp.csc_array:  # noqa: N802 - the paper's name
        """The encoder (d, k)."""
        return sp.csc_array((self.values, self.indices, self.indptr), shape=(self.d, self.k))

    @property
    def needs(self) -> list[str]:
        """Parameters that a reader must obey."""
        given = {**self.parameters, "covariates": self.covariates}
        return [name for name in NEEDS if given.get(name) is not None]

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """The arrays by name, as they are stored."""
        stored = stored_of(self.covariates) | ({} if self.state is None else OF_STATE)
        return {name: np.ascontiguousarray(getattr(self, name), dtype) for name, (dtype, _) in stored.items()}


def stored_of(covariates: object) -> dict[str, tuple[str, int]]:
    """Type and number of dimensions of each array of an encoder with these covariates, or with none."""
    return STORED if covariates is None else STORED | OF_COVARIATES


def digest_of(array: npt.NDArray[Any]) -> str:
    """SHA-256 of the entries of an array, in C order."""
    return hashlib.sha256(array.data.cast("B") if array.size else b"").hexdigest()


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
                f"{nnz} values need {shape}. Write the encoder again."
            )
    if "covariate_mean" in shapes and shapes["covariate_coefficients"] != (*shapes["covariate_mean"], d):
        raise InvalidInput(
            f"{name} contradicts itself: 'covariate_coefficients' has shape {shapes['covariate_coefficients']}; it "
            f"must be {(*shapes['covariate_mean'], d)}. Write the encoder again."
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
                name,
                f"its metadata declare {format_nbytes(claimed)}, but only {format_nbytes(stored)} are stored",
            )
        )


def check_values(arrays: dict[str, npt.NDArray[Any]], name: str) -> None:
    """Refuse entries that are not finite, scales that are not positive and indices that make no sparse matrix."""
    for key in (each for each, array in arrays.items() if array.dtype.kind == "f"):
        if not np.isfinite(arrays[key]).all():
            raise InvalidInput(f"{name} holds NaN or infinite entries in {key!r}. Fit again on finite data.")
    if not (arrays["scale"] > 0).all():
        raise InvalidInput(f"{name} contains a scale that is not positive. Use 1 for columns that are not scaled.")
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
