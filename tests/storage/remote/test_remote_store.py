"""Requests to an S3 service: repeated when it stumbles, explained when it refuses, and never a secret told."""

import logging
import os
import pickle
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import zarr

from spae_dask import open_matrix, retry
from spae_dask.errors import InvalidInput, NotFound, StorageError
from spae_dask.retry import RetryPolicy
from spae_dask.storage.remote import object_clients
from spae_dask.storage.remote.address import parse_address
from spae_dask.storage.remote.remote_store import open_remote
from tests.s3_service import KEY, SECRET, FlakyProxy, flaky_proxy, make_public

X = np.random.default_rng(0).normal(size=(60, 5)).astype(np.float32)


def put_array(url: str, values: np.ndarray, **options: object) -> None:
    array = zarr.create_array(
        open_remote(parse_address(url), read_only=False), shape=values.shape, dtype=values.dtype, chunks=(20, 5)
    )
    array[...] = values


def rows(blocks: object) -> np.ndarray:
    return np.concatenate([blocks.read(i) for i in range(len(blocks.bounds) - 1)])


@pytest.fixture
def proxy(bucket: str, s3_endpoint: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[FlakyProxy]:
    """Before a bucket with an array x.zarr; waits are short."""
    put_array(f"{bucket}/x.zarr", X)
    monkeypatch.setattr(retry, "POLICY", RetryPolicy(first_wait=0.002))
    with flaky_proxy(s3_endpoint) as proxy:
        monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.endpoint)
        yield proxy


def test_a_store_is_read_as_a_local_one_is_and_pickled(bucket: str) -> None:
    put_array(f"{bucket}/deep/x.zarr", X)
    blocks = open_matrix(f"{bucket}/deep/x.zarr/")
    assert blocks.describe() == f"{bucket}/deep/x.zarr"
    np.testing.assert_array_equal(rows(pickle.loads(pickle.dumps(blocks))), X)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", ["<f4", ">f8", "i2"])
def test_npy_files_are_read_by_range_requests(bucket: str, order: str, dtype: str, tmp_path: Path) -> None:
    values = np.asarray(X * 100, dtype=dtype, order=order)
    np.save(tmp_path / "x.npy", values)
    store = open_remote(parse_address(f"{bucket}/d"), read_only=False)
    content = (tmp_path / "x.npy").read_bytes()
    zarr.core.sync.sync(store.set("x.npy", zarr.core.buffer.default_buffer_prototype().buffer.from_bytes(content)))
    blocks = pickle.loads(pickle.dumps(open_matrix(f"{bucket}/d/x.npy")))
    np.testing.assert_array_equal(rows(blocks), values)
    assert blocks.dtype == values.dtype
    with pytest.raises(NotFound, match=f"there is no file {bucket}/d/y.npy"):
        open_matrix(f"{bucket}/d/y.npy")


