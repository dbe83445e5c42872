"""One plan, the same bits: in a loop, on threads, on one worker process and on two."""

import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp
import zarr
from distributed import Client
from numpy.typing import NDArray

from spae_dask.blocks import ArrayBlocks, RowBlocks
from spae_dask.engine.runner import DaskRunner
from spae_dask.passes.accumulators import Accumulator, CrossProducts, Gram, RowSketch, Together, Triangular
from spae_dask.passes.layout import PassLayout
from spae_dask.passes.serial import SerialRunner
from spae_dask.passes.spans import Span, cut_spans
from spae_dask.storage.sources.csr_blocks import CsrBlocks
from spae_dask.storage.sources.dask_blocks import DaskBlocks
from spae_dask.storage.sources.zarr_blocks import ZarrBlocks
from tests.conftest import ClusterOpener, OptionsSetter
from tests.engine.bits import bits
from tests.passes.accumulators.recipes import RECIPES, Recipe, assert_same_facts
from tests.storage.anndata_stores import csr_store

N, D = 1613, 24


@pytest.fixture(scope="module", name="X")
def _x() -> NDArray[np.float32]:
    rng = np.random.default_rng(0)
    return (50.0 + rng.standard_normal((N, D)) * np.linspace(1, 9, D)).astype(np.float32)


@pytest.fixture(scope="module")
def store(X: NDArray[np.float32], tmp_path_factory: pytest.TempPathFactory) -> ZarrBlocks:
    path = tmp_path_factory.mktemp("equivalence") / "x.zarr"
    return ZarrBlocks(zarr.create_array(path, data=X, chunks=(50, 11)), target_nbytes=1)


@pytest.fixture(autouse=True)
def small_spans(options: OptionsSetter) -> None:
    """Two blocks a span: the cut is made where the runner is, workers are told."""
    options(min_span_nbytes=100 * D * 4, states_per_span=1)


@pytest.fixture(scope="module")
def clients(open_cluster: ClusterOpener) -> dict[str, Client]:
    return {"one worker": open_cluster(1), "two workers of two threads": open_cluster(2, threads_per_worker=2)}


def runners(source: RowBlocks, clients: dict[str, Client]) -> dict[str, DaskRunner]:
    on_threads = {f"{n} threads": DaskRunner(source, None, n) for n in (1, 2)}
    return on_threads | {name: DaskRunner(source, client, 2) for name, client in clients.items()}


def lazy_runners(kind: str, source: RowBlocks, clients: dict[str, Client]) -> dict[str, DaskRunner]:
    """On threads and on two workers; what a client persisted is read by that client only."""
    chosen = runners(source, clients)
    names = (
        ["two workers of two threads"] if kind.startswith("persisted") else ["2 threads", "two workers of two threads"]
    )
    return {name: chosen[name] for name in names}


def summaries(d: int) -> Accumulator[Any]:
    return Together({"gram": Gram(d), "triangular": Triangular(d)})


def test_the_store_is_cut_into_many_spans_and_levels(store: ZarrBlocks) -> None:
    layout = PassLayout.of(store, Gram(D))
    assert len(layout.spans) >= 15
    assert layout.fan_in < len(layout.spans)


def test_every_runner_gives_the_bits_of_the_loop(store: ZarrBlocks, clients: dict[str, Client]) -> None:
    expected = bits(SerialRunner(store).run_pass(summaries(D)))
    for name, runner in runners(store, clients).items():
        assert bits(runner.run_pass(summaries(D))) == expected, name


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.name)
def test_every_accumulator_gives_the_bits_of_the_loop_on_two_workers(
    recipe: Recipe, store: ZarrBlocks, clients: dict[str, Client]
) -> None:
    accumulator = recipe.make(D)
    expected = bits(SerialRunner(store).run_pass(accumulator))
    assert bits(DaskRunner(store, clients["two workers of two threads"], 2).run_pass(accumulator)) == expected


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.name)
def test_the_loop_gives_what_the_whole_matrix_gives(recipe: Recipe, store: ZarrBlocks, X: NDArray[np.float32]) -> None:
    found = recipe.facts(SerialRunner(store).run_pass(recipe.make(D)))
    assert_same_facts(found, recipe.oracle(X.astype(np.longdouble)), X)


