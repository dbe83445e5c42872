"""Of an encoder on disk nothing is believed but what was written."""

import json
import shutil
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
import zarr

from spae_dask.errors import InvalidInput, NotFound, StorageError
from spae_dask.storage.artifacts import artifact_reading
from spae_dask.storage.artifacts.artifact import STORED
from spae_dask.storage.artifacts.artifact_reading import read_encoder
from spae_dask.storage.artifacts.artifact_writing import write_encoder
from tests.storage.artifacts.encoders import D, K, made


def edit(path: Path, changes: dict) -> None:
    """Change the JSON of a zarr.json, nested keys joined by slashes."""
    metadata = json.loads(path.read_text())
    for key, value in changes.items():
        *above, last = key.split("/")
        inner = metadata
        for name in above:
            inner = inner[name]
        if value is ...:
            del inner[last]
        else:
            inner[last] = value
    path.write_text(json.dumps(metadata))


def test_a_copy_in_zarr_format_2_is_read_alike(stored, tmp_path):
    source = zarr.open_group(stored, mode="r")
    copy = zarr.create_group(tmp_path / "v2.zarr", zarr_format=2, attributes=dict(source.attrs))
    for name, array in source.arrays():
        # the zero mean equals the default fill value, so this writer leaves its chunk out
        copy.create_array(name, data=array[...])
    assert not (tmp_path / "v2.zarr" / "mean" / "0").exists()
    read, again = read_encoder(stored), read_encoder(tmp_path / "v2.zarr")
    for name, array in read.arrays().items():
        np.testing.assert_array_equal(getattr(again, name), array)
    assert again.certificate == read.certificate


@pytest.mark.parametrize("name", [name for name in STORED if name not in ("fill", "spectrum")])
def test_a_lost_chunk_is_an_error_never_zeros(stored, name):
    (chunk,) = [each for each in (stored / name / "c").rglob("*") if each.is_file()]
    chunk.unlink()
    with pytest.raises(StorageError, match=rf"'{name}' differs from what was written"):
        read_encoder(stored)


def test_a_chunk_of_another_encoder_is_noticed(stored, tmp_path):
    write_encoder(tmp_path / "other.zarr", made(seed=1))
    shutil.copy(tmp_path / "other.zarr" / "decoder" / "c" / "0" / "0", stored / "decoder" / "c" / "0" / "0")
    with pytest.raises(StorageError, match="'decoder' differs from what was written"):
        read_encoder(stored)


def test_a_chunk_that_does_not_decode_is_named(stored):
    (stored / "decoder" / "c" / "0" / "0").write_bytes(b"noise")
    with pytest.raises(StorageError, match="'decoder' cannot be read"):
        read_encoder(stored)


def test_nothing_at_the_path_is_not_found(tmp_path):
    with pytest.raises(NotFound, match="there is no encoder at"):
        read_encoder(tmp_path / "e.zarr")


def test_other_stores_are_refused_by_what_they_are(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("text")
    zarr.create_array(tmp_path / "array", shape=(3, 3), dtype="f8")
    zarr.create_group(tmp_path / "group")
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "zarr.json").write_text("{")
    for name in ("folder", "file", "array", "group", "broken"):
        with pytest.raises(InvalidInput, match=r"is not an encoder: .*`spae fit -o` wrote") as caught:
            read_encoder(tmp_path / name)
        assert not isinstance(caught.value, NotFound)


def test_a_newer_format_asks_for_an_upgrade(stored):
    edit(stored / "zarr.json", {"attributes/format_version": 3})
    with pytest.raises(InvalidInput, match=r"format version 3.*Upgrade"):
        read_encoder(stored)


@pytest.mark.parametrize("recipe", [None, "log1p"])
def test_a_reader_that_does_not_know_a_recipe_refuses_the_encoder(tmp_path, recipe, monkeypatch):
    artifact = made(parameters={"n_components": 3, "recipe": recipe})
    write_encoder(tmp_path / "e.zarr", artifact)
    assert read_encoder(tmp_path / "e.zarr").parameters == artifact.parameters
    attributes = json.loads((tmp_path / "e.zarr" / "zarr.json").read_text())["attributes"]
    assert (attributes["format_version"], attributes.get("needs")) == ((1, None) if recipe is None else (2, ["recipe"]))
    for name, value in (("FORMAT_VERSION", 1), ("NEEDS", ())):  # readers of before
        with monkeypatch.context() as patch, pytest.raises(InvalidInput) if recipe else nullcontext() as found:
            patch.setattr(artifact_reading, name, value)
            read_encoder(tmp_path / "e.zarr")
        assert found is None or "Upgrade" in str(found.value)


@pytest.mark.parametrize("needs", ["recipe", {"recipe": 1}, ["recipe", "magic"], [{}]])
def test_needs_that_are_not_known_are_named(stored, needs):
    edit(stored / "zarr.json", {"attributes/format_version": 2, "attributes/needs": needs})
    with pytest.raises(InvalidInput, match=r"needs .* but this version of spae_dask knows \['recipe', 'covariates'\]"):
        read_encoder(stored)


@pytest.mark.parametrize("version", [0, "1", None, True, 1.0])
def test_a_version_that_is_none_is_refused(stored, version):
    edit(stored / "zarr.json", {"attributes/format_version": version})
    with pytest.raises(InvalidInput, match="format_version"):
        read_encoder(stored)


@pytest.mark.parametrize("name", STORED)
def test_a_missing_array_is_named(stored, name):
    shutil.rmtree(stored / name)
    with pytest.raises(InvalidInput, match=f"its array '{name}' is missing"):
        read_encoder(stored)


@pytest.mark.parametrize("key", ["certificate", "parameters", "provenance", "sha256"])
def test_a_missing_record_is_named(stored, key):
    edit(stored / "zarr.json", {f"attributes/{key}": ...})
    with pytest.raises(InvalidInput, match=f"'{key}' is missing"):
        read_encoder(stored)


def test_metadata_that_contradict_each_other_are_refused_before_anything_is_read(stored, monkeypatch):
    monkeypatch.setattr(zarr.Array, "__getitem__", lambda *_: pytest.fail("an array was read"))
    for name, shape in [("indptr", [9]), ("mean", [31]), ("values", [11]), ("decoder", [4, 30]), ("decoder", [0, 30])]:
        before = (stored / name / "zarr.json").read_text()
        edit(stored / name / "zarr.json", {"shape": shape})
        with pytest.raises(InvalidInput, match=r"contradicts itself|must be"):
            read_encoder(stored)
        (stored / name / "zarr.json").write_text(before)
    for name in ("values", "indices"):
        edit(stored / name / "zarr.json", {"shape": [K * D + 1]})
    with pytest.raises(InvalidInput, match="91 values for 30 x 3 entries"):
        read_encoder(stored)
    edit(stored / "mean" / "zarr.json", {"data_type": "float32"})
    with pytest.raises(InvalidInput, match="'mean' is"):
        read_encoder(stored)


def test_metadata_that_promise_terabytes_are_refused_before_memory_is_taken(stored):
    d = 10**12
    for name in ("mean", "scale"):
        edit(stored / name / "zarr.json", {"shape": [d]})
    edit(stored / "decoder" / "zarr.json", {"shape": [K, d]})
    edit(stored / "zarr.json", {"attributes/feature_names": None})
    with pytest.raises(InvalidInput, match="its metadata declare"):
        read_encoder(stored)
    edit(stored / "spectrum" / "zarr.json", {"chunk_grid/configuration/chunk_shape": [d]})
    with pytest.raises(InvalidInput):
        read_encoder(stored)
