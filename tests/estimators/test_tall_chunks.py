"""Stores whose chunks are too tall for row blocks: the encoder of row chunks, and each chunk is read once a pass."""

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
import zarr
from numpy.typing import NDArray
from zarr.storage import LocalStore

from spae_dask import SparseEncoder, open_matrix, plan
from spae_dask.blocks import column_groups, columns_alone
from spae_dask.errors import CheckpointWarning, DataChanged, MemoryBudgetExceeded, NonFiniteInput, StorageError
from spae_dask.estimators.checkpointing import CheckpointAt, fit_part
from spae_dask.passes import orientation
from spae_dask.passes.checkpoint import ArrayPart, PassIncomplete
from spae_dask.passes.events import PassEnded, PassStarted, RowsDone
from spae_dask.storage.artifacts.fingerprint import fingerprint
from spae_dask.storage.grids import xarray_blocks
from spae_dask.storage.grids.xarray_blocks import GridRows
from spae_dask.storage.sources import zarr_blocks
from spae_dask.storage.sources.submatrix import chosen_columns, chosen_rows
from spae_dask.xarray import GridEncoder, grid_encoder
from tests.conftest import ClusterOpener, OptionsSetter
from tests.estimators.sources import spread
from tests.storage.genotypes import dosages, write_vcf

N, D, K = 600, 90, 2
X = spread(np.random.default_rng(0), N, D).astype(np.float32)
GAPPY = np.where(np.random.default_rng(1).random((N, D)) < 0.02, np.nan, X).astype(np.float32)
ROWS = (50, D)
LAYOUTS = {"tall": (N, 10), "both ways": (150, 20), "ragged": (130, 17)}
BLOCK, GROUP = 20_000, 12_000
"""Bytes of a row block and of a group of columns, in place of 256 and 64 MiB."""

