"""URLs: what they name in the end, and no secret in them that could be shown or recorded."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from spae_dask import load_encoder, open_matrix
from spae_dask.errors import InvalidInput
from spae_dask.storage.ingesting.ingest import ingest
from spae_dask.storage.remote.address import parse_address, place_of_url, refuse_secrets

SECRET = "hush-hush"

URLS = [
    f"ftp://user:{SECRET}@127.0.0.1:1/x.zarr",
    f"ftp://user:{SECRET}@127.0.0.1:1/x.csv",
    f"sftp://user:{SECRET}@127.0.0.1:1/x.npy",
    f"sftp://user:{SECRET}@127.0.0.1:1/x.nc",
    f"s3://user:{SECRET}@bucket/x.parquet",
    f"simplecache::https://user:{SECRET}@127.0.0.1:1/x.zarr",
    f"http://user:{SECRET}@127.0.0.1:1/x.zarr",
    f"https://user:has/{SECRET}@127.0.0.1:1/x.zarr",
    f"abfs://box@account.example.org/x.zarr?sig={SECRET}",
    f"zip://x.zarr::https://127.0.0.1:1/x.zip?token={SECRET}",
]


@pytest.mark.parametrize("url", URLS)
@pytest.mark.parametrize("door", [open_matrix, load_encoder, lambda url: ingest(url, Path("never.zarr"))])
def test_a_url_with_a_secret_is_refused_without_being_shown(url: str, door: Callable[[Any], Any]) -> None:
    with pytest.raises(InvalidInput) as caught:
        door(url)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        "/data/a:b@c?d.zarr",
        "file:///data/a:b@c?d.zarr",
        "abfs://box@account.example.org/x.zarr",
        "sftp://user@host/x.zarr",
        "github://organisation:repository@main/x.zarr",
        "simplecache::s3://bucket/x.zarr",
    ],
)
def test_what_only_looks_like_a_secret_is_none(url: str) -> None:
    refuse_secrets(url)


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("x.zarr", "x.zarr"),
        ("file:///x.zarr", "/x.zarr"),
        ("local:///x.zarr", "/x.zarr"),
        ("simplecache::file:///x.zarr", "/x.zarr"),
        ("filecache::blockcache::S3A://b/x", "s3://b/x"),
        ("gcs://b/x", "gs://b/x"),
        ("https://h/x", "https://h/x"),
    ],
)
def test_a_place_has_one_name(url: str, place: str) -> None:
    assert place_of_url(url) == place


def test_a_port_that_is_none_is_an_error_of_ours() -> None:
    with pytest.raises(InvalidInput, match="is not a URL of a store"):
        parse_address("https://host:port/x.zarr")
