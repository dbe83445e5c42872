"""A fit on as few row blocks as a tolerance allows, through the public interface."""

import pickle
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import numpy as np
import pytest
from distributed import Client
from numpy.typing import NDArray

from spae_dask import SparseEncoder, evaluate, load_encoder, plan
from spae_dask.errors import InvalidInput, MemoryBudgetExceeded, UnlikeBlocksWarning
from spae_dask.estimators import fitting, planning
from spae_dask.estimators.column_selector import ColumnSelector
from spae_dask.estimators.saved import save_encoder
from spae_dask.passes.events import Estimated
from spae_dask.storage.sources.zarr_blocks import ZarrBlocks
from tests.conftest import OptionsSetter
from tests.estimators.sources import Unreadable, Watched, batch_encoder, spread, zarr_array

D = 11
KEPT = ("components_", "decoder_", "mean_", "scale_", "singular_values_", "explained_variance_ratio_")


@pytest.fixture(scope="module")
def rows() -> NDArray[np.float64]:
    return spread(np.random.default_rng(0), 12_000, D)


@pytest.fixture(scope="module")
def store(rows: NDArray[np.float64], tmp_path_factory: pytest.TempPathFactory) -> ZarrBlocks:
    """200 blocks of one chunk each."""
    return ZarrBlocks(zarr_array(tmp_path_factory.mktemp("sample") / "x.zarr", rows, (60, D)), target_nbytes=1)


