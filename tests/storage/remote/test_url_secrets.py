"""Passwords and signatures in URLs are refused at every door, and told by no message."""

import traceback
from pathlib import Path

import numpy as np
import pytest
import zarr

from spae_dask import load_encoder, open_matrix
from spae_dask.errors import InvalidInput
from spae_dask.estimators.saved import save_encoder
from spae_dask.storage.ingesting.ingest import ingest
from spae_dask.storage.remote.address import redacted, refuse_secrets, without_secrets
from tests.estimators.sources import batch_encoder

SECRET = "s3cret"
WITH_SECRETS = [
    f"https://bob:{SECRET}@example.org/x.zarr",
    f"https://example.org/x.zarr?X-Amz-Signature={SECRET}",
    f"HTTPS://example.org/x.zarr?sig={SECRET}",
    f"https://example.org/x?sig={SECRET}.parquet",
    f"s3://bucket/x.zarr?X-Amz-Signature={SECRET}",
    f"ftp://bob:{SECRET}@example.org/x.zarr",
    f"ftp://bob:{SECRET}@example.org/x.parquet",
    f"ftp://bob:{SECRET}@example.org/x.npy",
    f"ftp://bob:{SECRET}@example.org/x.h5ad",
    f"ftp://bob:{SECRET}@example.org/x.csv",
    f"ftp://bob:{SECRET}@example.org/x.nc",
    f"memory://x.zarr?sig={SECRET}",
    f"simplecache::https://bob:{SECRET}@example.org/x.zarr",
    f"zip://x.zarr::https://bob:{SECRET}@example.org/x.zip",
    f"simplecache::https://example.org/x.zarr#{SECRET}",
    f"abfs://box@account.example.org/x.zarr?sig={SECRET}",
    f"zip://x.zarr::https://127.0.0.1:1/x.zip?token={SECRET}",
]


@pytest.mark.parametrize("url", WITH_SECRETS)
@pytest.mark.parametrize(
    "door",
    [open_matrix, load_encoder, lambda url: ingest(url, "y.zarr")],
    ids=["open_matrix", "load_encoder", "ingest"],
)
def test_no_door_takes_a_url_with_a_secret_or_repeats_it(url, door):
    with pytest.raises(InvalidInput, match="which would appear in logs and records") as caught:
        door(url)
    assert SECRET not in "".join(traceback.format_exception(caught.value)[-1:])


@pytest.mark.parametrize("url", WITH_SECRETS)
def test_texts_are_cleaned(url):
    assert SECRET not in redacted(url)
    if "#" not in url:
        assert SECRET not in without_secrets(f"cannot read '{url}', nor {url}: refused")


@pytest.mark.parametrize(
    "text",
    [
        f"invalid address 'bob:{SECRET}@127.0.0.1:8786'; maybe: ipv6 needs brackets",
        f"cannot connect to bob:{SECRET}@[::1]:8786",
        f"Name or service not known: bob:{SECRET}@scheduler.example.org",
        f"tcp://bob:a/{SECRET}@host:8786 is not allowed",
    ],
)
def test_texts_of_other_libraries_are_cleaned(text):
    assert SECRET not in without_secrets(text)


@pytest.mark.parametrize(
    "text",
    [
        "/data/who?/a#b@c.zarr",
        "file:///data/who?/a#b.zarr",
        "C:x@y",
        "s3://bucket/x.zarr",
        "see https://example.org/page#part, or ask tcp://10.0.0.5:8786?",
        "bob@example.org wrote: is it?",
        "image:1.2@sha256:0a1b or registry.org:5000/image:1.2@sha256:0a1b",
        "http://localhost:9000/bucket/a@b.zarr",
    ],
)
def test_what_holds_no_secret_is_left_alone(text):
    assert without_secrets(text) == text


@pytest.mark.parametrize(
    "path",
    [
        "/data/who?.zarr",
        "file:///data/a#b?c@d:e@f.zarr",
        "local:///data/a?b",
        "a?b",
        "sftp://bob@host/x.zarr",
        "abfs://box@account.example.org/x.zarr",
        "github://organisation:repository@main/x.zarr",
        "simplecache::s3://bucket/x.zarr",
    ],
)
def test_paths_may_hold_any_character_and_users_have_names(path):
    refuse_secrets(path)


def test_a_path_with_odd_characters_is_read_and_recorded_whole(tmp_path: Path):
    x = np.random.default_rng(0).normal(size=(20, 5))
    path = tmp_path / "who#is@it.zarr"
    zarr.save_array(path, x)
    encoder = batch_encoder(2, n_nonzero=2).fit(f"file://{path}")
    save_encoder(encoder, tmp_path / "e.zarr")
    assert load_encoder(tmp_path / "e.zarr").provenance_["source"] == str(path)


@pytest.mark.parametrize("given", ["relative.zarr", "./relative.zarr", "../{folder}/relative.zarr"])
def test_the_record_names_data_by_a_path_that_holds_anywhere(given, tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    zarr.save_array("relative.zarr", np.random.default_rng(0).normal(size=(20, 5)))
    encoder = batch_encoder(2, n_nonzero=2).fit(given.format(folder=tmp_path.name))
    save_encoder(encoder, "e.zarr")
    assert load_encoder("e.zarr").provenance_["source"] == str(tmp_path / "relative.zarr")
