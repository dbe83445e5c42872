"""Grids: the encoder of the plain matrix, whatever the layout; dims, coords and attrs kept; laziness; errors."""

from pathlib import Path

import dask.array as da
import numpy as np
import pytest
import xarray as xr
from distributed import Client, LocalCluster
from hypothesis import given, settings
from hypothesis import strategies as st

from spae_dask import SparseEncoder
from spae_dask.errors import InvalidInput, MemoryBudgetExceeded, NonFiniteInput
from spae_dask.xarray import GridEncoder
from tests.oracles import encoder_loss, pca_loss
from tests.xarray.grids import climate_run, field, flat


class TestClimateRun:
    """240 years of a real model run, 19 x 25 cells."""

    def test_losses_are_those_of_weighted_anomalies_by_svd(self) -> None:
        run = climate_run()
        encoder = GridEncoder(4, n_nonzero=10, effort=0, weights="coslat").fit(run, "time")
        weights = np.sqrt(np.cos(np.deg2rad(run["latitude"].values.astype(float))))
        x = (run.values.astype(float) * weights[:, None]).reshape(240, -1)
        x -= x.mean(axis=0)
        certificate = encoder.certificate_
        assert certificate.pca_loss == pytest.approx(pca_loss(x, 4), rel=1e-5)
        H = flat(encoder.components(), "latitude", "longitude").T
        assert certificate.loss == pytest.approx(encoder_loss(x, H), rel=1e-5)
        assert 1 <= certificate.ratio < 1.1
        assert ((H != 0).sum(axis=0) <= 10).all()

    def test_the_file_is_read_block_by_block(self) -> None:
        run = climate_run()
        encoder = GridEncoder(2, n_nonzero=4, effort=0, strategy="gram").fit(run, "time")
        assert not run._in_memory
        inner = SparseEncoder(2, n_nonzero=4, effort=0, strategy="gram").fit(run.values.reshape(240, -1))
        np.testing.assert_array_equal(encoder.encoder_.components_, inner.components_)


@st.composite
def layouts(draw: st.DrawFn) -> tuple[tuple[str, ...], dict[str, int] | None, np.ndarray]:
    dims = tuple(draw(st.permutations(["time", "lat", "lon"])))
    chunks = draw(
        st.none()
        | st.fixed_dictionaries({d: st.integers(1, n) for d, n in zip(("time", "lat", "lon"), (60, 4, 5), strict=True)})
    )
    land = np.zeros(20, dtype=bool)
    land[draw(st.lists(st.integers(0, 19), max_size=10, unique=True))] = True
    return dims, chunks, land.reshape(4, 5)


@pytest.mark.parametrize(
    "dims", ["time", ("time",), {"time"}, np.array(["time"])], ids=["text", "tuple", "set", "array"]
)
def test_names_of_dimensions_come_in_any_container(dims) -> None:
    assert GridEncoder(2, n_nonzero=4, method="batch").fit(field(), dims).scores(field()).dims == ("time", "component")


@settings(deadline=None)
@given(layouts(), st.booleans(), st.booleans())
def test_any_layout_and_mask_gives_the_encoder_of_the_plain_matrix(layout, weighted, scale) -> None:
    dims, chunks, land = layout
    whole = field()
    given = whole.where(~xr.DataArray(land, dims=("lat", "lon"))).transpose(*dims)
    if chunks is not None:
        given = given.chunk(chunks)
    # chosen once, without a search whose last steps hang on rounding
    encoder = GridEncoder(2, n_nonzero=4, method="batch", weights="coslat" if weighted else None, scale=scale)
    encoder.fit(given, sample_dim="time")

    x = flat(whole, "lat", "lon")[:, ~land.reshape(-1)]
    weights = np.ones((4, 5))
    if weighted:
        weights = np.sqrt(np.cos(np.deg2rad(whole["lat"].values)))[:, None] * weights
    w = weights.reshape(-1)[~land.reshape(-1)]
    x = (x / x.std(axis=0, ddof=1) if scale else x) * w
    plain = SparseEncoder(2, n_nonzero=4, method="batch").fit(x)

    components = encoder.components()
    assert components.dims == ("component", *(dim for dim in dims if dim != "time"))
    found = flat(components, "lat", "lon")
    assert np.isnan(found[:, land.reshape(-1)]).all()
    np.testing.assert_allclose(found[:, ~land.reshape(-1)], plain.components_, atol=1e-6)
    assert encoder.certificate_.loss == pytest.approx(plain.certificate_.loss, rel=1e-6)
    assert encoder.certificate_.passes == 1 + bool(land.any() or (weighted and scale))

    scores = encoder.scores(given)
    np.testing.assert_allclose(scores.values, plain.transform(x), atol=1e-5)
    decoded = encoder.reconstruct(scores)
    assert decoded.dims == dims
    factor = w / flat(whole, "lat", "lon")[:, ~land.reshape(-1)].std(axis=0, ddof=1) if scale else w
    expected = plain.inverse_transform(plain.transform(x)) / factor
    np.testing.assert_allclose(flat(decoded, "lat", "lon")[:, ~land.reshape(-1)], expected, atol=1e-5)
    by_patterns = encoder.mean() + (scores * encoder.decoder()).sum("component", skipna=False)
    xr.testing.assert_allclose(by_patterns.transpose(*dims).drop_attrs(), decoded.drop_attrs().compute())