SKETCH: dict[str, Any] = {
    "n_nonzero": 4,
    "method": "batch",
    "strategy": "sketch",
    "sketch_rows": 40,
    "n_candidates": 20,
}


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch, options: OptionsSetter) -> None:
    options(min_span_nbytes=1, states_per_span=0, fan_in=3)
    for module in (zarr_blocks, xarray_blocks):
        monkeypatch.setattr(module, "MAX_BLOCK_NBYTES", BLOCK)
        monkeypatch.setattr(module, "GROUP_NBYTES", GROUP)
        monkeypatch.setattr(module, "TARGET_BLOCK_NBYTES", BLOCK)


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each chunk below a folder was asked for."""
    counts: Counter[str] = Counter()
    get = LocalStore.get

    async def counted(self: LocalStore, key: str, *rest: Any, **options: Any) -> Any:
        if "c/" in key:
            counts[key] += 1
        return await get(self, key, *rest, **options)

    monkeypatch.setattr(LocalStore, "get", counted)
    return counts


def stored(path: Path, chunks: tuple[int, ...], values: NDArray[Any] = X, **options: Any) -> str:
    zarr.create_array(path, data=values, chunks=chunks, **options)
    return str(path)


def assert_same_encoder(found: SparseEncoder, wanted: SparseEncoder, rel: float = 1e-9) -> None:
    np.testing.assert_array_equal(found.components_ != 0, wanted.components_ != 0)
    np.testing.assert_allclose(found.components_, wanted.components_, atol=1e-6 if rel < 1e-6 else 1e-3)
    np.testing.assert_allclose(found.mean_, wanted.mean_, rtol=1e-12)
    ours, theirs = found.certificate_, wanted.certificate_
    assert ours.loss == pytest.approx(theirs.loss, rel=rel)
    # it is bounded from above, rounding included, and that grows with the rows that are summed at once
    assert ours.pca_loss == pytest.approx(theirs.pca_loss, rel=1e-4 if rel < 1e-6 else 1e-2)


CASES: dict[str, dict[str, Any]] = {
    "plain": {},
    "scaled": {"scale": True},
    "not centered": {"center": False},
    "fast": {"precision": "fast"},
    "zeros for gaps": {"missing": "zero"},
    "means for gaps": {"missing": "mean"},
    "to an eps": {"n_nonzero": None, "method": "polished", "effort": 0, "eps": 0.01, "n_candidates": 3},
    "paper": {"strategy": "paper", "sketch_rows": None, "n_candidates": None},
    "recipe": {"recipe": "clip(3)"},
}


@pytest.fixture(scope="module")
def of_row_chunks() -> dict[str, SparseEncoder]:
    """Encoders of row chunks by case, each fitted by the first test that asks for it."""
    return {}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("case", CASES)
def test_the_encoder_is_that_of_row_chunks_and_each_chunk_is_read_once_a_pass(
    layout: str, case: str, tmp_path: Path, reads: Counter[str], of_row_chunks: dict[str, SparseEncoder]
) -> None:
    values = GAPPY if "gaps" in case else np.abs(X) if case == "recipe" else X
    parameters = SKETCH | CASES[case]
    if case not in of_row_chunks:
        of_row_chunks[case] = SparseEncoder(K, **parameters).fit(stored(tmp_path / "rows.zarr", ROWS, values))
    wanted = of_row_chunks[case]
    tall = stored(tmp_path / "tall.zarr", LAYOUTS[layout], values)
    reads.clear()
    found = SparseEncoder(K, **parameters).fit(tall)
    assert_same_encoder(found, wanted, 1e-5 if case == "fast" else 1e-9)
    passes = found.certificate_.passes
    assert passes > wanted.certificate_.passes or case == "paper"
    if case == "paper":  # some of its recipes need whole rows
        assert max(reads.values()) < passes * open_matrix(tall).decodes_per_chunk  # type: ignore[attr-defined]
    else:
        assert set(reads.values()) == {passes}
        assert len(reads) == np.prod([-(-n // c) for n, c in zip((N, D), LAYOUTS[layout], strict=True)])


def test_a_read_by_rows_would_have_decoded_chunks_again(tmp_path: Path, reads: Counter[str]) -> None:
    path = stored(tmp_path / "x.zarr", LAYOUTS["tall"])
    source: Any = open_matrix(path)
    found = SparseEncoder(K, n_nonzero=4, method="batch", strategy="gram").fit(path)
    assert set(reads.values()) == {source.decodes_per_chunk}
    assert source.decodes_per_chunk == 12
    assert f"decoded {source.decodes_per_chunk} times a pass" in str(found.plan_)
    assert column_groups(open_matrix(stored(tmp_path / "rows.zarr", ROWS))) is None


def test_the_plan_says_how_it_reads(tmp_path: Path) -> None:
    tall, flat = stored(tmp_path / "x.zarr", LAYOUTS["tall"]), stored(tmp_path / "y.zarr", ROWS)
    told = plan(tall, K, calibrate=False, **SKETCH)
    assert [each.name for each in told.passes] == ["sketch", "codes", "candidates"]
    assert told.bytes_read == 3 * X.nbytes
    text = str(told)
    assert "reads by columns (sketch, codes, candidates)" in text
    assert "9 groups of up to 10 columns" in text
    assert "decoded once a pass" in text
    assert "times a pass" not in text
    certified = str(plan(tall, K, calibrate=False, certified=True, **SKETCH))
    assert "reads by columns (codes, candidates)" in certified
    assert "12 times a pass (sketch)" in certified
    rows = plan(flat, K, calibrate=False, **SKETCH)
    assert [each.name for each in rows.passes] == ["sketch", "candidates"]
    assert "by columns" not in str(rows)


def test_decoding_again_has_its_price(tmp_path: Path) -> None:
    tall, flat = stored(tmp_path / "x.zarr", LAYOUTS["tall"]), stored(tmp_path / "y.zarr", ROWS)
    nominal = [
        {each.strategy: each.thread_seconds for each in plan(path, K, calibrate=False, n_nonzero=4).alternatives}
        for path in (tall, flat)
    ]
    rate = X.nbytes / 0.25e9
    assert (nominal[0]["gram"] or 0) - (nominal[1]["gram"] or 0) == pytest.approx(11 * rate)
    measured = plan(tall, K, n_nonzero=4, strategy="sketch")
    assert measured.calibration is not None
    assert {each.name for each in measured.calibration.updates if each.strategy == "sketch"} == {
        "sketch",
        "codes",
        "candidates",
    }
    assert "gram" in measured.calibration.untried  # its rows were not read


def test_rows_are_read_where_too_much_would_be_kept_of_them(
    tmp_path: Path, reads: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = SparseEncoder(K, **SKETCH).fit(stored(tmp_path / "rows.zarr", ROWS))
    monkeypatch.setattr(orientation, "MOST_CODES_NBYTES", N * (20 * 4 + 12 * 8) - 1)
    path = stored(tmp_path / "x.zarr", LAYOUTS["tall"])
    reads.clear()
    found = SparseEncoder(K, **SKETCH).fit(path)
    assert_same_encoder(found, wanted)
    assert found.certificate_.passes == 2
    assert set(reads.values()) == {1 + 12}


def bits(encoder: SparseEncoder) -> Any:
    kept = (encoder.components_, encoder.decoder_, encoder.mean_, encoder.singular_values_)
    return encoder.certificate_, *(each.tobytes() for each in kept)


def test_threads_workers_and_a_resumed_run_give_the_same_bits(
    tmp_path: Path, open_cluster: ClusterOpener, reads: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = stored(tmp_path / "x.zarr", LAYOUTS["both ways"])
    whole = bits(SparseEncoder(K, **SKETCH).fit(path))
    open_cluster(2, processes=False)
    assert bits(SparseEncoder(K, **SKETCH).fit(path)) == whole

    class Stopped(Exception):
        pass

    def stop(event: Any) -> None:
        if isinstance(event, PassStarted) and event.name == "candidates":
            raise Stopped

    place = tmp_path / "kept"
    with pytest.raises(Stopped):
        SparseEncoder(K, checkpoint=place, progress=stop, **SKETCH).fit(path)
    reads.clear()
    resumed = SparseEncoder(K, checkpoint=place, **SKETCH).fit(path)
    assert bits(resumed) == whole
    assert max(reads.values()) <= 2  # a pass, and the blocks by which the data are known


def test_parts_of_an_array_job_give_the_same_bits(tmp_path: Path) -> None:
    path = stored(tmp_path / "x.zarr", LAYOUTS["tall"])
    whole, place = SparseEncoder(K, **SKETCH).fit(path), tmp_path / "kept"

    def encoder(part: ArrayPart) -> SparseEncoder:
        return SparseEncoder(K, checkpoint=CheckpointAt(place, part), **SKETCH)

    for _ in range(9):
        for number in (2, 1):
            fit_part(encoder(ArrayPart(number, 2)), path, ArrayPart(number, 2))
        try:
            found = encoder(ArrayPart(0, 1)).fit(path)
            break
        except PassIncomplete:
            pass
    assert bits(found) == bits(whole)


def test_a_damaged_state_is_read_again(tmp_path: Path) -> None:
    path, place = stored(tmp_path / "x.zarr", LAYOUTS["tall"]), tmp_path / "kept"
    whole = SparseEncoder(K, **SKETCH).fit(path)
    part = ArrayPart(1, 2)
    fit_part(SparseEncoder(K, checkpoint=CheckpointAt(place, part), **SKETCH), path, part)
    damaged = next(place.rglob("*.state"))
    damaged.write_bytes(damaged.read_bytes()[:-1])
    with pytest.warns(CheckpointWarning, match="cannot be used"):
        found = SparseEncoder(K, checkpoint=CheckpointAt(place), **SKETCH).fit(path)
    assert bits(found) == bits(whole)


def test_progress_is_in_rows_of_the_data(tmp_path: Path) -> None:
    events: list[Any] = []
    SparseEncoder(K, progress=events.append, **SKETCH).fit(stored(tmp_path / "x.zarr", LAYOUTS["ragged"]))
    begun = [each for each in events if isinstance(each, PassStarted)]
    assert [(each.name, each.n_rows, each.nbytes) for each in begun] == [
        (name, N, X.nbytes) for name in ("sketch", "codes", "candidates")
    ]
    n_done = 0
    for each in events:
        n_done += each.n_rows if isinstance(each, RowsDone) else 0
        if isinstance(each, PassEnded):
            assert n_done == N
            n_done = 0


def test_chosen_columns_and_rows_are_read_by_columns_too(tmp_path: Path, reads: Counter[str]) -> None:
    flat, tall = stored(tmp_path / "y.zarr", ROWS), stored(tmp_path / "x.zarr", LAYOUTS["tall"])
    columns = np.array([j for j in range(D) if j % 10 < 4 and not 20 <= j < 30])
    rows = np.flatnonzero(np.arange(N) % 3)
    wanted, found = (
        SparseEncoder(K, **SKETCH).fit(chosen_rows(chosen_columns(open_matrix(path), columns), rows))
        for path in (flat, tall)
    )
    assert_same_encoder(found, wanted)
    reads.clear()
    SparseEncoder(K, **SKETCH).fit(chosen_columns(open_matrix(tall), columns))
    assert set(reads.values()) == {3}
    assert not any(key.endswith("c/0/2") for key in reads)  # no column of it is wanted


def test_entries_that_are_not_numbers_are_named_by_row_and_column(tmp_path: Path) -> None:
    values = X.copy()
    values[430, 77] = values[500, 3] = np.nan
    path = stored(tmp_path / "x.zarr", LAYOUTS["both ways"], values)
    with pytest.raises(NonFiniteInput, match=r"2 NaN entries in 2 column.*row 430, column 77"):
        SparseEncoder(K, **SKETCH).fit(path)


def test_a_damaged_chunk_is_named(tmp_path: Path) -> None:
    path = stored(tmp_path / "x.zarr", LAYOUTS["both ways"])
    (tmp_path / "x.zarr" / "c" / "2" / "1").write_bytes(b"damage")
    with pytest.raises(StorageError, match=r"chunk 'c/2/1' of .* \(rows 300 to 449\) cannot be read"):
        SparseEncoder(K, **SKETCH).fit(path)


def test_rows_that_change_between_reads_are_noticed() -> None:
    class Changing(zarr_blocks.ZarrBlocks):
        """Another number in one entry once the first group of columns was read thrice."""

        n_reads = 0

        def rows(self, *where: Any) -> NDArray[Any]:
            rows = super().rows(*where)
            if 0 in (where[2] if len(where) > 2 else [0]):
                type(self).n_reads += 1
                rows[5, 0] += type(self).n_reads > 1
            return rows

    array = zarr.create_array({}, data=X, chunks=LAYOUTS["tall"])
    with pytest.raises(DataChanged, match="the pass 'codes' found other numbers"):
        SparseEncoder(K, **SKETCH).fit(Changing(array))


def test_every_chunk_of_a_tall_store_is_read_once_to_know_it_by(tmp_path: Path, reads: Counter[str]) -> None:
    path = stored(tmp_path / "x.zarr", LAYOUTS["tall"])
    first = fingerprint(open_matrix(path))
    assert set(reads.values()) == {1}
    assert len(reads) == 3
    other = X.copy()
    other[3, 45] += 1
    assert fingerprint(open_matrix(stored(tmp_path / "y.zarr", LAYOUTS["tall"], other))) != first
    assert fingerprint(open_matrix(stored(tmp_path / "z.zarr", LAYOUTS["tall"]))) == first


def test_samples_by_variants_are_read_by_columns(tmp_path: Path, reads: Counter[str]) -> None:
    calls = dosages(n=400, d=60)
    alleles = np.stack([calls >= 1, calls == 2], axis=-1).astype(np.int8)
    alleles[np.isnan(calls)] = -1
    alleles = np.ascontiguousarray(alleles.transpose(1, 0, 2))
    wanted = SparseEncoder(K, missing="zero", **SKETCH).fit(calls.astype(np.float32))
    path = write_vcf(tmp_path / "x.vcz", alleles, chunks=(7, 200, 2))
    source: Any = open_matrix(path)
    assert source.decodes_per_chunk > 1
    reads.clear()
    found = SparseEncoder(K, missing="zero", **SKETCH).fit(path)
    assert_same_encoder(found, wanted)
    calls_read = {key: count for key, count in reads.items() if "call_genotype/" in key}
    assert set(calls_read.values()) == {3}
    assert len(calls_read) == 9 * 2


def cube(n: int = 300, shape: tuple[int, int] = (11, 13)) -> xr.DataArray:
    values = spread(np.random.default_rng(3), n, int(np.prod(shape))).astype(np.float32).reshape(n, *shape)
    values[:, :4, :5] = np.nan
    coords = {"time": np.arange(n), "lat": np.linspace(-60, 60, shape[0]), "lon": np.arange(shape[1])}
    return xr.DataArray(values, dims=("time", "lat", "lon"), coords=coords, name="air")


@pytest.mark.parametrize("order", [("time", "lat", "lon"), ("lon", "time", "lat")])
@pytest.mark.parametrize("kind", ["zarr", "netcdf"])
def test_cubes_of_tiles_are_read_tile_by_tile(
    order: tuple[str, ...], kind: str, tmp_path: Path, reads: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    da = cube()
    sea = np.isfinite(da[0]).drop_vars("time")
    tile = {"time": 300, "lat": 3, "lon": 4}
    chunks = tuple(tile[dim] for dim in order)
    turned = da.transpose(*order).to_dataset()
    if kind == "zarr":
        turned.to_zarr(tmp_path / "x.zarr", encoding={"air": {"chunks": chunks}}, consolidated=False)
        lazy = xr.open_zarr(tmp_path / "x.zarr", chunks=None, consolidated=False).air
    else:
        turned.to_netcdf(tmp_path / "x.nc", engine="h5netcdf", encoding={"air": {"chunksizes": chunks}})
        lazy = xr.open_dataset(tmp_path / "x.nc", engine="h5netcdf").air
    made: list[GridRows] = []

    def tall_rows(*given: Any) -> GridRows:
        found = xarray_blocks.rows_of(*given)
        assert isinstance(found, GridRows)
        made.append(replace(found, max_nbytes=BLOCK, target_nbytes=BLOCK))
        return made[-1]

    wanted = GridEncoder(K, weights="coslat", **SKETCH).fit(da, "time", mask=sea)
    monkeypatch.setattr(grid_encoder, "rows_of", tall_rows)
    reads.clear()
    found = GridEncoder(K, weights="coslat", **SKETCH).fit(lazy, "time", mask=sea)
    assert_same_encoder(found.encoder_, wanted.encoder_)
    xr.testing.assert_equal(found.selected().transpose(*wanted.selected().dims), wanted.selected())
    assert found.certificate_.passes == 3
    if kind == "zarr":
        tiles = {key: count for key, count in reads.items() if "air/c/" in key}
        assert set(tiles.values()) == {3}
        assert len(tiles) == 4 * 4 - 1  # one tile has no sea
    (source,) = made
    groups = column_groups(source)
    assert groups is not None
    np.testing.assert_array_equal(np.sort(np.concatenate(groups)), np.arange(source.shape[1]))
    whole = np.concatenate([source.read(i) for i in range(len(source.bounds) - 1)])
    for columns in groups:
        alone = columns_alone(source, columns)
        assert alone is not None
        np.testing.assert_array_equal(alone.read(0), whole[:, columns])
    lazy.close()


def test_memory_is_that_of_a_group_and_not_of_a_row_of_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    # 200,000 times of a quarter degree: 800 GB, in tiles of 80 MB
    tall = zarr.create_array({}, shape=(200_000, 1_000_000), chunks=(200_000, 100), dtype="f4")
    told = plan(tall, 5, n_nonzero=10, strategy="sketch", calibrate=False, memory_limit="64GB")
    sketch = told.passes[0]
    assert told.bytes_read >= 2 * tall.nbytes
    assert sketch.block_nbytes <= 1 << 30
    assert sketch.n_spans > 100
    with pytest.raises(MemoryBudgetExceeded, match="a memory limit of"):
        plan(tall, 5, n_nonzero=10, strategy="sketch", calibrate=False, memory_limit="1GB")
