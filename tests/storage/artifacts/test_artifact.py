"""The encoder on disk: what is written comes back, and nothing else is believed."""

import json
import math
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st

from spae_dask.errors import InvalidInput, NotFound, OutputExists, StorageError
from spae_dask.storage.artifacts.artifact import STORED, EncoderArtifact, read_encoder, write_encoder
from spae_dask.storage.writing.json_values import from_json, to_json

D, K, R = 30, 3, 4


def made(seed: int = 0, **changes) -> EncoderArtifact:
    rng = np.random.default_rng(seed)
    H = np.zeros((D, K))
    for j in range(K):
        H[rng.choice(D, R, replace=False), j] = rng.standard_normal(R)
    columns = sp.csc_array(H)
    artifact = EncoderArtifact(
        indptr=columns.indptr,
        indices=columns.indices,
        values=columns.data,
        decoder=rng.standard_normal((K, D)),
        mean=np.zeros(D),
        scale=np.ones(D),
        fill=np.zeros(0),
        spectrum=np.zeros(0),
        certificate={"loss": 1.5, "bound": math.inf, "theorem": None, "exact": True},
        parameters={"n_components": K, "n_nonzero": R},
        provenance={"seed": 0, "strategy": "gram"},
        feature_names=tuple(f"gene {j}" for j in range(D)),
    )
    return replace(artifact, **changes)


@pytest.fixture(scope="module")
def pristine(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("encoder") / "e.zarr"
    write_encoder(path, made())
    return path


@pytest.fixture
def stored(pristine, tmp_path) -> Path:
    return shutil.copytree(pristine, tmp_path / "e.zarr")


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


@settings(deadline=None, max_examples=50)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.floats() | st.text(alphabet="abc", max_size=3),
        lambda inner: (
            st.lists(inner, max_size=3) | st.dictionaries(st.text(alphabet="xyz", max_size=3), inner, max_size=3)
        ),
        max_leaves=8,
    )
)
def test_records_come_back_through_strict_json(value):
    text = json.dumps(to_json(value, "value"), allow_nan=False)
    assert repr(from_json(json.loads(text))) == repr(value)  # repr, since NaN is not equal to itself


def test_numpy_values_and_tuples_are_stored_as_plain_ones():
    value = {"loss": np.float32(0.5), "r": np.int64(3), "per": np.array([1.0, np.nan]), "shape": (2, 3), "ok": np.True_}
    assert to_json(value, "certificate") == {"loss": 0.5, "r": 3, "per": [1.0, "NaN"], "shape": [2, 3], "ok": True}


def test_what_json_cannot_hold_is_refused_by_its_place():
    with pytest.raises(InvalidInput, match=r"parameters\['a'\]\[1\] is a object"):
        to_json({"a": [1, object()]}, "parameters")
    with pytest.raises(InvalidInput, match="string keys"):
        to_json({1: 2}, "parameters")


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
    with pytest.raises(StorageError, match=rf"'{name}' is not what was written"):
        read_encoder(stored)


def test_a_chunk_of_another_encoder_is_noticed(stored, tmp_path):
    write_encoder(tmp_path / "other.zarr", made(seed=1))
    shutil.copy(tmp_path / "other.zarr" / "decoder" / "c" / "0" / "0", stored / "decoder" / "c" / "0" / "0")
    with pytest.raises(StorageError, match="'decoder' is not what was written"):
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
    edit(stored / "zarr.json", {"attributes/format_version": 2})
    with pytest.raises(InvalidInput, match=r"format version 2.*Upgrade"):
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
    with pytest.raises(InvalidInput, match="its metadata call for"):
        read_encoder(stored)
    edit(stored / "spectrum" / "zarr.json", {"chunk_grid/configuration/chunk_shape": [d]})
    with pytest.raises(InvalidInput):
        read_encoder(stored)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"scale": np.zeros(D)}, "not positive"),
        ({"mean": np.full(D, np.nan)}, "NaN or infinite entries in 'mean'"),
        ({"spectrum": np.array([np.inf])}, "'spectrum'"),
        ({"spectrum": np.zeros((2, 2))}, "one-dimensional"),
        ({"indices": np.full(K * R, D)}, "must lie in 0 to 29"),
        ({"indices": np.arange(K * R)[::-1]}, "ascend within each column"),
        ({"indices": np.repeat(np.arange(K), R)}, "without repeats"),
        ({"indptr": np.array([0, 8, 4, 12])}, "'indptr' must ascend"),
        ({"indptr": np.array([0, 4, 8, 11])}, "'indptr' must ascend"),
        ({"feature_names": ("a", "b")}, "2 feature names for 30 columns"),
        ({"fill": np.zeros(3)}, "'fill' has shape"),
        ({"decoder": np.zeros(D)}, "decoder of shape"),
        ({"certificate": {"loss": object()}}, r"certificate\['loss'\]"),
    ],
)
def test_an_encoder_that_is_none_is_refused_and_nothing_is_written(tmp_path, changes, message):
    with pytest.raises(InvalidInput, match=message):
        write_encoder(tmp_path / "e.zarr", made(**changes))
    assert list(tmp_path.iterdir()) == []


def test_an_encoder_is_overwritten_only_when_asked(stored):
    with pytest.raises(OutputExists):
        write_encoder(stored, made(seed=1))
    write_encoder(stored, made(seed=1), overwrite=True)
    np.testing.assert_array_equal(read_encoder(stored).decoder, made(seed=1).decoder)


def test_an_encoder_that_does_not_read_back_never_appears(tmp_path, monkeypatch):
    put = zarr.storage.LocalStore.set

    async def losing(self, key, value):
        if not key.startswith("decoder/c"):
            await put(self, key, value)

    monkeypatch.setattr(zarr.storage.LocalStore, "set", losing)
    with pytest.raises(StorageError, match="does not read back"):
        write_encoder(tmp_path / "e.zarr", made())
    assert list(tmp_path.iterdir()) == []
