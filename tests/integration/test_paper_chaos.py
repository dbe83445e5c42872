"""The paper's pipeline on workers of which one is killed between its passes: the bits of a plain loop."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from distributed import Client

from spae_dask import SparseEncoder, open_matrix
from spae_dask.blocks import RowBlocks
from spae_dask.clusters.local import local_cluster
from spae_dask.estimators import fitting, planning
from spae_dask.passes.options import pass_options
from spae_dask.passes.serial import SerialRunner
from spae_dask.passes.threads import one_blas_thread
from spae_dask.storage.sources.zarr_blocks import ZarrBlocks
from spae_dask.strategies.paper import fit_paper
from spae_dask.strategies.parameters import FitParameters
from spae_dask.strategies.sparse_encoder import FittedEncoder
from tests import oracles
from tests.engine.scripted import Scripted
from tests.engine.sources import linked_store
from tests.estimators.sources import batch_encoder, spread, zarr_array

MIB = 1 << 20
K, R, SEED = 3, 12, 5
PASSES = ("sketch", "projection", "residual norms", "start", "finish")

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(120)]


def paper_encoder() -> SparseEncoder:
    return batch_encoder(K, n_nonzero=R, strategy="paper", random_state=SEED)


def in_a_loop(source: RowBlocks) -> FittedEncoder:
    runner = SerialRunner(source)
    with one_blas_thread():
        fitted = fit_paper(FitParameters(K, R, seed=SEED), runner.run_pass, source.shape[1])
    assert runner.tally.passes == len(PASSES)
    return fitted


def on_threads(source: RowBlocks) -> SparseEncoder:
    """The fit in this process, whatever client there is."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (planning, fitting):
            patch.setattr(module, "active_client", lambda source: None)
        encoder = paper_encoder().fit(source)
    assert "threads" in encoder.plan_.resources.where
    return encoder


def assert_same_bits(found: SparseEncoder, wanted: SparseEncoder) -> None:
    for name in ("components_", "decoder_", "mean_", "singular_values_", "explained_variance_ratio_"):
        assert getattr(found, name).tobytes() == getattr(wanted, name).tobytes()
    assert found.certificate_ == wanted.certificate_
    assert found.certificate_.passes == len(PASSES)


def killed_in(name: str, block: int, source: RowBlocks, folder: Path) -> Scripted:
    """The source; the worker that reads ``block`` in the pass of that name is killed with SIGKILL."""
    folder.mkdir()
    return Scripted(source, folder, {block: ("read",) * PASSES.index(name) + ("killed", "read")})


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZarrBlocks]:
    """24 spans of one block: their size is set for this module."""
    X = spread(np.random.default_rng(0), 2400, 30)
    array = zarr_array(tmp_path_factory.mktemp("paper") / "x.zarr", X, (100, 30))
    with pass_options(min_span_nbytes=1, states_per_span=0):
        yield ZarrBlocks(array, target_nbytes=1)


@pytest.mark.parametrize("name", PASSES[1:-1])
def test_a_worker_killed_in_a_middle_pass_does_not_change_a_bit(
    name: str, small: ZarrBlocks, two_workers: Client, tmp_path: Path
) -> None:
    source = killed_in(name, 15, small, tmp_path / "readings")
    encoder = paper_encoder().fit(source)
    assert two_workers.scheduler.address in encoder.plan_.resources.where
    assert source.readings(15) == len(PASSES) + 1
    wanted = on_threads(small)
    assert_same_bits(encoder, wanted)
    in_loop = in_a_loop(small)
    assert encoder.components_.tobytes() == in_loop.H.T.tobytes()
    read = {"passes": len(PASSES), "bytes_read": wanted.plan_.bytes_read}
    assert replace(in_loop.certificate, **read) == encoder.certificate_


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_store_larger_than_the_memory_of_all_workers_survives_a_death_to_the_bit(tmp_path: Path) -> None:
    limit, chunk_rows, d = 512 * MIB, 2048, 512
    whole = open_matrix(linked_store(tmp_path / "x.zarr", 3 * limit, (chunk_rows, d), d, "float64"))
    n, n_blocks = whole.shape[0], len(whole.bounds) - 1
    assert n * d * 8 > 2 * limit
    source = killed_in("residual norms", n_blocks // 2, whole, tmp_path / "readings")
    with local_cluster(2, memory_limit=limit) as client:
        encoder = paper_encoder().fit(source)
        assert client.scheduler.address in encoder.plan_.resources.where
        assert len(client.scheduler_info()["workers"]) == 2
    assert encoder.plan_.worker_nbytes < limit
    # one death and what died with it; a worker that outgrew its memory would be another, again and again
    assert source.readings(n_blocks // 2) == len(PASSES) + 1
    assert source.all_readings() < 1.2 * len(PASSES) * n_blocks
    assert_same_bits(encoder, on_threads(whole))
    # every chunk is the same, so the loss is that of one of them as often as there are chunks
    chunk = whole.read(0)[:chunk_rows]
    loss = oracles.encoder_loss(chunk - chunk.mean(axis=0), encoder.components_.T)
    assert encoder.certificate_.loss == pytest.approx(n // chunk_rows * loss, rel=1e-9)