@pytest.fixture
def no_client(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads, whatever clients other tests have left open."""
    monkeypatch.setattr(planning, "active_client", lambda source: None)
    monkeypatch.setattr(fitting, "active_client", lambda source: None)


def sampled(tolerance: float | None = 0.05, **more: Any) -> SparseEncoder:
    return batch_encoder(2, n_nonzero=5, **({"strategy": "sample", "tolerance": tolerance} | more))


def bits(encoder: SparseEncoder) -> dict[str, bytes]:
    return {name: getattr(encoder, name).tobytes() for name in KEPT}


def test_a_tolerance_reads_part_of_the_blocks_once_and_evaluate_makes_it_exact(rows: NDArray[np.float64]) -> None:
    events: list[Any] = []
    source = Watched(rows, 60)
    encoder = batch_encoder(2, n_nonzero=5, tolerance=0.05, progress=events.append).fit(source)
    certificate = encoder.certificate_
    assert len(source.reads) == len(set(source.reads)) < 150
    assert encoder.n_samples_seen_ == 60 * len(source.reads)
    assert (certificate.passes, certificate.bytes_read) == (1, 8 * D * encoder.n_samples_seen_)
    exact = evaluate(rows, encoder)
    assert exact.loss_kind == "exact"
    assert certificate.ratio_lower <= exact.ratio <= certificate.ratio_upper
    np.testing.assert_allclose(encoder.decoder_ @ encoder.components_.T, np.eye(2), atol=1e-8)
    told = [event for event in events if isinstance(event, Estimated)]
    assert told[-1] == Estimated(
        certificate.fraction_read, certificate.ratio, certificate.ratio_lower, certificate.ratio_upper
    )
    with pytest.raises(InvalidInput, match="on a sample"):
        encoder.sparsity_path([1], [2])


def test_workers_give_the_bits_of_threads(
    two_workers: Client, store: ZarrBlocks, monkeypatch: pytest.MonkeyPatch, options: OptionsSetter
) -> None:
    options(min_span_nbytes=8 << 10, states_per_span=1)
    on_workers = sampled(0.01).fit(store)
    assert two_workers.scheduler.address in on_workers.plan_.resources.where
    monkeypatch.setattr(planning, "active_client", lambda source: None)
    monkeypatch.setattr(fitting, "active_client", lambda source: None)
    on_threads = sampled(0.01).fit(store)
    assert bits(on_workers) == bits(on_threads)
    assert on_workers.certificate_ == on_threads.certificate_
    assert on_threads.certificate_.fraction_read < 1


@pytest.mark.parametrize(("dtype", "core"), [(np.float32, "gram"), (np.float64, "tsqr")])
def test_a_fit_that_never_stops_equals_that_of_all_rows(rows: NDArray[np.float64], dtype: Any, core: str) -> None:
    X = rows[:3000].astype(dtype)
    source = Watched(X, 60)
    found = sampled(1e-12).fit(source)
    wanted = batch_encoder(2, n_nonzero=5, strategy=core).fit(X)
    assert sorted(source.reads) == list(range(50))
    for name in KEPT:
        np.testing.assert_allclose(getattr(found, name), getattr(wanted, name), rtol=1e-7, atol=1e-9, err_msg=name)
    np.testing.assert_allclose(found.certificate_.loss, wanted.certificate_.loss, rtol=1e-9)
    assert found.certificate_.loss_kind == found.certificate_.pca_loss_kind == "exact"
    assert found.n_samples_seen_ == 3000
    assert str(found.sparsity_path([1, 2], [3])) == str(wanted.sparsity_path([1, 2], [3]))


def test_only_the_chosen_chunks_of_a_dask_array_are_computed(rows: NDArray[np.float64], no_client: None) -> None:
    computed: list[int] = []

    def noted(block: NDArray[np.float64]) -> NDArray[np.float64]:
        computed.append(len(block))
        return block

    array = da.from_array(rows, chunks=(60, -1)).map_blocks(noted, dtype=rows.dtype, meta=rows[:0])
    found = sampled().fit(array)
    assert len(computed) == round(200 * found.certificate_.fraction_read) < 150
    with dask.config.set(scheduler="synchronous"):
        wanted = sampled().fit(Watched(rows, 60))
    np.testing.assert_allclose(found.components_, wanted.components_, rtol=1e-9, atol=1e-12)


def test_sorted_rows_are_read_to_the_end_with_a_warning(rows: NDArray[np.float64]) -> None:
    X = rows[:6000][np.argsort(rows[:6000, 0])]
    with pytest.warns(UnlikeBlocksWarning, match=r"as in sorted data\. A sample was not enough"):
        read_all = sampled(1e-4).fit(Watched(X, 60))
    assert read_all.certificate_.fraction_read == 1.0
    with pytest.warns(UnlikeBlocksWarning, match="The interval is computed over blocks") as caught:
        stopped = sampled(100.0).fit(Watched(X, 60))
    assert stopped.certificate_.fraction_read < 1.0
    assert caught[0].filename == __file__


def test_the_sample_strategy_has_a_tolerance_of_its_own(rows: NDArray[np.float64]) -> None:
    one, other = (sampled(tolerance).fit(Watched(rows, 60)) for tolerance in (None, 0.01))
    assert one.certificate_ == other.certificate_


@pytest.mark.parametrize("method", ["polished", "iterative"])
def test_any_method_that_needs_no_rows_can_sample(method: str, rows: NDArray[np.float64]) -> None:
    encoder = SparseEncoder(2, n_nonzero=5, method=method, tolerance=0.1).fit(Watched(rows, 60))
    exact = evaluate(rows, encoder)
    assert encoder.certificate_.fraction_read < 1
    assert encoder.certificate_.ratio_lower <= exact.ratio <= encoder.certificate_.ratio_upper
    assert np.count_nonzero(encoder.components_, axis=1).max() <= 5


def test_a_wanted_excess_and_orthonormal_components_can_be_had_of_a_sample(rows: NDArray[np.float64]) -> None:
    encoder = SparseEncoder(2, eps=0.2, tolerance=0.1, orthonormal=True).fit(Watched(rows, 60))
    assert encoder.certificate_.fraction_read < 1
    assert encoder.certificate_.eps == 0.2
    np.testing.assert_allclose(encoder.components_ @ encoder.components_.T, np.eye(2), atol=1e-12)


def test_columns_can_be_selected_on_a_sample(rows: NDArray[np.float64]) -> None:
    found = ColumnSelector(4, strategy="sample").fit(Watched(rows, 60))
    assert found.selected_idx_.size == 4


def test_an_estimate_survives_being_saved_and_pickled(rows: NDArray[np.float64], tmp_path: Path) -> None:
    encoder = sampled().fit(Watched(rows, 60))
    save_encoder(encoder, tmp_path / "e.zarr")
    loaded = load_encoder(tmp_path / "e.zarr")
    assert loaded.certificate_ == encoder.certificate_ == pickle.loads(pickle.dumps(encoder)).certificate_
    assert loaded.tolerance == 0.05


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"tolerance": 0.0}, r"tolerance=0\.0 is not allowed: give a positive number"),
        ({"tolerance": -1}, "tolerance=-1 is not allowed"),
        ({"tolerance": float("nan")}, "tolerance=nan is not allowed"),
        ({"tolerance": float("inf")}, "tolerance=inf is not allowed"),
        ({"tolerance": "0.01"}, "tolerance='0.01' is not allowed"),
        ({"tolerance": True}, "tolerance=True is not allowed"),
        ({"tolerance": 0.01, "strategy": "gram"}, "strategy='gram' reads all rows"),
        ({"tolerance": 0.01, "missing": "mean"}, "needs an extra pass to compute column means"),
        ({"strategy": "sample", "missing": "mean"}, "Use missing='zero'"),
        ({"tolerance": 0.01, "method": "doubly-sparse"}, "method='doubly-sparse' chooses among all rows"),
    ],
)
def test_what_a_sample_cannot_do_is_refused_before_reading(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        batch_encoder(2, n_nonzero=3, **parameters).fit(Unreadable((1000, 8), 10))


def test_the_plan_says_what_may_be_read_and_in_which_rounds() -> None:
    found = plan(Unreadable((1_000_000, 50), 1000), 2, n_nonzero=3, tolerance=0.01, calibrate=False)
    assert found.strategy == "sample"
    assert [each.name for each in found.passes] == ["sample"]
    assert found.bytes_read == 1_000_000 * 50 * 4
    assert any(
        "one full pass, an upper limit" in note and "stops after 8 %, 16 %, 32 %" in note for note in found.notes
    )
    few = plan(Unreadable((1000, 50), 500), 2, n_nonzero=3, tolerance=0.01, calibrate=False)
    assert any("too few" in note for note in few.notes)


def test_what_does_not_fit_is_refused_and_the_sketch_named() -> None:
    with pytest.raises(MemoryBudgetExceeded, match="strategy='sketch'"):
        plan(Unreadable((1_000_000, 8000), 10), 2, n_nonzero=3, tolerance=0.01, memory_limit="4GB")


def test_evaluate_takes_strategies_that_read_all_rows_only(rows: NDArray[np.float64]) -> None:
    encoder = batch_encoder(2, n_nonzero=5).fit(rows[:500])
    with pytest.raises(InvalidInput, match="strategy='sample' is not allowed: give one of 'auto', 'gram', 'tsqr'"):
        evaluate(rows[:500], encoder, strategy="sample")
