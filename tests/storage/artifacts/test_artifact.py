"""The encoder on disk: what is written comes back, and it is plain Zarr and JSON."""

import json

import numpy as np
import pytest
import scipy.sparse as sp
import zarr

from spae_dask.storage.artifacts.artifact import STORED
from spae_dask.storage.artifacts.artifact_reading import read_encoder
from spae_dask.storage.artifacts.artifact_writing import write_encoder
from tests.storage.artifacts.encoders import D, K, made


def test_an_encoder_comes_back_bit_for_bit(stored):
    written, read = made(), read_encoder(stored)
    for name, array in written.arrays().items():
        np.testing.assert_array_equal(getattr(read, name), array)
        assert getattr(read, name).dtype == np.dtype(STORED[name][0])
    assert (read.certificate, read.parameters, read.provenance) == (
        written.certificate,
        written.parameters,
        written.provenance,
    )
    assert read.feature_names == written.feature_names
    assert (read.k, read.d) == (K, D)
    assert (read.H != written.H).nnz == 0


def test_absent_names_an_empty_column_and_filled_parts_come_back(tmp_path):
    H = sp.csc_array(np.diag([0.0, -0.0, 5e-324])[:, [0, 2]])
    artifact = made(
        indptr=H.indptr,
        indices=H.indices,
        values=H.data,
        decoder=np.full((2, 3), 1e308),
        mean=np.array([1e-308, 0, 1]),
        scale=np.array([1e-300, 1, 1e300]),
        fill=np.array([1.0, 2, 3]),
        spectrum=np.array([2.0, 1]),
        feature_names=None,
    )
    write_encoder(tmp_path / "e.zarr", artifact)
    read = read_encoder(str(tmp_path / "e.zarr"))
    assert read.feature_names is None
    for name, array in artifact.arrays().items():
        np.testing.assert_array_equal(getattr(read, name), array)


def test_the_store_is_plain_zarr_v3_and_json(stored):
    group = zarr.open_group(stored, mode="r")
    assert group.metadata.zarr_format == 3
    assert sorted(group.array_keys()) == sorted(STORED)
    # what a lost chunk reads as is nothing that could be mistaken for an entry
    assert all(np.isnan(array.fill_value) or array.fill_value == -1 for _, array in group.arrays())
    attributes = json.loads((stored / "zarr.json").read_text(), parse_constant=pytest.fail)["attributes"]
    assert attributes["format"] == "spae-encoder"
    assert attributes["format_version"] == 1
    assert attributes["certificate"]["bound"] == "Infinity"
    assert not [each for each in stored.rglob("*") if each.suffix in (".pkl", ".pickle", ".joblib")]
