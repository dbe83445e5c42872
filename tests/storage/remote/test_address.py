"""URLs: what they name in the end."""

import pytest

from spae_dask.errors import InvalidInput
from spae_dask.storage.remote.address import parse_address, place_of_url


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
    with pytest.raises(InvalidInput, match="is not valid"):
        parse_address("https://host:port/x.zarr")


def test_a_password_that_no_rule_finds_is_not_shown() -> None:
    with pytest.raises(InvalidInput, match="begins with https:// is not valid") as caught:
        parse_address("https://user:has/hush-hush@127.0.0.1:1/x.zarr")
    assert "hush" not in str(caught.value)
