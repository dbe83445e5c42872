"""A checkpoint in an object store that speaks S3: from fit to fit, and through its faults."""

import io
import tracemalloc
from collections.abc import Iterator

import boto3
import numpy as np
import pytest

from spae_dask import SparseEncoder, retry
from spae_dask.errors import NotFound, StorageError
from spae_dask.retry import RetryPolicy
from spae_dask.storage.checkpoints import object_states
from spae_dask.storage.checkpoints.checkpoint_record import Job, begin_or_resume, states_at
from spae_dask.storage.checkpoints.checkpoint_removal import remove_checkpoint
from spae_dask.storage.checkpoints.checkpoint_summary import summarize
from spae_dask.storage.remote import object_requests
from tests.conftest import OptionsSetter
from tests.estimators.sources import Watched, batch_encoder, spread
from tests.s3_service import KEY, SECRET, FlakyProxy, flaky_proxy

X = spread(np.random.default_rng(0), 3000, 6)


@pytest.fixture
def many_spans(options: OptionsSetter) -> None:
    options(min_span_nbytes=1, states_per_span=0)


@pytest.fixture
def proxy(bucket: str, s3_endpoint: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[FlakyProxy]:
    monkeypatch.setattr(retry, "POLICY", RetryPolicy(first_wait=0.002))
    with flaky_proxy(s3_endpoint) as proxy:
        monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.endpoint)
        yield proxy


def bits(encoder: SparseEncoder) -> bytes:
    return encoder.components_.tobytes() + encoder.decoder_.tobytes()


def test_a_fit_goes_on_from_an_object_store(bucket: str, many_spans: None) -> None:
    whole = batch_encoder(2, n_nonzero=3).fit(Watched(X, 300))
    place = f"{bucket}/fit/7"
    first = batch_encoder(2, n_nonzero=3, checkpoint=place).fit(Watched(X, 300))
    store = states_at(place)
    (folder,) = store.folders()
    assert [name for name in store.files(folder) if name.endswith(".state")] == ["2-00000.state"]
    rows = Watched(X, 300)
    again = batch_encoder(2, n_nonzero=3, checkpoint=place).fit(rows)
    assert len(rows.reads) == 3
    assert bits(whole) == bits(first) == bits(again)
    assert whole.certificate_ == again.certificate_
    found = summarize(place)
    assert found.passes[0].n_done == 10
    assert found.seconds_old < 3600
    remove_checkpoint(place)
    assert store.all_files() == []


@pytest.mark.parametrize("fault", [503, 429, "reset"])
def test_a_service_that_refuses_every_kind_of_request_at_first_changes_no_bit(
    fault: object, proxy: FlakyProxy, bucket: str, many_spans: None
) -> None:
    whole = batch_encoder(2, n_nonzero=3).fit(Watched(X, 300))
    place = f"{bucket}/fit"
    words = ("checkpoint.json", "about.json", "0-00003.state", "1-00000.state", "2-00000.state", "prefix=fit")
    proxy.script = {word: [fault] * 4 for word in words}
    assert bits(batch_encoder(2, n_nonzero=3, checkpoint=place).fit(Watched(X, 300))) == bits(whole)
    assert not any(proxy.script.values()), "each word was met"
    proxy.script = {"checkpoint.json": [fault] * 4, "2-00000.state": [fault] * 4}
    rows = Watched(X, 300)
    assert bits(batch_encoder(2, n_nonzero=3, checkpoint=place).fit(rows)) == bits(whole)
    assert len(rows.reads) == 3, "only the sample by which data are known"
    assert not any(proxy.script.values())


def test_a_record_whose_answer_is_lost_is_the_run_s_own(proxy: FlakyProxy, bucket: str) -> None:
    job = Job("fit", {"name": "x"}, {"seed": 1}, {"spae_dask": "1"})
    proxy.script = {"PUT": ["truncate"]}  # stored, but its writer does not hear of it
    begin_or_resume(states_at(f"{bucket}/run"), job)
    assert sum(n for line, n in proxy.seen.items() if line.startswith("PUT")) >= 1
    assert summarize(f"{bucket}/run").job == job


def test_a_service_that_goes_away_ends_the_fit_and_what_was_stored_serves(
    proxy: FlakyProxy, bucket: str, many_spans: None
) -> None:
    whole = batch_encoder(2, n_nonzero=3).fit(Watched(X, 300))
    place = f"{bucket}/fit"
    proxy.script, proxy.forever = {f"PUT /{bucket.removeprefix('s3://')}/fit/01-": [None] * 6 + [503]}, True
    with pytest.raises(StorageError) as caught:
        batch_encoder(2, n_nonzero=3, checkpoint=place).fit(Watched(X, 300))
    told = str(caught.value)
    assert f"{bucket}/fit/01-" in told
    assert f".state at {proxy.endpoint} cannot be written" in told
    assert "HTTP 503 SlowDown; 7 tries in" in told
    assert told.count("Stored states are kept") == 1
    assert max(n for line, n in proxy.seen.items() if line.startswith("PUT")) == 7, "tries are not multiplied"
    assert SECRET not in told
    assert KEY not in told
    proxy.script = {}
    n_done = summarize(place).passes[0].n_done
    assert n_done >= 4
    rows = Watched(X, 300)
    assert bits(batch_encoder(2, n_nonzero=3, checkpoint=place).fit(rows)) == bits(whole)
    assert len(rows.reads) == 3 + 10 - n_done