class TestLabels:
    def test_dims_coords_and_attrs_are_kept(self) -> None:
        da_ = field()
        encoder = GridEncoder(2, n_nonzero=3, method="batch").fit(da_, "time")
        decoded = encoder.reconstruct(encoder.scores(da_))
        xr.testing.assert_identical(decoded.copy(data=da_.values), da_)
        for array in (encoder.components(), encoder.decoder(), encoder.selected()):
            assert set(array.coords) == {"component", "lat", "lon", "area", "height"}
            np.testing.assert_array_equal(array["component"], [1, 2])
            assert array["lat"].attrs == da_["lat"].attrs
        assert set(encoder.scores(da_).coords) == {"component", "time", "season", "height"}
        assert encoder.decoder().attrs == da_.attrs

    def test_no_coordinates_are_invented(self) -> None:
        bare = xr.DataArray(field().values, dims=("time", "y", "x"))
        encoder = GridEncoder(2, n_nonzero=3, method="batch").fit(bare)
        assert set(encoder.components().coords) == {"component"}
        assert set(encoder.reconstruct(encoder.scores(bare)).coords) == set()
        assert encoder.encoder_.feature_names_in_[6] == "x=1, y=2"

    def test_the_component_dimension_yields_to_one_of_the_data(self) -> None:
        named = field().rename(lat="component")
        encoder = GridEncoder(2, n_nonzero=3, method="batch").fit(named, "time")
        assert encoder.components().dims == ("sparse_component", "component", "lon")
        decoded = encoder.reconstruct(encoder.scores(named))
        assert decoded.dims == named.dims

    def test_coordinates_of_both_kinds_of_dimensions_are_left_out(self) -> None:
        mixed = field().assign_coords(local=(("time", "lon"), np.zeros((60, 5))))
        encoder = GridEncoder(2, n_nonzero=3, method="batch").fit(mixed, "time")
        assert "local" not in encoder.components().coords
        assert "local" not in encoder.scores(mixed).coords

    def test_the_table_lists_cells_by_falling_coefficient(self) -> None:
        encoder = GridEncoder(2, n_nonzero=3, method="batch").fit(field(), "time")
        table = encoder.table()
        components = encoder.components()
        assert int(encoder.selected().sum()) == table.sizes["entry"]
        for j, coefficient, cell in zip(
            table.component.values, table.coefficient.values, table.cell.values, strict=True
        ):
            lat, lon = (float(each.partition("=")[2]) for each in cell.split(", "))
            assert float(components.sel(component=j, lat=lat, lon=lon)) == coefficient
        assert (np.diff(np.abs(table.coefficient.values[:3])) <= 0).all()


