"""An encoder from the disk: nothing that its metadata say is believed unchecked, and no array without its digest."""

import hashlib
import json
import os
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import zarr
from zarr.errors import ContainsArrayError

from spae_dask.errors import InvalidInput, NotFound, SpaeError, StorageError
from spae_dask.plain_files import beside
from spae_dask.storage.artifacts.artifact import (
    FORMAT,
    FORMAT_VERSION,
    GRID,
    NEEDS,
    OF_COVARIATES,
    OF_STATE,
    RECORDS,
    STORED,
    EncoderArtifact,
    check_shapes,
    check_size,
    check_values,
    damaged,
    digest_of,
    stored_of,
)
from spae_dask.storage.bounded import bounded
from spae_dask.storage.checks import refuse_code, refuse_odd_chunks, refuse_odd_metadata
from spae_dask.storage.remote.address import is_remote, parse_address, refuse_secrets
from spae_dask.storage.remote.remote_store import RemoteStore, open_remote, reach
from spae_dask.storage.writing.json_and_csv import from_json
from spae_dask.storage.writing.output_paths import refuse_long
from spae_dask.storage.writing.unfinished import absent


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
    name = os.fsdecode(path)
    return read_group(_open_group(name), name)


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
    name = os.fsdecode(path)
    attributes: dict[str, Any] = dict(_open_group(name).attrs)
    _check_attributes(attributes, name)
    return hashlib.sha256(json.dumps(attributes, sort_keys=True).encode()).hexdigest()


def is_encoder(path: str | Path) -> bool:
    """Return True if a store says that it is an encoder, even one that is damaged or of a newer format."""
    try:
        return bool(_open_group(os.fsdecode(path)).attrs.get("format") == FORMAT)
    except SpaeError:
        return False


def read_group(group: zarr.Group, name: str) -> EncoderArtifact:
    """The encoder in an open group, called ``name`` in errors, which are those of `read_encoder`."""
    attributes: dict[str, Any] = dict(group.attrs)
    _check_attributes(attributes, name)
    covariates = attributes["covariates"]
    members = _members(group, name, stored_of(covariates))
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
        held_out=None if attributes["held_out"] is None else from_json(attributes["held_out"]),
        covariates=None if covariates is None else _levels(from_json(covariates), arrays["covariate_mean"].size, name),
        covariate_mean=arrays.get("covariate_mean"),
        covariate_coefficients=arrays.get("covariate_coefficients"),
        has_grid=GRID in group,
        state_record=attributes["state"] and from_json(attributes["state"]),
    )


def read_state_bytes(path: str | Path) -> npt.NDArray[np.uint8]:
    """Bytes of the state that an encoder was stored with.

    Raises
    ------
    NotFound, InvalidInput, StorageError
        As `read_encoder`.
    """
    name = os.fsdecode(path)
    return read_state_group(_open_group(name), name)


def read_state_group(group: zarr.Group, name: str) -> npt.NDArray[np.uint8]:
    """The same of an open group."""
    attributes: dict[str, Any] = dict(group.attrs)
    _check_attributes(attributes, name)
    members = _members(group, name, OF_STATE)
    check_size(group, members, name)
    return _read(members["state"], "state", attributes["sha256"], name)


def _open_group(name: str) -> zarr.Group:
    refuse_secrets(name)
    where: Any = name if "://" in name else Path(name).resolve()
    if isinstance(where, Path):
        refuse_long(where)
        for folder in (where, *(where / key for key in (*STORED, *OF_COVARIATES, *OF_STATE))):
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
        raise NotFound(
            f"there is no encoder at {name}.{beside(name)} Give the path that `spae fit -o` wrote."
        ) from error
    except ContainsArrayError as error:
        raise _not_an_encoder(name, "it is a Zarr array, not a group") from error
    except ImportError as error:
        raise InvalidInput(
            f"{name} needs a library that is not installed ({error}). Install the library that fsspec names for it."
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
            f"the encoder {name} has format version {version}, but this version of spae_dask reads versions "
            f"up to {FORMAT_VERSION}. Upgrade it: `pip install -U spae-dask`."
        )
    needs = attributes.get("needs", [])
    if not isinstance(needs, list) or not set(map(str, needs)) <= set(NEEDS):
        raise InvalidInput(
            f"the encoder {name} needs {needs!r}, but this version of spae_dask knows {list(NEEDS)}: rows would be "
            "encoded wrongly. Upgrade it: `pip install -U spae-dask`."
        )
    for key in (*RECORDS, "sha256"):
        if not isinstance(attributes.get(key), dict):
            raise InvalidInput(damaged(name, f"its attribute {key!r} is missing or not an object"))
    names = attributes.setdefault("feature_names", None)
    if names is not None and not (isinstance(names, list) and all(isinstance(each, str) for each in names)):
        raise InvalidInput(damaged(name, "its attribute 'feature_names' is neither null nor a list of names"))
    for key in ("curve", "held_out", "covariates", "state"):
        if not isinstance(attributes.setdefault(key, None), dict | None):
            raise InvalidInput(damaged(name, f"its attribute {key!r} is neither null nor an object"))


def _levels(covariates: Any, width: int, name: str) -> dict[str, Any]:
    """Names and levels of covariates, which must fit their coefficients."""
    names, levels = covariates.get("names"), covariates.get("levels")
    lists = [names, levels, *([each for each in levels if each is not None] if isinstance(levels, list) else [])]
    fine = all(isinstance(each, list) for each in lists) and len(names) == len(levels)
    fine = fine and all(isinstance(text, str) for each in (names, *lists[2:]) for text in each)
    if not fine or sum(1 if each is None else len(each) for each in levels) != width:
        raise InvalidInput(damaged(name, "its covariates do not fit their coefficients"))
    return {"names": names, "levels": levels}


def _members(group: zarr.Group, name: str, stored: dict[str, tuple[str, int]]) -> dict[str, Any]:
    members = {}
    for key, (dtype, ndim) in stored.items():
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
        members[key] = bounded(member)
    return members


def _read(member: Any, key: str, digests: dict[str, Any], name: str) -> npt.NDArray[Any]:
    numbers = product(*(range(-(-length // unit)) for length, unit in zip(member.shape, _unit_of(member), strict=True)))
    try:
        refuse_odd_chunks(member, member.store, map(member.metadata.encode_chunk_key, numbers))
        array = np.ascontiguousarray(member[...], (STORED | OF_COVARIATES | OF_STATE)[key][0])
    except StorageError:
        raise
    except Exception as error:  # codecs and stores raise exceptions of any type
        raise StorageError(damaged(name, f"{key!r} cannot be read ({type(error).__name__}: {error})")) from error
    if digest_of(array) != digests.get(key):
        raise StorageError(
            damaged(name, f"{key!r} differs from what was written (its SHA-256 is wrong; a chunk may be lost)")
        )
    return array


def _unit_of(member: Any) -> tuple[int, ...]:
    return tuple(max(1, length) for length in member.shards or member.chunks)
