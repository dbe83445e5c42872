"""An encoder appears whole, right and asked for, or not at all."""

import numpy as np
import pytest
import zarr

from spae_dask.errors import InvalidInput, OutputExists, StorageError
from spae_dask.storage.artifacts.artifact_reading import read_encoder
from spae_dask.storage.artifacts.artifact_writing import write_encoder
from tests.storage.artifacts.encoders import D, K, R, made


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
    with pytest.raises(StorageError, match="reads back differently"):
        write_encoder(tmp_path / "e.zarr", made())
    assert list(tmp_path.iterdir()) == []
