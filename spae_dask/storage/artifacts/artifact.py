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
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
import zarr

from spae_dask.errors import InvalidInput, NotFound, SpaeError, StorageError
from spae_dask.storage.artifacts.artifact_checks import check_shapes, check_size, check_values, damaged
from spae_dask.storage.no_code import refuse_code
from spae_dask.storage.odd_files import refuse_odd_chunks, refuse_odd_metadata
from spae_dask.storage.remote.address import is_remote, parse_address
from spae_dask.storage.remote.remote_store import RemoteStore, open_remote, reach
from spae_dask.storage.remote.url_secrets import refuse_secrets
from spae_dask.storage.writing.json_values import from_json, to_json
from spae_dask.storage.writing.outputs import publish_store
from spae_dask.storage.writing.publish import refuse_long
from spae_dask.storage.writing.unfinished import absent

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

CHUNK_NBYTES = 64 << 20

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
        What takes the place of missing entries of X; empty if they are not allowed.
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


def write_encoder(
    path: str | Path,
    artifact: EncoderArtifact,
    *,
    overwrite: bool = False,
    attach: Callable[[zarr.Group], None] | None = None,
) -> None:
    """Write an encoder; it is read back before it appears under its name.

    Parameters
    ----------
    path : str or Path
        Local path, or URL of s3 or gs, usually ending in ``.zarr``.
    artifact : EncoderArtifact
    overwrite : bool
        Replace an encoder (or any Zarr store or file) that is there.
    attach : callable, optional
        Writes more members into the group before it appears, which readers of encoders do not look at.

    Raises
    ------
    OutputExists, InvalidInput, StorageError
        As `publish_store`; also InvalidInput if the parts do not fit together.
    """
    arrays = artifact.arrays()
    check_shapes({name: array.shape for name, array in arrays.items()}, artifact.feature_names, "the encoder")
    check_values(arrays, "the encoder")
    attributes = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        **{name: to_json(getattr(artifact, name), name) for name in RECORDS},
        "feature_names": None if artifact.feature_names is None else [str(each) for each in artifact.feature_names],
        "curve": None if artifact.curve is None else to_json(artifact.curve, "curve"),
        "sha256": {name: _digest(array) for name, array in arrays.items()},
    }
    with publish_store(path, overwrite=overwrite) as output:
        group = zarr.create_group(output.store, zarr_format=3, attributes=attributes)
        for name, array in arrays.items():
            row_nbytes = array.itemsize * math.prod(array.shape[1:])
            rows = max(1, min(array.shape[0], CHUNK_NBYTES // max(1, row_nbytes)))
            group.create_array(
                name,
                shape=array.shape,
                dtype=array.dtype,
                chunks=(rows, *(max(1, length) for length in array.shape[1:])),
                fill_value=-1 if array.dtype.kind == "i" else math.nan,  # no lost chunk shall read as zeros
            )[...] = array
        if attach is not None:
            attach(group)
        try:
            _read_group(zarr.open_group(output.store, mode="r"), str(path))
        except SpaeError as error:
            raise StorageError(
                f"the encoder written to {path} does not read back as it was written ({error}). Nothing was left under "
                "that name. Check the disk and run again, or give a path on another disk."
            ) from error


def read_encoder(path: str | Path) -> EncoderArtifact:
    """Read an encoder; everything its metadata say is checked before memory is taken, and every array after.

    Parameters
    ----------
    path : str or Path
        Path or URL of the group.

    Raises
    ------
    NotFound
        If there is nothing.
    InvalidInput
        If it is not an encoder, is of a newer format, lacks a member, or its parts contradict each other.
    StorageError
        If a chunk is lost, unreadable or not what was written.
    """
    name = str(path)
    return _read_group(_open_group(name), name)


def encoder_fingerprint(path: str | Path) -> str:
    """SHA-256 of an encoder's attributes, among which are the digests of its arrays.

    Parameters
    ----------
    path : str or Path
        Path or URL of the group.

    Raises
    ------
    NotFound, InvalidInput, StorageError
        As `read_encoder`, of all but the arrays.
    """
    name = str(path)
    attributes: dict[str, Any] = dict(_open_group(name).attrs)
    _check_attributes(attributes, name)
    return hashlib.sha256(json.dumps(attributes, sort_keys=True).encode()).hexdigest()


def _read_group(group: zarr.Group, name: str) -> EncoderArtifact:
    attributes: dict[str, Any] = dict(group.attrs)
    _check_attributes(attributes, name)
    members = _members(group, name)
    feature_names = attributes["feature_names"]
    check_shapes({key: member.shape for key, member in members.items()}, feature_names, name)
    check_size(group, members, name)
    arrays = {key: _read(member, key, attributes["sha256"], name) for key, member in members.items()}
    check_values(arrays, name)
    return EncoderArtifact(
        indptr=arrays["indptr"],
        indices=arrays["indices"],
        values=arrays["values"],
        decoder=arrays["decoder"],
        mean=arrays["mean"],
        scale=arrays["scale"],
        fill=arrays["fill"],
        spectrum=arrays["spectrum"],
        certificate=from_json(attributes["certificate"]),
        parameters=from_json(attributes["parameters"]),
        provenance=from_json(attributes["provenance"]),
        feature_names=None if feature_names is None else tuple(feature_names),
        curve=None if attributes["curve"] is None else from_json(attributes["curve"]),
    )


def _open_group(name: str) -> zarr.Group:
    refuse_secrets(name)
    where: Any = name if "://" in name else Path(name).resolve()
    if isinstance(where, Path):
        refuse_long(where)
        for folder in (where, *(where / key for key in STORED)):
            refuse_odd_metadata(folder)
    if is_remote(name):
        where = open_remote(parse_address(name))
        reach(where)
    try:
        return zarr.open_group(where, mode="r")
    except SpaeError:
        raise
    except FileNotFoundError as error:
        if isinstance(where, Path) and where.exists():
            raise _not_an_encoder(name, "it is not a Zarr group") from error
        if isinstance(where, RemoteStore):
            raise absent(where, "the URL that `spae fit -o` wrote") from error
        raise NotFound(f"there is no encoder at {name}. Give the path that `spae fit -o` wrote.") from error
    except ImportError as error:
        raise InvalidInput(
            f"{name} needs a library that is not installed ({error}). Install the one that fsspec names for it."
        ) from error
    except Exception as error:  # metadata can be wrong in any way
        raise _not_an_encoder(name, f"{type(error).__name__}: {error}") from error


def _not_an_encoder(name: str, why: str) -> InvalidInput:
    return InvalidInput(f"{name} is not an encoder: {why}. Give the path of a store that `spae fit -o` wrote.")


def _check_attributes(attributes: dict[str, Any], name: str) -> None:
    if attributes.get("format") != FORMAT:
        raise _not_an_encoder(name, f"its attribute 'format' is {attributes.get('format')!r}, not {FORMAT!r}")
    version = attributes.get("format_version")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise _not_an_encoder(name, f"its attribute 'format_version' is {version!r}, not a positive integer")
    if version > FORMAT_VERSION:
        raise InvalidInput(
            f"the encoder {name} has format version {version}, and this version of spae_dask reads up to "
            f"{FORMAT_VERSION}. Upgrade it: `pip install -U spae-dask`."
        )
    for key in (*RECORDS, "sha256"):
        if not isinstance(attributes.get(key), dict):
            raise InvalidInput(damaged(name, f"its attribute {key!r} is missing or not an object"))
    names = attributes.setdefault("feature_names", None)
    if names is not None and not (isinstance(names, list) and all(isinstance(each, str) for each in names)):
        raise InvalidInput(damaged(name, "its attribute 'feature_names' is neither null nor a list of names"))
    if not isinstance(attributes.setdefault("curve", None), dict | None):
        raise InvalidInput(damaged(name, "its attribute 'curve' is neither null nor an object"))


def _members(group: zarr.Group, name: str) -> dict[str, Any]:
    members = {}
    for key, (dtype, ndim) in STORED.items():
        try:
            member = group[key]
        except KeyError as error:
            raise InvalidInput(damaged(name, f"its array {key!r} is missing")) from error
        except StorageError:
            raise
        except Exception as error:  # metadata can be wrong in any way
            raise InvalidInput(damaged(name, f"the metadata of {key!r} cannot be read ({error})")) from error
        if not isinstance(member, zarr.Array):
            raise InvalidInput(damaged(name, f"{key!r} is a group, not an array"))
        if member.ndim != ndim or np.dtype(member.dtype).newbyteorder("<") != np.dtype(dtype):
            wanted = f"{ndim} dimension(s) of {np.dtype(dtype)}"
            raise InvalidInput(damaged(name, f"{key!r} is {member.shape} of {member.dtype}, not {wanted}"))
        refuse_code(member, f"{name}/{key}")
        members[key] = member
    return members


def _read(member: Any, key: str, digests: dict[str, Any], name: str) -> npt.NDArray[Any]:
    numbers = product(*(range(-(-length // unit)) for length, unit in zip(member.shape, _unit_of(member), strict=True)))
    try:
        refuse_odd_chunks(member, map(member.metadata.encode_chunk_key, numbers))
        array = np.ascontiguousarray(member[...], STORED[key][0])
    except StorageError:
        raise
    except Exception as error:  # codecs and stores raise what they please
        raise StorageError(damaged(name, f"{key!r} cannot be read ({type(error).__name__}: {error})")) from error
    if _digest(array) != digests.get(key):
        raise StorageError(damaged(name, f"{key!r} is not what was written (its SHA-256 differs; a chunk may be lost)"))
    return array


def _unit_of(member: Any) -> tuple[int, ...]:
    return tuple(max(1, length) for length in member.shards or member.chunks)


def _digest(array: npt.NDArray[Any]) -> str:
    return hashlib.sha256(array.data.cast("B") if array.size else b"").hexdigest()
