"""Memory of a worker process, sampled in the worker: flat in the rows, and what the plan said.

The stores are larger than the workers' memory limit when decoded, and take no room on disk.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp
from distributed import Client

from spae_dask.blocks import RowBlocks
from spae_dask.engine.runner import DaskRunner
from spae_dask.maths.encoders.codes import RowEncoder
from spae_dask.passes.accumulators import Accumulator, CrossProducts, Gram, Moments, NonFinite, Together, Triangular
from spae_dask.passes.layout import PassLayout, write_footprint
from spae_dask.passes.write import WriteRows, unit_spans
from spae_dask.storage.ingesting.ingest import ingest
from spae_dask.storage.open import open_matrix
from spae_dask.storage.writing.zarr_sink import create_sink, unit_rows_for
from spae_dask.strategies.sketched import SketchSizes, sketch_recipe
from tests.conftest import ClusterOpener
from tests.engine.resident import PeakAboveIdle
from tests.engine.sources import linked_store

MIB = 1 << 20
LIMIT = 400 * MIB

plain_store = partial(linked_store, compress=False)
"""Chunks that are stored as they are decoded. Of these numbers compressed ones are small, which plans cannot know."""


def first_pass(d: int) -> Accumulator[Any]:
    return Together({"gram": Gram(d), "moments": Moments(d), "non-finite": NonFinite(d)})


def second_pass(d: int) -> Accumulator[Any]:
    return CrossProducts(np.arange(0, d, 8), np.zeros(d), np.ones(d), np.ones((d, 10)))


@pytest.fixture(scope="module")
def warm_cluster(open_cluster: ClusterOpener, tmp_path_factory: pytest.TempPathFactory) -> ClusterOpener:
    """Clusters whose workers have loaded all libraries and run every kind of pass once."""
    path = plain_store(tmp_path_factory.mktemp("warm") / "x.zarr", 4 * MIB, (1024, 64), 64)

    def start(n_workers: int, threads: int, limit: int = LIMIT) -> Client:
        client = open_cluster(n_workers, threads_per_worker=threads, memory_limit=limit)
        for x in (path, da.from_zarr(path, chunks=(1024, 64))):
            for accumulator in (first_pass(64), second_pass(64), Triangular(64)):
                DaskRunner(open_matrix(x), client, threads).run_pass(accumulator)
        return client

    return start


@pytest.fixture(scope="module")
def client(warm_cluster: ClusterOpener) -> Client:
    return warm_cluster(1, 1)


def measured(client: Client, threads: int, source: RowBlocks, accumulator: Accumulator[Any], times: int = 1) -> int:
    with PeakAboveIdle(client) as peak:
        for _ in range(times):
            DaskRunner(source, client, threads).run_pass(accumulator)
    return peak.nbytes


def projected(threads: int, source: RowBlocks, accumulator: Accumulator[Any]) -> int:
    return PassLayout.of(source, accumulator).footprint.worker_nbytes(threads)


def test_sixteen_times_the_rows_take_no_more_memory(client: Client, tmp_path: Path) -> None:
    small, large = (
        open_matrix(plain_store(tmp_path / f"{nbytes}.zarr", nbytes, (8192, 64), 64))
        for nbytes in (32 * MIB, 16 * 32 * MIB)
    )
    assert large.shape[0] == 16 * small.shape[0]
    assert large.shape[0] * 64 * 4 > LIMIT
    # the small one as often as the large one has spans, so that both have the same chance of a bad moment
    before = measured(client, 1, small, Gram(64), times=8)
    after = measured(client, 1, large, Gram(64))
    assert after <= 1.1 * before


@dataclass(frozen=True)
class Case:
    """A source and a recipe whose projection is compared with what is measured."""

    name: str
    make: Callable[[Path], Any]
    accumulator: Callable[[int], Accumulator[Any]]
    most: float = 2.0
    """Most the projection may be, over what is measured."""


SPARSE = 2.4
"""Of sparse rows scratch is projected for any pattern of entries; these ones, spread evenly, take half of it."""


def row_chunks(folder: Path) -> Path:
    return plain_store(folder / "x.zarr", 64 * MIB, (4096, 256), 256)


def lazy_chunks(folder: Path) -> da.Array:
    return da.from_zarr(plain_store(folder / "x.zarr", 64 * MIB, (8192, 256), 256))


def npy_in_column_order(folder: Path) -> Path:
    X = np.random.default_rng(0).integers(0, 4, (2**16, 256)).astype(np.float32)
    np.save(folder / "x.npy", np.asfortranarray(X))
    return folder / "x.npy"


def sparse_chunks() -> da.Array:
    def counts(numbers: np.ndarray) -> sp.csr_array:
        rng = np.random.default_rng(int(numbers[0, 0]))
        return sp.random_array((len(numbers), 256), density=0.25, format="csr", dtype=np.float32, random_state=rng)

    rows = da.arange(6 * 8192, chunks=8192)[:, None]
    return rows.map_blocks(counts, chunks=(rows.chunks[0], (256,)), meta=sp.csr_array((0, 0), dtype=np.float32))


def csr_group(folder: Path) -> Path:
    rng = np.random.default_rng(0)
    X = sp.random_array((2**17, 512), density=0.08, format="csr", dtype=np.float32, random_state=rng)
    ingest(X, folder / "x.zarr")
    return folder / "x.zarr"


def wide(folder: Path) -> Path:
    return plain_store(folder / "x.zarr", 64 * MIB, (512, 2048), 2048)


def candidates(d: int, *, single: bool) -> CrossProducts:
    Z = np.linalg.qr(np.random.default_rng(0).standard_normal((d, 15)))[0]
    return CrossProducts(np.arange(0, d, 8), np.zeros(d), np.ones(d), Z, single=single)


CASES = [
    Case("row chunks, first pass", row_chunks, first_pass),
    Case("row chunks, second pass", row_chunks, second_pass),
    Case("row chunks, triangular", row_chunks, Triangular),
    Case("column chunks", lambda folder: plain_store(folder / "x.zarr", 64 * MIB, (1024, 128), 512), first_pass),
    Case("wide, a large state", wide, Gram),
    Case("wide, float32 products", wide, partial(Gram, single=True)),
    Case("wide, first of two reads", wide, lambda d: sketch_recipe(d, SketchSizes(300, 8, 40), 0)),
    Case("wide, second of two reads", wide, partial(candidates, single=False)),
    Case("wide, second of two reads, float32", wide, partial(candidates, single=True)),
    Case("int8", lambda folder: plain_store(folder / "x.zarr", 32 * MIB, (16384, 64), 64, "int8"), first_pass),
    Case("npy, column-major", npy_in_column_order, first_pass),
    Case("dask array", lambda folder: lazy_chunks(folder) * 2, first_pass),
    Case("dask array, column chunks", lambda folder: lazy_chunks(folder).rechunk((8192, 64)), first_pass),
    Case("CSR group, first pass", csr_group, first_pass, SPARSE),
    Case("CSR group, second pass", csr_group, second_pass, SPARSE),
    Case("dask array of CSR blocks", lambda _: sparse_chunks(), first_pass, SPARSE),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_what_is_measured_is_at_most_what_was_projected_and_not_much_less(
    case: Case, client: Client, tmp_path: Path
) -> None:
    source = open_matrix(case.make(tmp_path))
    accumulator = case.accumulator(source.shape[1])
    peak, plan = measured(client, 1, source, accumulator), projected(1, source, accumulator)
    assert peak <= plan <= case.most * peak, f"measured {peak / MIB:.1f} MiB, projected {plan / MIB:.1f} MiB"


@pytest.mark.parametrize("chunk_rows", [1000, 8192])
def test_writing_the_codes_of_a_dask_array_takes_at_most_what_was_projected(
    chunk_rows: int, client: Client, tmp_path: Path
) -> None:
    x = da.from_zarr(plain_store(tmp_path / "x.zarr", 128 * MIB, (chunk_rows, 512), 512)) * 2
    source = open_matrix(x)
    unit_rows = unit_rows_for(source.shape[0], 5 * 4, chunk_rows)
    spans = unit_spans(source.bounds, 512 * 4, unit_rows)
    columns = np.arange(0, 512, 40)
    encoder = RowEncoder(columns, np.ones((columns.size, 5)), np.zeros(columns.size), np.ones(columns.size))
    sink = create_sink(str(tmp_path / "codes.zarr"), (source.shape[0], 5), np.dtype("f4"), unit_rows, {})
    plan = write_footprint(source, spans, unit_rows * 5 * 4, columns.size).worker_nbytes(1)
    with PeakAboveIdle(client) as peak:
        DaskRunner(source, client, 1).run_spans(WriteRows(encoder, sink), spans, "transform")
    assert peak.nbytes <= plan <= 3 * peak.nbytes, f"measured {peak.nbytes / MIB:.1f}, projected {plan / MIB:.1f} MiB"


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("threads", [1, 2])
def test_a_store_five_times_the_memory_of_all_workers_is_swept_as_planned(
    threads: int, warm_cluster: ClusterOpener, tmp_path: Path
) -> None:
    limit = 512 * MIB
    client = warm_cluster(2, threads, limit)
    source = open_matrix(plain_store(tmp_path / "x.zarr", 5 * 2 * limit, (4096, 256), 256))
    for accumulator in (first_pass(256), Triangular(256)):
        peak, plan = measured(client, threads, source, accumulator), projected(threads, source, accumulator)
        assert peak <= plan <= 2 * peak, f"measured {peak / MIB:.1f} MiB, projected {plan / MIB:.1f} MiB"
    assert len(client.scheduler_info()["workers"]) == 2


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_projections_hold_with_two_threads_too(case: Case, warm_cluster: ClusterOpener, tmp_path: Path) -> None:
    client = warm_cluster(1, 2, 1024 * MIB)
    source = open_matrix(case.make(tmp_path))
    accumulator = case.accumulator(source.shape[1])
    peak, plan = measured(client, 2, source, accumulator, times=2), projected(2, source, accumulator)
    assert peak <= plan <= case.most * peak, f"measured {peak / MIB:.1f} MiB, projected {plan / MIB:.1f} MiB"