def test_a_pass_uses_its_own_client_whatever_the_default_is(
    store: ZarrBlocks, clients: dict[str, Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    # dask's as_completed takes the loop of the client made last; on that thread it would use another client's sockets
    def none_is_asked_for() -> None:
        raise AssertionError("the default client was asked for")

    monkeypatch.setattr("distributed.client.default_client", none_is_asked_for)
    for client in clients.values():
        assert DaskRunner(store, client, 1).run_pass(Gram(D)).count == N


def test_the_same_run_twice_gives_the_same_bits(store: ZarrBlocks, clients: dict[str, Client]) -> None:
    runner = DaskRunner(store, clients["two workers of two threads"], 1)
    assert bits(runner.run_pass(summaries(D))) == bits(runner.run_pass(summaries(D)))


def lazy_sources(X: NDArray[np.float32]) -> dict[str, tuple[da.Array, NDArray[Any]]]:
    x = da.from_array(X, chunks=(150, D))
    counts = np.where(X > 55, np.rint(X), 0).astype(np.float32)
    sparse = da.from_array(counts, chunks=(150, D))
    return {
        "centered": (x - x.mean(axis=0), X - X.mean(axis=0)),
        "column chunks": (da.from_array(X, chunks=(150, 7)), X),
        "square chunks": (da.from_array(X, chunks=(110, 13)), X),
        "chunks of all sizes": (da.from_array(X, chunks=((1, 600, 1, 0, 999, 12), (D,))), X),
        "csr_matrix": (sparse.map_blocks(sp.csr_matrix), counts),
        "csr_array": (sparse.map_blocks(sp.csr_array), counts),
        "persisted": (x.persist(), X),
        "persisted column chunks": (da.from_array(X, chunks=(150, 7)).persist(), X),
    }


@pytest.mark.parametrize("kind", lazy_sources(np.zeros((N, D), dtype=np.float32)))
def test_dask_arrays_give_the_bits_of_the_loop_and_the_scatter_of_their_values(
    kind: str, X: NDArray[np.float32], clients: dict[str, Client]
) -> None:
    lazy, values = lazy_sources(X)[kind]
    source = DaskBlocks(lazy)
    expected = SerialRunner(source).run_pass(summaries(D))
    wide = values.astype(np.longdouble)
    scatter = ((wide - wide.mean(axis=0)).T @ (wide - wide.mean(axis=0))).astype(float)
    np.testing.assert_allclose(expected["gram"].scatter, scatter, rtol=1e-5, atol=1e-6 * np.max(scatter))
    for name, runner in lazy_runners(kind, source, clients).items():
        assert bits(runner.run_pass(summaries(D))) == bits(expected), name


@pytest.mark.parametrize("level", [55, 62])  # about a tenth and a hundredth of the entries are left
def test_sparse_rows_of_this_process_give_the_same_bits_everywhere_and_the_numbers_of_their_dense_twin(
    X: NDArray[np.float32], level: int
) -> None:
    counts = np.where(level < X, np.rint(X), 0).astype(np.float32)
    dense, sparse = (ArrayBlocks(x, 100) for x in (counts, sp.csr_array(counts)))
    found = SerialRunner(sparse).run_pass(summaries(D))
    assert bits(DaskRunner(sparse, None, 2).run_pass(summaries(D))) == bits(found)
    expected = SerialRunner(dense).run_pass(summaries(D))
    size = np.max(expected["gram"].scatter)
    np.testing.assert_allclose(found["gram"].scatter, expected["gram"].scatter, atol=1e-13 * size)
    np.testing.assert_allclose(found["triangular"].triangle, expected["triangular"].triangle, atol=1e-13 * size)


def test_a_sparse_group_on_disk_gives_the_same_bits_on_every_runner_and_the_numbers_of_its_dense_twin(
    X: NDArray[np.float32], clients: dict[str, Client], tmp_path: Path, options: OptionsSetter
) -> None:
    options(min_span_nbytes=1000, states_per_span=0)
    counts = np.where(X > 62, np.rint(X), 0).astype(np.float32)
    group = CsrBlocks.opened(csr_store(tmp_path / "x", sp.csr_array(counts), chunk=16, pointer_chunk=200), "x")
    source = replace(group, target_nbytes=1)
    passes = Together(
        {
            "all": summaries(D),
            "sketch": RowSketch(D, 5, seed=2),
            "cross": CrossProducts(np.arange(3), np.linspace(0, 1, D), np.ones(D), np.eye(D)[:, :2]),
        }
    )
    layout = PassLayout.of(source, passes)
    assert len(layout.spans) > 8
    assert layout.nbytes < counts.nbytes / 4
    found = SerialRunner(source).run_pass(passes)
    for name, runner in runners(source, clients).items():
        assert bits(runner.run_pass(passes)) == bits(found), name
    expected = SerialRunner(ArrayBlocks(counts, 100)).run_pass(passes)
    for name in ("gram", "cross", "column_norms"):
        wanted = getattr(expected["cross"], name)
        np.testing.assert_allclose(getattr(found["cross"], name), wanted, atol=1e-13 * np.abs(wanted).max())
    zero = np.zeros(D)
    np.testing.assert_allclose(found["sketch"].about(zero), expected["sketch"].about(zero), atol=1e-9)


class Checksum:
    """Span work: the sum of every block of the span, and where it was."""

    def __call__(self, source: RowBlocks, span: Span) -> list[tuple[int, float]]:
        return [
            (source.bounds[i], float(np.asarray(source.read(i).sum(), dtype=np.float64)))
            for i in range(span.first_block, span.last_block)
        ]


@pytest.mark.parametrize("kind", ["zarr", "centered", "column chunks", "csr_array", "persisted"])
def test_work_on_spans_comes_back_in_order_and_the_same_from_every_runner(
    kind: str, store: ZarrBlocks, X: NDArray[np.float32], clients: dict[str, Client]
) -> None:
    source: RowBlocks = store if kind == "zarr" else DaskBlocks(lazy_sources(X)[kind][0])
    spans = cut_spans(source.bounds, D * 4, 0)
    expected = SerialRunner(source).run_spans(Checksum(), spans)
    assert [start for part in expected for start, _ in part] == list(source.bounds[:-1])
    for name, runner in lazy_runners(kind, source, clients).items():
        assert runner.run_spans(Checksum(), spans) == expected, name


def test_what_the_blocks_of_a_dask_array_share_is_computed_once(X: NDArray[np.float32]) -> None:
    computed = []

    def expensive(block: NDArray[np.float32]) -> NDArray[np.float32]:
        computed.append(len(block))
        return block

    x = da.from_array(X, chunks=(150, D)).map_blocks(expensive, dtype=np.float32, meta=np.empty((0, 0), np.float32))
    computed.clear()
    runner = DaskRunner(DaskBlocks(x - x.mean(axis=0)), None, 2)
    runner.run_pass(Gram(D))
    assert sum(computed) == N
    computed.clear()
    runner.run_spans(Checksum(), cut_spans(runner.source.bounds, D * 4, 0))
    assert sum(computed) == N


def test_a_source_is_small_when_pickled_and_reads_the_same(store: ZarrBlocks) -> None:
    store.read(0)
    pickled = pickle.dumps(store)
    assert len(pickled) < 10_000
    np.testing.assert_array_equal(pickle.loads(pickled).read(3), store.read(3))
