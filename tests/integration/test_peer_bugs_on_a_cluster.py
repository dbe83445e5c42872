"""Faults that users of other packages met on clusters, tried on two worker processes of many threads each.

What such faults come to in one process is in ``tests/peers``; cancelled jobs of a queue are in ``test_slurm.py``.
"""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import psutil
import pytest
import zarr
from distributed import Client
from distributed.diagnostics.plugin import SchedulerPlugin

from benchmarks.faulty import CHUNK_ROWS, N_ROWS, SlowBlocks, fitted, make_store
from benchmarks.resuming import ToldBlocks
from spae_dask import SparseEncoder
from spae_dask.cli.main import main
from spae_dask.errors import InvalidInput, MemoryBudgetExceeded, MissingChunksWarning, OutputExists
from spae_dask.estimators import fitting, planning, writing
from spae_dask.estimators.writing import transform_to_zarr
from spae_dask.storage.checkpoints.checkpoint_summary import summarize
from spae_dask.storage.ingesting.ingest import ingest
from spae_dask.storage.remote.address import parse_address
from spae_dask.storage.remote.remote_store import open_remote
from tests.conftest import ClusterOpener, OptionsSetter
from tests.engine.resident import PeakAboveIdle
from tests.engine.sources import linked_store
from tests.estimators.sources import batch_encoder, spread, zarr_array

MIB = 1 << 20
LIMIT = 560 * MIB
THREADS = 16
CHUNK_NBYTES = 32 * MIB
X = spread(np.random.default_rng(0), 1000, 8)

pytestmark = pytest.mark.timeout(240)


@pytest.fixture(scope="module")
def client(open_cluster: ClusterOpener) -> Client:
    return open_cluster(2, threads_per_worker=THREADS, memory_limit=LIMIT)


class Results(SchedulerPlugin):
    """Notes the bytes of every result that a worker kept; not of the task that calls for the first worker."""

    name = "results"

    def __init__(self) -> None:
        self.nbytes: list[int] = []

    def transition(self, key: Any, start: str, finish: str, *args: Any, **options: Any) -> None:
        if (start, finish) == ("processing", "memory") and not str(key).startswith("spae-first-worker-"):
            self.nbytes.append(options["nbytes"])


@pytest.fixture
def results(client: Client) -> Iterator[Results]:
    plugin = Results()
    client.cluster.scheduler.add_plugin(plugin)
    yield plugin
    client.cluster.scheduler.remove_plugin(plugin.name)


@pytest.fixture
def encoder() -> SparseEncoder:
    return batch_encoder(2, n_nonzero=3).fit(X)


def pids(client: Client) -> set[int]:
    return set(client.run(os.getpid).values())


@pytest.mark.usefixtures("client")
def test_the_seed_decides_on_lazy_input_on_workers_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """xeofs: on dask input the random map was drawn without the seed."""
    lazy = da.from_array(X, chunks=(70, 8))

    def sketched(seed: int) -> SparseEncoder:
        given = {"strategy": "sketch", "sketch_rows": 4, "n_candidates": 3, "random_state": seed}
        return batch_encoder(2, n_nonzero=3, **given).fit(lazy)

    one, other, else_seeded = sketched(0), sketched(0), sketched(1)
    assert "tcp://" in one.plan_.resources.where
    for module in (planning, fitting):
        monkeypatch.setattr(module, "active_client", lambda source: None)
    serial = sketched(0)
    assert "threads" in serial.plan_.resources.where
    for found in (other, serial):
        assert found.components_.tobytes() == one.components_.tobytes()
        assert found.certificate_ == one.certificate_
    assert else_seeded.certificate_ != one.certificate_


