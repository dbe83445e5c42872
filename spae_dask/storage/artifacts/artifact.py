"""The encoder on disk: a Zarr group of eight small arrays and JSON attributes, no pickle anywhere.

Layout, format version 1 (written as Zarr format 3; copies in format 2 are read as well):

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

Attributes: ``format``, ``format_version``, ``certificate``, ``parameters``, ``provenance``, ``feature_names`` (a list,
or null) and ``sha256``, one digest an array; and, if it was made, ``curve``, an object: losses of encoders of other
sizes. Numbers in attributes that are not finite become strings, see ``json_values``.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

FORMAT = "spae-encoder"
FORMAT_VERSION = 1

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

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """The arrays by name, as they are stored."""
        return {name: np.ascontiguousarray(getattr(self, name), dtype) for name, (dtype, _) in STORED.items()}


def digest_of(array: npt.NDArray[Any]) -> str:
    """SHA-256 of the entries of an array, in C order."""
    return hashlib.sha256(array.data.cast("B") if array.size else b"").hexdigest()
