"""Against Ceph's S3 gateway: wrong keys are refused, and a gateway killed in the middle of a pass is waited for."""

import logging
import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import boto3
import numpy as np
import pytest
import zarr

from spae_dask import open_matrix
from spae_dask.errors import StorageError
from spae_dask.estimators.writing import transform_to_zarr
from spae_dask.storage.ingesting.ingest import ingest
from spae_dask.storage.remote.address import parse_address
from spae_dask.storage.remote.remote_store import open_remote
from tests.estimators.sources import batch_encoder

SCRIPTS = Path(__file__).parent / "labs" / "s3"
PORT, MON_PORT = "18437", "16890"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.chaos,
    pytest.mark.skipif(
        any(shutil.which(name) is None for name in ("ceph-mon", "ceph-osd", "radosgw")),
        reason="needs ceph-mon, ceph-osd and radosgw: see tests/integration/labs/s3/ceph-up.sh",
    ),
]

X = np.random.default_rng(0).normal(size=(40_000, 16)).astype(np.float32)


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("ceph") / "lab"
    env = dict(os.environ, CEPH_LAB=str(folder), S3_PORT=PORT, MON_PORT=MON_PORT)
    try:
        subprocess.run([SCRIPTS / "ceph-up.sh"], env=env, check=True, timeout=120)
        yield folder
    finally:
        subprocess.run([SCRIPTS / "ceph-down.sh"], env=env, check=False, timeout=60)


@pytest.fixture
def ceph(lab: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """URL of a bucket."""
    endpoint = f"http://127.0.0.1:{PORT}"
    for variable, value in {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ACCESS_KEY_ID": "testkey",
        "AWS_SECRET_ACCESS_KEY": "testsecret",
        "AWS_REGION": "us-east-1",
        "AWS_CONFIG_FILE": str(tmp_path / "none"),
    }.items():
        monkeypatch.setenv(variable, value)
    client = boto3.client("s3", endpoint_url=endpoint)
    client.create_bucket(Bucket="lab")
    client.close()
    return "s3://lab"


def kill_and_restart(lab: Path, seconds: float) -> None:
    """kill -9 of the gateway, and a new one after some time."""
    (pid_file,) = (lab / "run").glob("client.rgw*.pid")
    os.kill(int(pid_file.read_text()), signal.SIGKILL)
    time.sleep(seconds)
    subprocess.run(["radosgw", "-c", str(lab / "ceph.conf"), "-n", "client.rgw"], check=True, timeout=60)


def interrupting(lab: Path, after: float) -> threading.Thread:
    def strike() -> None:
        time.sleep(after)
        kill_and_restart(lab, 1.5)

    thread = threading.Thread(target=strike)
    thread.start()
    return thread


@pytest.mark.parametrize(
    ("variable", "code"),
    [("AWS_ACCESS_KEY_ID", "InvalidAccessKeyId"), ("AWS_SECRET_ACCESS_KEY", "SignatureDoesNotMatch")],
)
def test_wrong_keys_are_refused_as_such(ceph: str, monkeypatch: pytest.MonkeyPatch, variable: str, code: str) -> None:
    ingest(X[:100], f"{ceph}/keys.zarr", overwrite=True)
    monkeypatch.setenv(variable, "wrong-one")
    with pytest.raises(StorageError, match=rf"access was denied \(HTTP 403 {code}\)") as caught:
        open_matrix(f"{ceph}/keys.zarr")
    assert "wrong-one" not in str(caught.value)


def test_a_gateway_killed_in_the_middle_of_writing_and_reading_is_waited_for(
    ceph: str, lab: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "spae_dask.storage")
    strike = interrupting(lab, 0.3)
    ingest(X, f"{ceph}/x.zarr", chunks=(100, 16), overwrite=True)  # 400 objects
    strike.join()
    assert any("try 2 of" in record.getMessage() for record in caplog.records), "nothing was interrupted"
    caplog.clear()
    blocks = open_matrix(f"{ceph}/x.zarr")
    strike = interrupting(lab, 0.0)
    read = np.concatenate([blocks.read(i) for i in range(len(blocks.bounds) - 1)])
    strike.join()
    assert any("try 2 of" in record.getMessage() for record in caplog.records), "nothing was interrupted"
    np.testing.assert_array_equal(read, X)


def test_codes_are_those_of_a_disk(ceph: str, tmp_path: Path) -> None:
    encoder = batch_encoder(2, n_nonzero=4).fit(X)
    ingest(X, f"{ceph}/y.zarr", overwrite=True)
    transform_to_zarr(f"{ceph}/y.zarr", encoder, f"{ceph}/z.zarr", overwrite=True)
    transform_to_zarr(X, encoder, str(tmp_path / "z.zarr"))
    np.testing.assert_array_equal(
        zarr.open_array(open_remote(parse_address(f"{ceph}/z.zarr")), mode="r")[...],
        zarr.open_array(tmp_path / "z.zarr", mode="r")[...],
    )