def test_codes_whose_chunks_do_not_line_up_with_shards_lose_no_row(
    client: Client,
    encoder: SparseEncoder,
    results: Results,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    options: OptionsSetter,
) -> None:
    """zarr-python#3682, xarray#8371, #10501: tasks that shared a stored object overwrote each other's rows."""
    monkeypatch.setattr(writing, "unit_rows_for", lambda n_rows, row_nbytes, rows_per_block: 50)
    options(min_span_nbytes=1)
    source = zarr_array(tmp_path / "x.zarr", X, (37, 8), shards=(74, 8))
    report = transform_to_zarr(tmp_path / "x.zarr", encoder, str(tmp_path / "z.zarr"))
    assert (report.n_chunks, report.rows_verified) == (20, 1000)
    assert len(results.nbytes) >= 20
    wanted = (X - encoder.mean_) @ encoder.components_.T
    np.testing.assert_allclose(zarr.open_array(tmp_path / "z.zarr")[...], wanted, rtol=1e-10, atol=1e-12)
    # rows are appended to the data, in the middle of a chunk and of a shard
    source.resize((1013, 8))
    source[1000:] = X[:13]
    with pytest.raises(OutputExists):
        transform_to_zarr(tmp_path / "x.zarr", encoder, str(tmp_path / "z.zarr"))
    assert transform_to_zarr(tmp_path / "x.zarr", encoder, str(tmp_path / "z.zarr"), overwrite=True).n_chunks == 21
    wanted = np.concatenate([wanted, wanted[:13]])
    np.testing.assert_allclose(zarr.open_array(tmp_path / "z.zarr")[...], wanted, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(
    "name", ["x.zarr", "x.zarr/", "{here}/x.zarr", "{here}/link.zarr", "file://{here}/x.zarr", "."]
)
def test_codes_are_not_written_over_the_store_that_workers_read(
    name: str,
    client: Client,
    encoder: SparseEncoder,
    results: Results,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """dask#5942: the output was emptied first, and then read as zeros."""
    zarr_array(tmp_path / "x.zarr", X, (100, 8))
    (tmp_path / "link.zarr").symlink_to("x.zarr")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidInput, match="would damage the input"):
        transform_to_zarr("x.zarr", encoder, name.format(here=tmp_path), overwrite=True)
    np.testing.assert_array_equal(zarr.open_array(tmp_path / "x.zarr")[...], X)
    assert results.nbytes == []


@pytest.mark.parametrize(
    "name", ["{bucket}/x.zarr", "{bucket}/x.zarr/", "{bucket}//x.zarr", "{bucket}/x.zarr/codes", "{bucket}"]
)
def test_codes_are_not_written_over_the_objects_that_workers_read(
    name: str, client: Client, encoder: SparseEncoder, results: Results, bucket: str
) -> None:
    """dask#5942, on an object store."""
    ingest(X, f"{bucket}/x.zarr")
    with pytest.raises(InvalidInput, match="would damage the input"):
        transform_to_zarr(f"{bucket}/x.zarr", encoder, name.format(bucket=bucket), overwrite=True)
    assert results.nbytes == []
    stored = zarr.open_array(open_remote(parse_address(f"{bucket}/x.zarr")), mode="r")
    np.testing.assert_array_equal(stored[...], X)


def test_a_lost_chunk_is_counted_before_workers_read_and_refused_in_strict_mode(
    client: Client, results: Results, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """zarr-python#486, #587: a chunk that is lost reads as the fill value."""
    path = tmp_path / "x.zarr"
    zarr_array(path, X, (250, 8))
    (path / "c/2/0").unlink()
    with pytest.raises(MissingChunksWarning, match="1 of 4 chunks are not stored"):  # warnings are errors in tests
        batch_encoder(2, n_nonzero=3).fit(path)
    words = ["fit", str(path), "-k", "2", "-r", "3", "--cluster", client.scheduler.address, "-o"]
    assert main([*words, str(tmp_path / "strict.zarr"), "--strict"]) != 0
    assert "1 of 4 chunks are not stored" in capsys.readouterr().err
    assert results.nbytes == []
    assert not (tmp_path / "strict.zarr").exists()
    assert main([*words, str(tmp_path / "e.zarr")]) == 0
    assert "1 of 4 chunks are not stored" in capsys.readouterr().err
    assert len(results.nbytes) > 0


def test_codes_larger_than_a_worker_are_written_and_gathered_nowhere(
    client: Client, results: Results, tmp_path: Path
) -> None:
    """dask#11997: a result larger than a worker restarted the workers for ever."""
    k, rows = 8, 1 << 16
    path = linked_store(tmp_path / "x.zarr", 2 * LIMIT + 32 * MIB, (rows, 16), 16, compress=False)
    first = zarr.open_array(path)[:rows]
    encoder = batch_encoder(k, n_nonzero=k).fit(first)
    before = pids(client)
    with PeakAboveIdle(client) as peak:
        report = transform_to_zarr(path, encoder, str(tmp_path / "z.zarr"))
    n = report.shape[0]
    assert n * k * 4 > LIMIT
    assert report.rows_verified == n
    assert pids(client) == before
    assert peak.nbytes < LIMIT / 2
    assert len(results.nbytes) > 8
    assert sum(results.nbytes) < MIB
    wanted = (first.astype(np.float64) - encoder.mean_) @ encoder.components_.T
    np.testing.assert_allclose(zarr.open_array(tmp_path / "z.zarr")[-rows:], wanted, rtol=1e-4, atol=1e-4)
    shutil.rmtree(tmp_path / "z.zarr")  # half a gigabyte


@pytest.mark.chaos
def test_a_run_that_loses_a_worker_and_then_its_client_goes_on_from_its_states(
    client: Client, results: Results, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: OptionsSetter
) -> None:
    """dask-jobqueue#122, #611: when time limits ended workers, the whole work began again."""
    make_store(tmp_path / "x.zarr")
    places = [tmp_path / name for name in ("x.zarr", "checkpoint", "told", "encoder")]
    told, n_blocks = tmp_path / "told", N_ROWS // CHUNK_ROWS

    def n_read() -> int:
        return len(told.read_text().splitlines()) if told.exists() else 0

    def wait_for(n: int) -> None:
        end = time.monotonic() + 90
        while n_read() < n:
            assert time.monotonic() < end
            time.sleep(0.01)

    words = [sys.executable, "-m", "benchmarks.resuming", *map(str, places)]
    first = subprocess.Popen(words, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        wait_for(6)
        below = psutil.Process(first.pid).children(recursive=True)
        next(each for each in below if "spawn_main" in str(each.cmdline())).kill()  # a worker
        wait_for(n_read() + 4)
    finally:
        os.killpg(first.pid, signal.SIGKILL)
        first.wait()
    time.sleep(0.5)  # a write that had begun ends
    assert not (tmp_path / "encoder").exists()
    (kept,) = summarize(str(tmp_path / "checkpoint")).passes
    assert 4 <= kept.n_done < kept.n_spans == n_blocks
    before = n_read()
    options(min_span_nbytes=1, states_per_span=0)
    # what begins it anew has another scheduler and other workers
    source = ToldBlocks(zarr.open_array(tmp_path / "x.zarr", mode="r"), target_nbytes=1, told=str(told))
    again = SparseEncoder(2, n_nonzero=4, checkpoint=str(tmp_path / "checkpoint")).fit(source)
    assert len(results.nbytes) > n_blocks - kept.n_done
    assert n_read() - before == n_blocks - kept.n_done
    for module in (planning, fitting):
        monkeypatch.setattr(module, "active_client", lambda source: None)
    serial = SlowBlocks(zarr.open_array(tmp_path / "x.zarr", mode="r"), target_nbytes=1, seconds=0.0)
    assert again.components_.tobytes() + again.decoder_.tobytes() == fitted(serial)


def test_chunks_times_threads_beyond_a_worker_run_fewer_at_once_or_not_at_all(
    client: Client, results: Results, tmp_path: Path
) -> None:
    """distributed#6110: memory was overrun before anything could spill, and the run hung."""
    path = linked_store(tmp_path / "x.zarr", 4 * CHUNK_NBYTES, (CHUNK_NBYTES // 256, 64), 64)
    assert THREADS * CHUNK_NBYTES > 0.8 * LIMIT
    before = pids(client)
    encoder = batch_encoder(2, n_nonzero=3).fit(path)
    assert encoder.plan_.passes[0].n_spans == 4
    assert encoder.plan_.tasks_per_worker < 4
    assert pids(client) == before
    n_tasks = len(results.nbytes)
    assert n_tasks > 4
    huge = linked_store(tmp_path / "huge.zarr", 2 * LIMIT, (LIMIT // 256, 64), 64)
    with pytest.raises(MemoryBudgetExceeded, match="Nothing was read"):
        batch_encoder(2, n_nonzero=3).fit(huge)
    assert len(results.nbytes) == n_tasks