def test_a_bucket_that_is_not_there_and_keys_that_are_refused_are_told_apart(proxy: FlakyProxy, bucket: str) -> None:
    with pytest.raises(NotFound, match="no such bucket"):
        batch_encoder(2, n_nonzero=3, checkpoint="s3://no-such-bucket/run").fit(X)
    proxy.script, proxy.forever = {"PUT": [403]}, True
    with pytest.raises(StorageError, match=rf"{bucket}/run/checkpoint.json .*access was denied.*403 AccessDenied"):
        batch_encoder(2, n_nonzero=3, checkpoint=f"{bucket}/run").fit(X)


class TestLargeStates:
    """Parts of 5 MiB, the least that S3 takes."""

    PART = 5 << 20
    CONTENT = np.random.default_rng(1).integers(0, 256, 23 << 20, dtype=np.uint8)

    @pytest.fixture(autouse=True)
    def small_parts(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(object_requests, "PART_NBYTES", self.PART)
        monkeypatch.setattr(object_states, "PART_NBYTES", self.PART)
        monkeypatch.setattr(object_states, "REQUEST_NBYTES", 1 << 20)

    def pieces(self) -> list[bytes | memoryview]:
        return [b"head", memoryview(self.CONTENT.data), b"tail"]

    def test_go_in_parts_each_of_which_is_repeated_and_come_in_ranges(self, proxy: FlakyProxy, bucket: str) -> None:
        store = states_at(f"{bucket}/run")
        proxy.script = {"partNumber=2": [503] * 3, "partNumber=4": ["reset"], "uploads": [503]}
        store.write("01-core-ab/0-00000.state", self.pieces())
        assert not any(proxy.script.values())
        parts = {line.partition("&")[0].partition("?")[2] for line in proxy.seen if "partNumber" in line}
        assert parts == {f"partNumber={number}" for number in range(1, 6)}
        room = np.zeros_like(self.CONTENT)
        proxy.script = {"GET /": [503, "reset", "truncate"]}
        with store.open("01-core-ab/0-00000.state") as file:
            assert file.read(4) == b"head"
            assert file.readinto(memoryview(room.data)) == room.nbytes  # type: ignore[attr-defined]
            assert file.read(9) == b"tail"
        np.testing.assert_array_equal(room, self.CONTENT)

    def test_are_not_copied_whole(self, bucket: str) -> None:
        store = states_at(f"{bucket}/run")
        store.write("0-00000.state", [b"warm"])
        tracemalloc.start()
        try:
            store.write("0-00001.state", self.pieces())
            written = tracemalloc.get_traced_memory()[1]
            tracemalloc.reset_peak()
            room = np.empty_like(self.CONTENT)
            with store.open("0-00001.state") as file:
                assert file.read(4) == b"head"
                file.readinto(memoryview(room.data))  # type: ignore[attr-defined]
            read = tracemalloc.get_traced_memory()[1] - room.nbytes
        finally:
            tracemalloc.stop()
        assert written < self.CONTENT.nbytes / 2
        assert read < self.CONTENT.nbytes / 2

    def test_that_fail_leave_nothing_and_the_old_one_stays(self, proxy: FlakyProxy, bucket: str) -> None:
        store = states_at(f"{bucket}/run")
        store.write("0-00000.state", [b"old"])
        proxy.script, proxy.forever = {"partNumber=3": [503]}, True
        with pytest.raises(StorageError, match=r"0-00000.state at .* cannot be written: .*SlowDown.*; 7 tries in"):
            store.write("0-00000.state", self.pieces())
        assert sum(n for line, n in proxy.seen.items() if "partNumber=3" in line) == 7
        with store.open("0-00000.state") as file:
            assert file.read() == b"old"
        client = boto3.client("s3", aws_access_key_id=KEY, aws_secret_access_key=SECRET, region_name="us-east-1")
        assert not client.list_multipart_uploads(Bucket=bucket.removeprefix("s3://")).get("Uploads")
        client.close()


def test_a_state_that_is_removed_while_it_is_read_is_not_there(bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_states, "REQUEST_NBYTES", 100)
    store = states_at(f"{bucket}/run")
    store.write("0-00000.state", [bytes(5000)])

    def read() -> None:
        with store.open("0-00000.state") as file:
            assert file.read(10) == bytes(10)
            store.remove("0-00000.state")
            file.read()

    with pytest.raises(FileNotFoundError):
        read()


def test_empty_objects_that_consoles_make_for_folders_are_no_files(bucket: str) -> None:
    client = boto3.client("s3", aws_access_key_id=KEY, aws_secret_access_key=SECRET, region_name="us-east-1")

    def put(key: str, body: bytes) -> None:
        client.put_object(Bucket=bucket.removeprefix("s3://"), Key=key, Body=io.BytesIO(body))

    put("run/", b"")
    put("running/x.json", b"{}")
    store = states_at(f"{bucket}/run")
    assert store.files("") == store.all_files() == []
    begin_or_resume(store, Job("fit", {"name": "x"}, {}, {}))
    put("run/01-core-ab/", b"")
    client.close()
    store.write("01-core-ab/0-00000.state", [b"?"])
    assert (store.files(""), store.folders()) == (["checkpoint.json"], ["01-core-ab"])
    assert store.files("01-core-ab") == ["0-00000.state"]
    remove_checkpoint(f"{bucket}/run")
    assert [each.path for each in states_at(f"{bucket}/running").all_files()] == ["x.json"]
