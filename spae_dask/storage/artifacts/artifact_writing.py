"""An encoder to the disk: read back before it appears under its name."""

import math
import os
from collections.abc import Callable
from pathlib import Path

import zarr

from spae_dask.errors import SpaeError, StorageError
from spae_dask.storage.artifacts.artifact import (
    FORMAT,
    FORMAT_VERSION,
    RECORDS,
    EncoderArtifact,
    check_shapes,
    check_values,
    digest_of,
)
from spae_dask.storage.artifacts.artifact_reading import read_group, read_state_group
from spae_dask.storage.writing.json_and_csv import to_json
from spae_dask.storage.writing.outputs import publish_store

CHUNK_NBYTES = 64 << 20

FILL_VALUES = {"i": -1, "f": math.nan, "u": 255}
"""Fill values by kind of type, so that a lost chunk does not read as zeros."""


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
        **({"format_version": FORMAT_VERSION, "needs": artifact.needs} if artifact.needs else {"format_version": 1}),
        **{name: to_json(getattr(artifact, name), name) for name in RECORDS},
        "feature_names": None if artifact.feature_names is None else [str(each) for each in artifact.feature_names],
        "curve": None if artifact.curve is None else to_json(artifact.curve, "curve"),
        **({} if artifact.held_out is None else {"held_out": to_json(artifact.held_out, "held_out")}),
        **({} if artifact.covariates is None else {"covariates": to_json(artifact.covariates, "covariates")}),
        **({} if artifact.state_record is None else {"state": to_json(artifact.state_record, "state")}),
        "sha256": {name: digest_of(array) for name, array in arrays.items()},
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
                fill_value=FILL_VALUES[array.dtype.kind],
            )[...] = array
        if attach is not None:
            attach(group)
        try:
            written, name = zarr.open_group(output.store, mode="r"), os.fsdecode(path)
            read_group(written, name)
            if artifact.state is not None:
                read_state_group(written, name)
        except SpaeError as error:
            raise StorageError(
                f"the encoder written to {path} reads back differently ({error}). Nothing was left under that "
                "name. Check the disk and run again, or give a path on another disk."
            ) from error