class TestMissing:
    def test_land_is_found_in_one_more_pass_and_not_with_a_mask(self) -> None:
        da_ = field()
        sea = xr.DataArray(np.arange(20).reshape(4, 5) % 3 > 0, dims=("lat", "lon"))
        encoder = GridEncoder(2, n_nonzero=3, method="batch").fit(da_.where(sea), "time")
        assert encoder.certificate_.passes == 2
        masked = GridEncoder(2, n_nonzero=3, method="batch").fit(da_, "time", mask=sea)
        assert masked.certificate_.passes == 1
        xr.testing.assert_identical(encoder.components(), masked.components())

    def test_one_nan_is_refused_with_its_time_and_cell(self) -> None:
        da_ = field()
        da_[{"time": slice(None), "lat": 0}] = np.nan  # land before it, so that columns shift
        da_[{"time": 33, "lat": 2, "lon": 3}] = np.nan
        for each in (da_, da_.chunk(time=10), da_.transpose("lon", "time", "lat")):
            with pytest.raises(NonFiniteInput, match=r"NaN at time=2001-02-03, lat=20.0, lon=30.0,") as caught:
                GridEncoder(2, n_nonzero=3, method="batch").fit(each, "time")
            assert "missing='mean'" in str(caught.value)

    def test_one_nan_follows_the_policy(self) -> None:
        da_ = field()
        da_[{"time": 33, "lat": 2, "lon": 3}] = np.nan
        x = flat(da_, "lat", "lon")
        for policy in ("mean", "zero"):
            encoder = GridEncoder(2, n_nonzero=3, method="batch", missing=policy).fit(da_, "time")
            plain = SparseEncoder(2, n_nonzero=3, method="batch", missing=policy).fit(x)
            np.testing.assert_allclose(encoder.encoder_.components_, plain.components_, atol=1e-9)
            assert encoder.scores(da_).notnull().all()

    @pytest.mark.parametrize("policy", ["mean", "zero"])
    def test_scaling_before_weighting_sees_gaps_as_they_are_filled(self, policy: str) -> None:
        da_ = field()
        da_[{"time": slice(5, 15), "lat": 2, "lon": 3}] = np.nan
        x = flat(da_, "lat", "lon")
        filled = np.where(np.isnan(x), np.nanmean(x, axis=0) if policy == "mean" else 0.0, x)
        weights = np.repeat(np.sqrt(np.cos(np.deg2rad(da_["lat"].values))), 5)
        standard = (filled - filled.mean(axis=0)) / filled.std(axis=0, ddof=1) * weights
        encoder = GridEncoder(2, n_nonzero=3, method="batch", missing=policy, scale=True, weights="coslat").fit(
            da_, "time"
        )
        assert encoder.certificate_.total == pytest.approx((standard**2).sum())
        assert encoder.certificate_.pca_loss == pytest.approx(pca_loss(standard, 2))

    def test_an_infinite_entry_is_named(self) -> None:
        da_ = field()
        da_[{"time": 1, "lat": 1, "lon": 1}] = np.inf
        with pytest.raises(NonFiniteInput, match=r"infinite at time=2001-01-02, lat=-20.0, lon=10.0"):
            GridEncoder(2, n_nonzero=3, method="batch").fit(da_, "time")

    def test_a_number_that_stands_for_missing_is_not_weighted_first(self) -> None:
        da_ = field()
        sea = xr.DataArray(np.arange(20).reshape(4, 5) % 3 > 0, dims=("lat", "lon"))
        marked = da_.where(sea, -999.0)
        encoder = GridEncoder(2, n_nonzero=3, method="batch", missing_value=-999.0, weights="coslat").fit(
            marked, "time"
        )
        expected = GridEncoder(2, n_nonzero=3, method="batch", weights="coslat").fit(da_.where(sea), "time")
        np.testing.assert_allclose(encoder.components(), expected.components(), atol=1e-6)

    def test_several_numbers_stand_for_missing_and_are_saved(self, tmp_path: Path) -> None:
        da_ = field()
        land = xr.DataArray(np.arange(20).reshape(4, 5) % 3, dims=("lat", "lon"))
        marked = da_.where(land != 0, -999.0).where(land != 1, -998.0)
        encoder = GridEncoder(2, n_nonzero=3, method="batch", missing_value=(-999.0, -998.0)).fit(marked, "time")
        expected = GridEncoder(2, n_nonzero=3, method="batch").fit(da_.where(land == 2), "time")
        np.testing.assert_allclose(encoder.components(), expected.components(), atol=1e-6)
        encoder.save(tmp_path / "e.zarr")
        xr.testing.assert_identical(GridEncoder.load(tmp_path / "e.zarr").scores(marked), encoder.scores(marked))

    @pytest.mark.parametrize("wrong", ["x", 300, [-1, 0.5]])
    def test_what_cannot_stand_for_missing_is_refused(self, wrong: object) -> None:
        with pytest.raises(InvalidInput, match="missing_value"):
            GridEncoder(2, n_nonzero=3, method="batch", missing_value=wrong).fit((field() * 0).astype("i1"), "time")

    def test_nothing_but_nan_is_refused(self) -> None:
        with pytest.raises(InvalidInput, match="NaN in every cell"):
            GridEncoder(2, n_nonzero=3, method="batch").fit(field() * np.nan, "time")

    def test_constant_cells_are_never_selected_when_scaled(self) -> None:
        da_ = field()
        da_[{"lat": 1, "lon": 1}] = 280.15
        for weights in (None, "coslat"):
            encoder = GridEncoder(2, n_nonzero=20, effort=0, scale=True, weights=weights).fit(da_, "time")
            assert not encoder.selected().isel(lat=1, lon=1).any()
            np.testing.assert_allclose(encoder.reconstruct(encoder.scores(da_)).isel(lat=1, lon=1), 280.15, rtol=1e-6)


