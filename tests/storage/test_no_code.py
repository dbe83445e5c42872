"""No data run code, whatever the installed numcodecs thinks of pickles."""

import json
import os
import pickle
from pathlib import Path

import numcodecs.pickles
import numpy as np
import pytest
import xarray as xr
import zarr

from spae_dask import load_encoder, open_matrix
from spae_dask.errors import InvalidInput
from spae_dask.estimators.saved import save_encoder
from spae_dask.storage.ingesting.ingest import ingest
from tests.estimators.sources import batch_encoder

X = np.random.default_rng(0).normal(size=(30, 4))


class Payload:
    def __init__(self, path: Path) -> None:
        self.path = str(path)

    def __reduce__(self) -> tuple[object, ...]:
        return os.mkdir, (self.path,)


def poison(array: Path, mark: Path, codecs: dict[str, object]) -> None:
    """Have the chunks of an array of format 2 be pickles that make a folder."""
    metadata = json.loads((array / ".zarray").read_text()) | codecs
    (array / ".zarray").write_text(json.dumps(metadata))
    for chunk in array.glob("[0-9]*"):
        chunk.write_bytes(pickle.dumps(Payload(mark)))


POISONS = [
    {"filters": [{"id": "pickle"}], "compressor": None},
    {"filters": None, "compressor": {"id": "pickle"}},
    {"filters": [{"id": "vlen-utf8"}, {"id": "pickle"}], "compressor": None},
    {"filters": [{"id": "vlen-utf8"}], "compressor": {"id": "pickle"}},
]


@pytest.fixture(autouse=True)
def old_numcodecs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which decodes pickles without a word."""
    monkeypatch.setattr(numcodecs.pickles, "ALLOW_UNSAFE_PICKLE_DECODE", True)


@pytest.mark.parametrize("codecs", POISONS)
def test_matrices_do_not(tmp_path: Path, codecs: dict[str, object]) -> None:
    zarr.create_array(tmp_path / "x.zarr", data=X, chunks=(10, 4), zarr_format=2)
    poison(tmp_path / "x.zarr", tmp_path / "mark", codecs)
    with pytest.raises(InvalidInput):
        batch_encoder(n_components=1, n_nonzero=2).fit(tmp_path / "x.zarr")
    assert not (tmp_path / "mark").exists()


@pytest.mark.parametrize("codecs", POISONS)
def test_names_of_columns_do_not(tmp_path: Path, codecs: dict[str, object]) -> None:
    group = zarr.create_group(tmp_path / "x.zarr", zarr_format=2, attributes={"encoding-type": "anndata"})
    group.create_array("X", data=X, chunks=(10, 4))
    var = group.create_group("var", attributes={"_index": "gene"})
    var.create_array("gene", shape=(4,), dtype="str")[...] = np.array(list("abcd"))
    assert open_matrix(tmp_path / "x.zarr").feature_names == tuple("abcd")
    poison(tmp_path / "x.zarr" / "var" / "gene", tmp_path / "mark", codecs)
    with pytest.raises(InvalidInput):
        open_matrix(tmp_path / "x.zarr")
    assert not (tmp_path / "mark").exists()


@pytest.mark.parametrize("codecs", POISONS)
@pytest.mark.parametrize("read", ["open", "ingest"])
def test_coordinates_of_grids_do_not(tmp_path: Path, codecs: dict[str, object], read: str) -> None:
    made = xr.Dataset({"t": (("time", "lat", "lon"), X.reshape(30, 2, 2))}, {"lat": ["south", "north"]})
    made.to_zarr(tmp_path / "x.zarr", zarr_format=2, consolidated=False)
    assert open_matrix(tmp_path / "x.zarr").feature_names[0] == "lat=south, lon=0"  # type: ignore[attr-defined]
    poison(tmp_path / "x.zarr" / "lat", tmp_path / "mark", codecs)
    with pytest.raises(InvalidInput):
        open_matrix(tmp_path / "x.zarr") if read == "open" else ingest(tmp_path / "x.zarr", tmp_path / "y.zarr")
    assert not (tmp_path / "mark").exists()


@pytest.mark.parametrize("codecs", POISONS)
def test_encoders_do_not(tmp_path: Path, codecs: dict[str, object]) -> None:
    save_encoder(batch_encoder(n_components=1, n_nonzero=2).fit(X), tmp_path / "e.zarr")
    encoder = zarr.open_group(tmp_path / "e.zarr", mode="r")
    copy = zarr.create_group(tmp_path / "f.zarr", zarr_format=2, attributes=dict(encoder.attrs))
    for name, array in encoder.arrays():
        copy.create_array(name, data=array[...])
    load_encoder(tmp_path / "f.zarr")
    poison(tmp_path / "f.zarr" / "decoder", tmp_path / "mark", codecs)
    with pytest.raises(InvalidInput):
        load_encoder(tmp_path / "f.zarr")
    assert not (tmp_path / "mark").exists()
