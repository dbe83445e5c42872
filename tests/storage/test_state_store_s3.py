"""A checkpoint in an object store that speaks S3, from fit to fit."""

from collections.abc import Iterator

import numpy as np
import pytest

from spae_dask import SparseEncoder
from spae_dask.storage.checkpoint_record import remove_checkpoint, summarize
from spae_dask.storage.state_store import states_at
from tests.estimators.sources import Watched, spread

pytest.importorskip("s3fs", reason="needs spae-dask[s3]")
pytest.importorskip("moto", reason="needs a server that speaks S3")

SETTINGS = {"AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing", "AWS_DEFAULT_REGION": "us-east-1"}


@pytest.fixture(scope="module")
def bucket() -> Iterator[str]:
    import boto3
    import s3fs
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    host, port = server.get_host_and_port()
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (SETTINGS | {"AWS_ENDPOINT_URL": f"http://{host}:{port}"}).items():
            patch.setenv(name, value)
        boto3.client("s3").create_bucket(Bucket="runs")
        s3fs.S3FileSystem.clear_instance_cache()
        yield "s3://runs"
    server.stop()


def test_a_fit_goes_on_from_an_object_store(bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spae_dask.engine.spans.MIN_SPAN_NBYTES", 1)
    monkeypatch.setattr("spae_dask.engine.spans.STATE_WORTH", 0)
    X = spread(np.random.default_rng(0), 3000, 6)
    whole = SparseEncoder(2, n_nonzero=3).fit(Watched(X, 300))
    place = f"{bucket}/fit/7"
    first = SparseEncoder(2, n_nonzero=3, checkpoint=place).fit(Watched(X, 300))
    store = states_at(place)
    (folder,) = store.folders()
    assert [name for name in store.files(folder) if name.endswith(".state")] == ["2-00000.state"]
    rows = Watched(X, 300)
    again = SparseEncoder(2, n_nonzero=3, checkpoint=place).fit(rows)
    assert len(rows.reads) == 3
    assert whole.components_.tobytes() == first.components_.tobytes() == again.components_.tobytes()
    assert whole.certificate_ == again.certificate_
    found = summarize(place)
    assert found.passes[0].n_done == 10
    assert found.seconds_old < 3600
    remove_checkpoint(place)
    assert store.all_files() == []