class TestLazy:
    def test_a_fit_on_workers_is_the_fit_on_threads(self, tmp_path: Path) -> None:
        path = tmp_path / "air.nc"
        field(dtype="f4").to_netcdf(path, engine="h5netcdf")
        with xr.open_dataset(path, engine="h5netcdf", cache=False) as dataset:
            here = GridEncoder(2, n_nonzero=3, method="batch", weights="coslat").fit(dataset["air"])
            scores = here.scores(dataset["air"]).compute()
            with LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=":0") as cluster, Client(cluster):
                there = GridEncoder(2, n_nonzero=3, method="batch", weights="coslat").fit(dataset["air"])
                xr.testing.assert_identical(there.scores(dataset["air"]).compute(), scores)
            assert "dask workers" in there.encoder_.plan_.resources.where
        xr.testing.assert_identical(there.components(), here.components())

    def test_a_fit_that_does_not_fit_is_refused_before_reading(self) -> None:
        def never(block: np.ndarray) -> np.ndarray:
            raise AssertionError("something was read")

        wide = da.zeros((10, 3000, 1000), chunks=(10, 1000, 1000), dtype="f4").map_blocks(
            never, dtype="f4", meta=np.empty((0, 0, 0), dtype="f4")
        )
        mask = xr.DataArray(np.ones((3000, 1000), dtype=bool), dims=("y", "x"))
        with pytest.raises(MemoryBudgetExceeded):
            GridEncoder(2, n_nonzero=3, method="batch", memory_limit="300MB").fit(
                xr.DataArray(wide, dims=("time", "y", "x")), "time", mask=mask
            )


@pytest.mark.parametrize(
    ("fit", "message"),
    [
        (lambda e: e.fit(field().values, "time"), "ndarray has no named dimensions"),
        (lambda e: e.fit(field().to_dataset(), "time"), r"Dataset holds several variables \(air\)"),
        (lambda e: e.fit(field(), 2), "sample_dim=2 is not allowed: give the name of a dimension"),
        (lambda e: e.fit(field(), "tim"), "'tim' is not a dimension of the DataArray 'air', which has time, lat, lon"),
        (lambda e: e.fit(field(), ("time", "time")), "several different ones"),
        (lambda e: e.fit(field(), ()), "one dimension"),
        (lambda e: e.fit(field(), ("time", "lat", "lon")), "no cells to select"),
        (lambda e: e.fit(field().rename(time="z").drop_vars("z")), "none of its dimensions is known to be time"),
        (lambda e: e.fit(field().isel(time=slice(0)), "time"), "is empty"),
        (lambda e: e.fit(field().astype(str), "time"), "not numbers"),
        (lambda e: e.fit(field(), "time", mask=np.ones((4, 5), bool)), "the mask is ndarray"),
        (lambda e: e.fit(field(), "time", mask=field().isel(time=0, drop=True)), "the mask is float64"),
        (lambda e: e.fit(field(), "time", mask=field().isnull().any("time")), "no cell is left"),
    ],
)
def test_what_cannot_be_used_is_refused_with_what_to_do(fit, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        fit(GridEncoder(2, n_nonzero=3, method="batch"))
