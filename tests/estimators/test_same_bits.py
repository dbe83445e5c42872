"""The same store gives the same bits on a plain loop, on threads, and on worker processes."""

from collections.abc import Iterator
from pathlib import Path

import dask.array as da
import numpy as np
import pytest
import zarr
from distributed import Client

from spae_dask import SparseEncoder
from spae_dask.errors import NonFiniteInput, StorageError
from spae_dask.estimators import fitting, planning, writing
from spae_dask.estimators.writing import transform_to_zarr
from spae_dask.passes.options import pass_options
from spae_dask.passes.serial import SerialRunner
from spae_dask.passes.threads import one_blas_thread
from spae_dask.storage.open import open_matrix
from spae_dask.storage.sources.zarr_blocks import ZarrBlocks
from spae_dask.strategies.core import read_core
from spae_dask.strategies.parameters import FitParameters
from spae_dask.strategies.sparse_encoder import encode_core
from tests.conftest import OptionsSetter
from tests.estimators.sources import batch_encoder, spread, zarr_array

# float32 products know this loss to two digits
pytestmark = pytest.mark.filterwarnings("ignore::spae_dask.errors.PrecisionWarning")

SPAN = 64 << 10
KEPT = ("components_", "decoder_", "mean_", "scale_", "singular_values_", "explained_variance_ratio_")
PARAMETERS = {
    "gram": {"strategy": "gram"},
    "tsqr": {"strategy": "tsqr", "scale": True},
    "mean": {"strategy": "gram", "missing": "mean"},
    "fast": {"strategy": "gram", "precision": "fast"},
    "stream": {"strategy": "stream", "sketch_rows": 5},
    "sketch": {"strategy": "sketch", "sketch_rows": 12, "n_candidates": 9, "certified": True},
    "sketch, fast": {"strategy": "sketch", "sketch_rows": 12, "n_candidates": 9, "precision": "fast"},
    "drawn columns": {"strategy": "tsqr", "selection": "adaptive", "random_state": 3},
}


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZarrBlocks]:
    """About 20 spans: their size is set for this module."""
    X = spread(np.random.default_rng(0), 10_000, 17)
    X[7, 3] = X[9_876, 5] = 40.0
    path: Path = tmp_path_factory.mktemp("bits") / "x.zarr"
    array = zarr_array(path, X, (300, 9))
    with pass_options(min_span_nbytes=SPAN, states_per_span=1):
        yield ZarrBlocks(array, target_nbytes=SPAN // 2)


@pytest.fixture(scope="module")
def gappy(source: ZarrBlocks, tmp_path_factory: pytest.TempPathFactory) -> ZarrBlocks:
    X = source.array[...]
    X[np.random.default_rng(1).random(X.shape) < 0.01] = np.nan
    array = zarr_array(tmp_path_factory.mktemp("gappy") / "x.zarr", X, (300, 9))
    return ZarrBlocks(array, target_nbytes=SPAN // 2)


def bits(encoder: SparseEncoder) -> dict[str, bytes]:
    return {name: getattr(encoder, name).tobytes() for name in KEPT}


@pytest.fixture(scope="module")
def on_threads(source: ZarrBlocks, gappy: ZarrBlocks) -> dict[str, SparseEncoder]:
    found = {}
    for name, parameters in PARAMETERS.items():
        data = gappy if name == "mean" else source
        found[name] = batch_encoder(3, n_nonzero=6, **parameters).fit(data)
    return found


@pytest.fixture(scope="module")
def client(two_workers: Client) -> Client:
    """Of two worker processes: ``tests/engine/test_equivalence.py`` has passes on one, too."""
    return two_workers


def test_there_are_many_spans_to_merge(on_threads: dict[str, SparseEncoder]) -> None:
    for encoder in on_threads.values():
        assert all(each.n_spans > 15 for each in encoder.plan_.passes)


@pytest.mark.parametrize("name", [name for name in PARAMETERS if PARAMETERS[name]["strategy"] in ("gram", "tsqr")])
def test_a_loop_over_spans_gives_the_bits_of_threads(
    name: str, source: ZarrBlocks, gappy: ZarrBlocks, on_threads: dict[str, SparseEncoder]
) -> None:
    wanted = on_threads[name]
    params = FitParameters(
        3,
        6,
        method="batch",
        selection=wanted.selection,
        strategy=wanted.strategy,
        scale=wanted.scale,
        missing=wanted.missing,
        seed=wanted.seed_,
    )
    runner = SerialRunner(gappy if name == "mean" else source)
    summary = read_core(
        runner.run_pass,
        17,
        strategy=wanted.strategy,
        center=True,
        scale=wanted.scale,
        missing=wanted.missing,
        precision=wanted.precision,
    )
    with one_blas_thread():
        found = encode_core(params, summary, passes=runner.tally.passes, bytes_read=runner.tally.nbytes)
    assert found.H.T.tobytes() == wanted.components_.tobytes()
    assert found.G.tobytes() == wanted.decoder_.tobytes()
    assert found.certificate == wanted.certificate_


@pytest.mark.parametrize("name", PARAMETERS)
def test_worker_processes_give_the_bits_of_threads(
    name: str, client: Client, source: ZarrBlocks, gappy: ZarrBlocks, on_threads: dict[str, SparseEncoder]
) -> None:
    wanted = on_threads[name]
    encoder = SparseEncoder(**wanted.get_params()).fit(gappy if name == "mean" else source)
    assert client.scheduler.address in encoder.plan_.resources.where
    assert bits(encoder) == bits(wanted)
    assert encoder.certificate_ == wanted.certificate_


def test_worker_processes_write_and_verify_the_codes_that_threads_write(
    client: Client,
    source: ZarrBlocks,
    on_threads: dict[str, SparseEncoder],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    options: OptionsSetter,
) -> None:
    monkeypatch.setattr(writing, "unit_rows_for", lambda n_rows, row_nbytes, rows_per_block: 1100)
    options(min_span_nbytes=SPAN)
    assert transform_to_zarr(source, on_threads["gram"], str(tmp_path / "workers.zarr")).rows_verified == 10_000
    with monkeypatch.context() as patch:
        patch.setattr(writing, "active_client", lambda source: None)
        transform_to_zarr(source, on_threads["gram"], str(tmp_path / "threads.zarr"))
    one, other = (zarr.open_array(tmp_path / f"{name}.zarr")[...] for name in ("workers", "threads"))
    assert one.tobytes() == other.tobytes()
    np.testing.assert_allclose(one, on_threads["gram"].transform(source.array[...]), rtol=1e-10, atol=1e-12)


def test_a_lazy_array_is_summed_on_workers_with_the_bits_of_threads(client: Client, source: ZarrBlocks) -> None:
    lazy = da.from_array(source.array[...], chunks=(700, 6))
    on_workers = batch_encoder(3, n_nonzero=6).fit(lazy)
    assert client.scheduler.address in on_workers.plan_.resources.where
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(planning, "active_client", lambda source: None)
        patch.setattr(fitting, "active_client", lambda source: None)
        on_threads = batch_encoder(3, n_nonzero=6).fit(lazy)
    assert "threads" in on_threads.plan_.resources.where
    assert bits(on_workers) == bits(on_threads)


def test_workers_name_what_they_could_not_read_or_use(client: Client, tmp_path: Path) -> None:
    rows = spread(np.random.default_rng(3), 60, 5)
    zarr_array(tmp_path / "x.zarr", rows, (20, 5))
    encoder = batch_encoder(2, n_nonzero=3).fit(tmp_path / "x.zarr")
    (tmp_path / "x.zarr" / "c" / "1" / "0").write_bytes(b"rotten")
    with pytest.raises(StorageError, match=r"chunk 'c/1/0' .*rows 20 to 39"):
        batch_encoder(2, n_nonzero=3).fit(tmp_path / "x.zarr")
    with pytest.raises(StorageError, match=r"chunk 'c/1/0' .*rows 20 to 39"):
        transform_to_zarr(tmp_path / "x.zarr", encoder, str(tmp_path / "z.zarr"))
    rows[47, 2] = np.nan
    zarr_array(tmp_path / "x.zarr", rows, (20, 5))
    with pytest.raises(NonFiniteInput, match="row 47, column 2"):
        batch_encoder(2, n_nonzero=3).fit(tmp_path / "x.zarr")
    assert [each.name for each in tmp_path.iterdir()] == ["x.zarr"]
    assert client.status == "running"


def test_fitting_twice_gives_the_same_bits(source: ZarrBlocks, on_threads: dict[str, SparseEncoder]) -> None:
    encoder = SparseEncoder(**on_threads["drawn columns"].get_params())
    assert bits(encoder.fit(source)) == bits(encoder.fit(source)) == bits(on_threads["drawn columns"])


def test_arrays_in_memory_stay_in_this_process(client: Client) -> None:
    X = spread(np.random.default_rng(2), 50, 6)
    encoder = batch_encoder(2, n_nonzero=3).fit(X)
    assert "threads" in encoder.plan_.resources.where
    assert open_matrix(X).in_process