@pytest.mark.parametrize("fault", [503, 429, "reset", "truncate", ("delay", 1.0)])
def test_a_fault_that_passes_is_passed_over_and_told(
    proxy: FlakyProxy, fault: object, bucket: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    if isinstance(fault, tuple):
        monkeypatch.setattr(object_clients, "READ_SECONDS", 0.5)
    proxy.script = {"x.zarr/c/1/0": [fault] * (1 if isinstance(fault, tuple) else 4)}
    with caplog.at_level(logging.INFO, "spae_dask.storage"):
        np.testing.assert_array_equal(rows(open_matrix(f"{bucket}/x.zarr")), X)
    told = [record.getMessage() for record in caplog.records if "x.zarr/c/1/0" in record.getMessage()]
    assert len(told) == (1 if isinstance(fault, tuple) else 4)
    assert "try 2 of 7" in told[0]


@pytest.mark.parametrize(
    ("fault", "cause"),
    [
        (503, "overloaded or failing.*HTTP 503 SlowDown; 7 tries"),
        (429, "overloaded or failing.*HTTP 429.*7 tries"),
        ("reset", "no connection could be made, or it broke.*7 tries"),
        ("truncate", "no connection could be made, or it broke.*7 tries"),
        (403, r"access was denied \(HTTP 403 AccessDenied\)\. Check the credentials"),
    ],
)
def test_a_fault_that_stays_is_a_storage_error_that_says_so(
    proxy: FlakyProxy, fault: object, cause: str, bucket: str
) -> None:
    blocks = open_matrix(f"{bucket}/x.zarr")
    proxy.script, proxy.forever = {"x.zarr/c/1/0": [fault]}, True
    with pytest.raises(StorageError, match=f"{bucket}/x.zarr/c/1/0 at {proxy.endpoint} cannot be read: .*{cause}"):
        rows(blocks)
    if fault == 403:
        assert sum(n for line, n in proxy.seen.items() if "c/1/0" in line) == 1, "a refusal is not asked for again"


def test_a_server_that_never_answers_is_left_in_time(
    proxy: FlakyProxy, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retry, "POLICY", RetryPolicy(tries=2, first_wait=0.002))
    monkeypatch.setattr(object_clients, "READ_SECONDS", 0.5)
    proxy.script, proxy.forever = {"x.zarr": [("delay", 60.0)]}, True
    with pytest.raises(StorageError, match=r"did not answer in time.*2 tries"):
        open_matrix(f"{bucket}/x.zarr")
    assert sum(n for line, n in proxy.seen.items() if "x.zarr" in line) == 2


@pytest.mark.parametrize(
    ("endpoint", "cause"),
    [("http://127.0.0.1:9", "no connection could be made"), ("http://no.such.host.invalid", "host name is not known")],
)
def test_a_service_that_is_not_there_is_a_storage_error(
    bucket: str, monkeypatch: pytest.MonkeyPatch, endpoint: str, cause: str
) -> None:
    monkeypatch.setattr(retry, "POLICY", RetryPolicy(first_wait=0.001))
    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
    with pytest.raises(StorageError, match=f"{bucket}/x.zarr.* at {endpoint} cannot be read: .*{cause}"):
        open_matrix(f"{bucket}/x.zarr")


def test_what_is_missing_is_told_apart(bucket: str) -> None:
    with pytest.raises(NotFound, match="no such bucket"):
        open_matrix("s3://no-such-bucket/x.zarr")
    with pytest.raises(NotFound, match=r"nothing at .*the bucket exists"):
        open_matrix(f"{bucket}/x.zarr")
    put_array(f"{bucket}/folder/x.zarr", X)
    with pytest.raises(NotFound, match=r"contains objects \(x.zarr\), but no Zarr metadata"):
        open_matrix(f"{bucket}/folder")


def test_a_chunk_that_is_lost_is_counted(bucket: str) -> None:
    put_array(f"{bucket}/x.zarr", X)
    zarr.core.sync.sync(open_remote(parse_address(f"{bucket}/x.zarr"), read_only=False).delete("c/1/0"))
    from spae_dask.storage.sources.stored_chunks import check_chunks

    chunks = check_chunks(open_matrix(f"{bucket}/x.zarr"))[1]
    assert (chunks.n_missing, chunks.first_missing) == (1, ("c/1/0",))


def test_requests_are_signed_unless_there_are_no_keys_or_none_are_wanted(
    proxy: FlakyProxy, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def signed(**options: object) -> bool:
        proxy.headers_seen.clear()
        np.testing.assert_array_equal(rows(open_matrix(f"{bucket}/x.zarr", storage_options=options)), X)
        found = {"authorization" in {name.lower() for name in headers} for headers in proxy.headers_seen}
        assert len(found) == 1
        return found.pop()

    assert signed()
    with pytest.raises(StorageError, match=r"access was denied.*was not signed.*AWS_SKIP_SIGNATURE"):
        signed(anon=True)
    for key in ("zarr.json", "c/0/0", "c/1/0", "c/2/0"):
        make_public(proxy.endpoint, f"{bucket.removeprefix('s3://')}/x.zarr/{key}")
    assert not signed(anon=True)
    monkeypatch.setenv("AWS_SKIP_SIGNATURE", "true")
    assert not signed()
    monkeypatch.delenv("AWS_SKIP_SIGNATURE")
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    assert not signed()


def test_profiles_and_endpoints_come_from_files_too(
    proxy: FlakyProxy, bucket: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for variable in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_ENDPOINT_URL", "AWS_REGION"):
        monkeypatch.delenv(variable)
    Path(os.environ["AWS_CONFIG_FILE"]).write_text(
        f"[profile lab]\nregion = eu-west-3\nendpoint_url = {proxy.endpoint}\n"
        "aws_access_key_id = from-file\naws_secret_access_key = hidden\n"
    )
    proxy.headers_seen.clear()
    open_matrix(f"{bucket}/x.zarr", storage_options={"profile": "lab"})
    told = {name.lower(): value for name, value in proxy.headers_seen[0].items()}["authorization"]
    assert "Credential=from-file/" in told
    assert "/eu-west-3/" in told
    with pytest.raises(InvalidInput, match=r"\(nope\) could not be found.*AWS_PROFILE"):
        open_matrix(f"{bucket}/x.zarr", storage_options={"profile": "nope"})


def test_neither_pickles_nor_texts_hold_a_secret(bucket: str, proxy: FlakyProxy) -> None:
    blocks = open_matrix(f"{bucket}/x.zarr")
    rows(blocks)
    proxy.script, proxy.forever = {"x.zarr/c/1/0": [403]}, True
    with pytest.raises(StorageError) as caught:
        rows(blocks)
    for text in (pickle.dumps(blocks), repr(blocks).encode(), str(caught.value).encode(), pickle.dumps(caught.value)):
        assert SECRET.encode() not in text
        assert KEY.encode() not in text


def test_a_worker_without_credentials_says_that_it_has_none(bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    put_array(f"{bucket}/x.zarr", X)
    sent = pickle.dumps(open_matrix(f"{bucket}/x.zarr"))
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    with pytest.raises(StorageError, match="on every worker too"):
        pickle.loads(sent)


@pytest.mark.parametrize(
    ("url", "options", "message"),
    [
        ("s3://u:hush@b/x.zarr", None, "password"),
        ("https://u:hush@h/x.zarr", None, "password"),
        ("https://h/x.zarr?sig=hush", None, "query"),
        ("s3://b", None, "does not name a store"),
        ("s3://", None, "does not name a store"),
        ("s3://b/a//x.zarr", None, "does not name a store"),
        ("s3://b/../x.zarr", None, "does not name a store"),
        ("s3://b/x.zarr", {"secret": "hush"}, "Secrets are not accepted"),
        ("s3://b/x.zarr", {"anon": "hush"}, "is a str; give True or False"),
        ("s3://b/x.zarr", {"region": 3}, "is a int; give a string"),
        ("s3://b/x.zarr", {"endpoint_url": "http://u:hush@h"}, "not of the form"),
        ("/tmp/x.zarr", {"anon": True}, "storage_options are for URLs"),
    ],
)
def test_addresses_that_cannot_be_are_refused_and_not_repeated(url: str, options: object, message: str) -> None:
    with pytest.raises(InvalidInput, match=message) as caught:
        open_matrix(url, storage_options=options)
    assert "hush" not in str(caught.value)
