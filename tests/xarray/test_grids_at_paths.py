"""Grids at paths and URLs: every verb reads a netCDF file or a Zarr dataset, with the bits of GridEncoder."""

import pickle
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

from spae_dask import SparseEncoder, evaluate, load_encoder, open_matrix, plan
from spae_dask.errors import DataChanged, InvalidInput, NonFiniteInput, NotFound, OtherCheckpoint, SpaeWarning
from spae_dask.estimators.reporting import curve_from_data, grid_maps
from spae_dask.estimators.saved import save_encoder
from spae_dask.recipes import recipe_of
from spae_dask.storage.grids import xarray_blocks, xarray_files
from spae_dask.storage.sources.stored_chunks import check_chunks
from spae_dask.xarray import GridEncoder
from tests.xarray.grids import field, flat

LAND = np.arange(20).reshape(4, 5) % 7 == 3
SEA = xr.DataArray(~LAND, dims=("lat", "lon"))
"""Cells without data, and those with some."""

WEIGHTS = np.linspace(0.0, 2.0, 20).reshape(4, 5)
"""Weights of the cells; that of the first is 0."""


def dataset(n: int = 60, dtype: str = "f8") -> xr.Dataset:
    """A field with land, what a dataset has beside it, and a mask and weights over its grid."""
    air = np.exp(0.4 * (field(n) - 10)).where(SEA).transpose("lat", "time", "lon")
    beside = {
        "time_bnds": (("time", "bnds"), np.zeros((n, 2))),
        "sea": (("lon", "lat"), (~LAND).T.astype("i1")),
        "share": (("lat", "lon"), np.where(LAND, np.nan, 1.0)),
        "area_weights": (("lat", "lon"), WEIGHTS),
    }
    return xr.Dataset({"air": air.astype(dtype)}).assign(beside)


def written(made: xr.Dataset, folder: Path, kind: str = "zarr", **encoding: Any) -> str:
    """The dataset at a path."""
    path = folder / {"zarr": "g.zarr", "h5netcdf": "g.nc", "scipy": "g3.nc", "hdf5": "g.h5"}[kind]
    if kind == "zarr":
        made.to_zarr(path, encoding=encoding, consolidated=False)
    else:
        made.to_netcdf(path, engine="h5netcdf" if kind == "hdf5" else kind, encoding=encoding)
    return str(path)


def encoder(**options: Any) -> SparseEncoder:
    return SparseEncoder(2, n_nonzero=4, method="batch", **options)


def on_grid(**options: Any) -> GridEncoder:
    return GridEncoder(2, n_nonzero=4, method="batch", **options)


@pytest.mark.parametrize("kind", ["zarr", "h5netcdf", "scipy", "hdf5"])
@pytest.mark.parametrize("options", [{}, {"recipe": "sqrt", "covariates": "C(time.month)"}], ids=["plain", "seasons"])
def test_a_path_gives_the_bits_of_the_grid_encoder(tmp_path: Path, kind: str, options: dict[str, Any]) -> None:
    path = written(dataset(), tmp_path, kind)
    expected = on_grid(weights="coslat", **options).fit(dataset()["air"], "time")
    found = encoder(**options).fit(open_matrix(path, weights="coslat"))
    np.testing.assert_array_equal(found.components_, expected.encoder_.components_)
    assert found.certificate_.loss == expected.certificate_.loss
    assert found.feature_names_in_.tolist() == expected.encoder_.feature_names_in_.tolist()
    np.testing.assert_array_equal(np.asarray(found.transform(path)), expected.scores(dataset()["air"]).values)


def test_a_stored_encoder_is_one_of_the_grid_in_both_worlds(tmp_path: Path) -> None:
    path, air = written(dataset(), tmp_path), dataset()["air"]
    expected = on_grid(weights="coslat", recipe="sqrt").fit(air, "time")
    save_encoder(encoder(recipe="sqrt").fit(open_matrix(path, weights="coslat")), tmp_path / "E.zarr")
    loaded = GridEncoder.load(tmp_path / "E.zarr")
    assert (loaded.weights, loaded.recipe, loaded.n_nonzero) == ("coslat", "sqrt", 4)
    xr.testing.assert_identical(loaded.scores(air), expected.scores(air))
    xr.testing.assert_identical(loaded.decoder(), expected.decoder())
    assert grid_maps(load_encoder(tmp_path / "E.zarr")) is not None
    loaded.save(tmp_path / "again.zarr")
    expected.save(tmp_path / "of_grid.zarr")
    for name in ("E", "again", "of_grid"):
        codes = load_encoder(tmp_path / f"{name}.zarr").transform(path)
        np.testing.assert_array_equal(np.asarray(codes), expected.scores(air).values)
    assert evaluate(path, load_encoder(tmp_path / "of_grid.zarr")).loss == pytest.approx(expected.certificate_.loss)


def test_marks_of_missing_values_come_before_weights(tmp_path: Path) -> None:
    made = dataset()
    made["air"] = made["air"].where(made["air"] > made["air"].median(), -1.0).where(SEA)
    path = written(made, tmp_path)
    options = {"missing_value": -1.0, "missing": "mean"}
    expected = on_grid(weights="coslat", **options).fit(made["air"], "time")
    found = encoder(**options).fit(open_matrix(path, weights="coslat"))
    np.testing.assert_array_equal(found.components_, expected.encoder_.components_)
    save_encoder(found, tmp_path / "E.zarr")
    loaded = GridEncoder.load(tmp_path / "E.zarr")
    np.testing.assert_array_equal(loaded.scores(made["air"]), expected.scores(made["air"]))
    np.testing.assert_array_equal(np.asarray(load_encoder(tmp_path / "E.zarr").transform(path)), found.transform(path))


def test_a_mask_and_weights_may_be_variables(tmp_path: Path) -> None:
    path, air = written(dataset(), tmp_path), dataset()["air"]
    weights = xr.DataArray(WEIGHTS, dims=("lat", "lon"))
    expected = on_grid(weights=weights).fit(air, "time")
    for mask in (None, "sea", "share"):
        source = open_matrix(path, array="air", weights="area_weights", mask=mask)
        assert source.shape == (60, int((~LAND & (WEIGHTS > 0)).sum()))
        np.testing.assert_array_equal(encoder().fit(source).components_, expected.encoder_.components_)
    save_encoder(encoder().fit(source), tmp_path / "E.zarr")
    loaded = GridEncoder.load(tmp_path / "E.zarr")
    np.testing.assert_array_equal(loaded.weights.where(~LAND, 0.0), np.where(LAND, 0.0, WEIGHTS))
    assert open_matrix(path, mask="none").shape == (60, 20)


def test_rows_may_be_of_several_dimensions(tmp_path: Path) -> None:
    made = xr.Dataset({"t": field(12).expand_dims(member=3).copy()})
    made["t"].values[:] += np.arange(3.0)[:, None, None, None]
    path = written(made, tmp_path)
    source = open_matrix(path, sample_dim="time,member")
    np.testing.assert_array_equal(source.read(0), flat(made["t"].transpose("time", "member", ...), "lat", "lon"))
    found = encoder().fit(source)
    np.testing.assert_array_equal(np.asarray(found.transform(path)), np.asarray(found.transform(source)))


def test_other_grids_and_other_choices_are_refused(tmp_path: Path) -> None:
    path = written(dataset(), tmp_path)
    found = encoder().fit(open_matrix(path, weights="coslat", mask="sea"))
    for folder in ("other", "fewer"):
        (tmp_path / folder).mkdir()
    moved = dataset().assign_coords(lat=dataset()["lat"] + 1.0)
    with pytest.raises(InvalidInput, match="on another grid than the encoder"):
        found.transform(written(moved, tmp_path / "other"))
    with pytest.raises(InvalidInput, match=r"has 3 values of lat, but the encoder has 4"):
        found.transform(written(dataset().isel(lat=slice(3)), tmp_path / "fewer"))
    np.save(tmp_path / "x.npy", np.ones((5, 17)))
    with pytest.warns(SpaeWarning, match="weighted already"):
        found.transform(tmp_path / "x.npy")


@pytest.mark.parametrize(
    ("how", "error", "message"),
    [
        ({"array": "rain"}, NotFound, "no array 'rain'"),
        ({"mask": "rain"}, NotFound, "no mask 'rain'; its variables over the grid are .*sea"),
        ({"mask": "area_weights"}, InvalidInput, "other numbers than 0 and 1"),
        ({"mask": "time_bnds"}, InvalidInput, "over lat and lon"),
        ({"weights": "rain"}, NotFound, "neither 'coslat' nor a variable"),
        ({"weights": "time_bnds"}, InvalidInput, "weights have the dimensions"),
        ({"sample_dim": "rain"}, InvalidInput, "not a dimension"),
        ({"weights": "coslat", "columns": [3, 1]}, InvalidInput, "columns in another order than the cells"),
        ({"rows": "time.yaer > 2000"}, InvalidInput, "no column 'time.yaer' in its coordinates.*Did you mean"),
        ({"rows": "lat > 0"}, InvalidInput, "not one value for each of 60"),
        ({"rows": "time > 2000"}, InvalidInput, "'time' holds text, and 2000 is none"),
        ({"rows": "time < '2000'"}, InvalidInput, "chooses no row"),
    ],
)
def test_wrong_choices_are_named(tmp_path: Path, how: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        open_matrix(written(dataset(), tmp_path), **how)


def test_what_is_no_grid_has_neither_weights_nor_dimensions(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.ones((3, 2)))
    (tmp_path / "x.csv").write_text("a,b\n1,2\n")
    for x in (np.ones((3, 2)), tmp_path / "x.npy", tmp_path / "x.csv"):
        for how in ({"weights": "coslat"}, {"sample_dim": "time"}):
            with pytest.raises(InvalidInput, match="is for grids"):
                open_matrix(x, **how)


def test_steps_that_would_undo_weights_are_refused_before_a_read(tmp_path: Path) -> None:
    source = open_matrix(written(dataset(), tmp_path), weights="coslat")
    with pytest.raises(InvalidInput, match="scaled columns lose their weights"):
        encoder(scale=True).fit(source)
    with pytest.raises(InvalidInput, match="scaled columns lose their weights"):
        plan(source, 2, n_nonzero=4, scale="std")
    with pytest.raises(InvalidInput, match="cells of a grid have different areas"):
        encoder(recipe="normalize_total(1), log1p").fit(source)


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take every variable for a large one, read in blocks of eight samples."""
    monkeypatch.setattr(xarray_files, "LOOKED_NBYTES", 0)
    monkeypatch.setattr(xarray_blocks.GridRows, "places_per_block", property(lambda _: 8))


@pytest.mark.usefixtures("large")
def test_of_large_data_the_first_block_tells_which_cells_have_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: list[int] = []
    read = xarray_blocks.GridRows.read
    monkeypatch.setattr(xarray_blocks.GridRows, "read", lambda self, i: reads.append(i) or read(self, i))
    source = open_matrix(written(dataset(), tmp_path))
    assert reads == [0]
    expected = on_grid().fit(dataset()["air"], "time")
    np.testing.assert_array_equal(encoder().fit(source).components_, expected.encoder_.components_)


@pytest.mark.usefixtures("large")
def test_data_in_a_cell_that_was_left_out_stop_the_fit(tmp_path: Path) -> None:
    made = dataset()
    made["air"].transpose("time", "lat", "lon").values[50, 0, 3] = 1.0
    path = written(made, tmp_path)
    with pytest.raises(InvalidInput, match=r"a number in row 50 of the cell lat\[0\], lon\[3\].*--mask none --missing"):
        encoder().fit(path)
    with pytest.raises(InvalidInput, match="a number in row 50"):
        list(map(pickle.loads(pickle.dumps(open_matrix(path))).read, range(8)))
    assert encoder(missing="mean").fit(open_matrix(path, mask="none")).n_features_in_ == 20
    (tmp_path / "gap").mkdir()
    with pytest.raises(NonFiniteInput):
        encoder().fit(open_matrix(written(dataset(), tmp_path / "gap"), mask="none"))


def test_workers_do_not_get_the_coordinates(tmp_path: Path) -> None:
    source: Any = open_matrix(written(dataset(), tmp_path))
    assert source.layout is not None
    copy = pickle.loads(pickle.dumps(source))
    assert copy.layout is None
    np.testing.assert_array_equal(copy.read(0), source.read(0))


def test_packed_numbers_are_decoded_unless_raw_ones_are_asked_for(tmp_path: Path) -> None:
    packing = {"dtype": "i2", "scale_factor": 0.01, "add_offset": 10.0, "_FillValue": -32768}
    path = written(dataset(), tmp_path, air=packing)
    decoded, raw = open_matrix(path), open_matrix(path, decode=False)
    np.testing.assert_allclose(decoded.read(0), flat(dataset()["air"], "lat", "lon")[:, ~LAND.ravel()], atol=0.006)
    assert (raw.dtype, raw.shape) == (np.dtype("i2"), (60, 20))
    assert set(raw.passed_over) == {"scale_factor", "add_offset", "_FillValue"}  # type: ignore[attr-defined]


def test_a_changed_grid_is_noticed_by_a_resumed_fit(tmp_path: Path) -> None:
    path = written(dataset(), tmp_path)
    encoder(checkpoint=str(tmp_path / "c"), missing="mean").fit(path)
    shutil.rmtree(path)
    other = written(dataset() + 1.0, tmp_path)
    with pytest.raises(OtherCheckpoint, match=r"chunk 'c/0/0/0' of .*air was written again"):
        encoder(checkpoint=str(tmp_path / "c"), missing="mean").fit(other)


@pytest.mark.parametrize("more", [{}, {"exclude": ["lat=60.0*"]}], ids=str)
def test_a_least_distance_is_in_kilometres_on_the_earth(tmp_path: Path, more: dict[str, Any]) -> None:
    path = written(dataset(), tmp_path)
    options = {"n_features": 4, "min_distance": 2500.0, "keep_state": False, **more}
    expected = GridEncoder(2, weights="coslat", **options).fit(dataset()["air"], "time")
    found = SparseEncoder(2, **options).fit(open_matrix(path, weights="coslat"))
    np.testing.assert_array_equal(found.components_, expected.encoder_.components_)
    save_encoder(found, tmp_path / "E.zarr")
    curve, _ = curve_from_data(load_encoder(tmp_path / "E.zarr"), open_matrix(path, weights="coslat"))
    assert curve.points
    with pytest.raises(InvalidInput, match="half of the circumference of the Earth"):
        SparseEncoder(2, n_features=4, min_distance=21000.0).fit(path)


def test_rows_are_added_under_the_rules_of_a_grid(tmp_path: Path) -> None:
    path = written(dataset(), tmp_path)
    options = {"n_features": 4, "min_distance": 2500.0}
    save_encoder(SparseEncoder(2, keep_state=True, **options).fit(path), tmp_path / "E.zarr")
    twice = load_encoder(tmp_path / "E.zarr").update(path)
    both = xr.concat([dataset()["air"].transpose("time", ...)] * 2, "time")
    expected = GridEncoder(2, **options).fit(both, "time")
    assert twice.certificate_.loss == pytest.approx(expected.certificate_.loss, rel=1e-9)
    np.testing.assert_array_equal(twice.selected_features_, expected.encoder_.selected_features_)


def test_cells_chosen_by_name_are_those_with_data(tmp_path: Path) -> None:
    source = open_matrix(written(dataset(), tmp_path), columns=["lat=-60.0*", "lat=60.0*"])
    expected = flat(dataset()["air"], "lat", "lon")[:, [0, 1, 2, 4, *range(15, 17), 18, 19]]
    np.testing.assert_array_equal(source.read(0), expected)
    found = encoder().fit(source)
    np.testing.assert_array_equal(
        np.asarray(found.transform(written(dataset(), tmp_path, "scipy"))), np.asarray(found.transform(source))
    )


def in_parts(made: xr.Dataset, folder: Path, kind: str = "scipy", first: int = 8) -> str:
    """The dataset in files of seven samples each, which the order of their names does not follow."""
    for number, start in enumerate(range(0, made.sizes["time"], 7)):
        part = made.isel(time=slice(start, start + 7))
        name = f"part-{(number + first) % 9}"
        units = {"time": {"units": f"hours since {str(part['time'].values[0])[:10]}"}}
        if kind == "zarr":
            part.to_zarr(folder / f"{name}.zarr", encoding=units, consolidated=False)
        else:
            part.to_netcdf(folder / f"{name}.nc", engine=kind, encoding=units)
    return str(folder)


@pytest.mark.parametrize(("kind", "pattern"), [("h5netcdf", ""), ("scipy", "/part-*.nc"), ("zarr", "/*.zarr")])
def test_many_files_are_one_grid_in_the_order_of_their_times(tmp_path: Path, kind: str, pattern: str) -> None:
    where, options = in_parts(dataset(), tmp_path, kind) + pattern, {"recipe": "sqrt", "covariates": "C(time.month)"}
    source = open_matrix(where, array="air", weights="coslat")
    assert source.shape == (60, int((~LAND).sum()))
    expected = on_grid(weights="coslat", **options).fit(dataset()["air"], "time")
    found = encoder(**options).fit(source)
    assert found.certificate_.loss == pytest.approx(expected.certificate_.loss, rel=1e-12)
    np.testing.assert_allclose(found.components_, expected.encoder_.components_, atol=1e-9)
    save_encoder(found, tmp_path / "E.encoder")
    scores = GridEncoder.load(tmp_path / "E.encoder").scores(dataset()["air"])
    codes = load_encoder(tmp_path / "E.encoder").transform(where)
    np.testing.assert_allclose(np.asarray(codes), scores.values, atol=1e-12)


@pytest.mark.usefixtures("large")
def test_blocks_of_many_files_name_the_row_among_all(tmp_path: Path) -> None:
    made = dataset()
    made["air"].transpose("time", "lat", "lon").values[50, 0, 0] = -1.0
    where = in_parts(made, tmp_path)
    with pytest.raises(InvalidInput, match="numbers of at least 0") as caught:
        list(map(open_matrix(where).followed(recipe_of("sqrt")).read, range(9)))  # type: ignore[attr-defined]
    assert caught.value.place == (50, 0)
    with pytest.raises(IndexError):
        open_matrix(where).read(9)


def test_files_of_another_grid_or_another_variable_are_named(tmp_path: Path) -> None:
    where = in_parts(dataset(), tmp_path)
    odd = tmp_path / "part-3.nc"
    whole = xr.load_dataset(odd)
    whole.assign_coords(lat=whole["lat"] + 1.0).to_netcdf(odd, engine="h5netcdf")
    with pytest.raises(InvalidInput, match=r"is on another grid than .*part-8\.nc: value 0 of lat"):
        open_matrix(where)
    whole.isel(lat=slice(3)).to_netcdf(odd, engine="h5netcdf")
    with pytest.raises(InvalidInput, match=r"has 3 values of lat, but .*part-8\.nc has 4"):
        open_matrix(where)
    whole.drop_vars("air").to_netcdf(odd, engine="h5netcdf")
    with pytest.raises(NotFound, match=r"part-3\.nc has no variable 'air'"):
        open_matrix(where)


def test_a_file_that_changes_during_a_run_is_noticed(tmp_path: Path) -> None:
    where = in_parts(dataset(), tmp_path)
    checked = check_chunks(open_matrix(where))
    whole = xr.load_dataset(tmp_path / "part-3.nc")
    (whole + 1.0).to_netcdf(tmp_path / "other.nc", engine="h5netcdf")
    (tmp_path / "other.nc").replace(tmp_path / "part-3.nc")
    with pytest.raises(DataChanged, match=r"part-3\.nc"):
        checked.refuse_changed()


@pytest.mark.parametrize(
    ("condition", "chosen"),
    [
        ("time >= '2001-02'", lambda air: air["time"] >= np.datetime64("2001-02")),
        ("time.month == 2 and not time.dayofweek in [5, 6]", lambda air: (air["time"].dt.month == 2)
         & (air["time"].dt.dayofweek < 5)),
        ("season == 3 or time < '2001-01-10T00:00:00'", lambda air: (air["season"] == 3)
         | (air["time"] < np.datetime64("2001-01-10"))),
        ("'DJF' == time.season", lambda air: air["time"].dt.season == "DJF"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("many", [False, True])
def test_conditions_on_coordinates_choose_samples(
    tmp_path: Path, condition: str, chosen: Callable[[xr.DataArray], xr.DataArray], many: bool
) -> None:
    where = in_parts(dataset(), tmp_path) if many else written(dataset(), tmp_path)
    options = {"covariates": "time.dayofweek", "row_weights": "time.day", "recipe": "sqrt", "missing_value": 2.0}
    air = dataset()["air"]
    expected = on_grid(weights="coslat", **options).fit(air.isel(time=np.flatnonzero(chosen(air))), "time")
    found = encoder(**options).fit(open_matrix(where, array="air", weights="coslat", rows=condition))
    assert found.certificate_.loss == pytest.approx(expected.certificate_.loss, rel=1e-10)
    np.testing.assert_allclose(found.components_, expected.encoder_.components_, atol=1e-8)
    save_encoder(found, tmp_path / "E.encoder")
    again = GridEncoder.load(tmp_path / "E.encoder").scores(air)
    np.testing.assert_allclose(again, np.asarray(found.transform(where)), atol=1e-12)


def test_a_loaded_encoder_keeps_its_grid_when_another_is_written_at_its_path(tmp_path: Path) -> None:
    path = written(dataset(), tmp_path)
    save_encoder(encoder().fit(open_matrix(path, weights="coslat")), tmp_path / "E.zarr")
    loaded = load_encoder(tmp_path / "E.zarr")
    expected = np.asarray(loaded.transform(path))
    save_encoder(encoder().fit(open_matrix(path, weights="area_weights")), tmp_path / "E.zarr", overwrite=True)
    np.testing.assert_array_equal(np.asarray(loaded.transform(path)), expected)
    shutil.rmtree(tmp_path / "E.zarr")
    np.testing.assert_array_equal(np.asarray(loaded.transform(path)), expected)


def test_cells_that_were_left_out_are_looked_at_though_chunks_become_tall(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(xarray_files, "LOOKED_NBYTES", 0)
    path = written(dataset(dtype="f2"), tmp_path, air={"chunks": (2, 60, 2)})
    source: Any = open_matrix(path)
    assert source.left_out is not None
    tall = replace(source, max_nbytes=60 * 20 * 2).followed(recipe_of("sqrt"))
    assert tall.decodes_per_chunk > 1, "entries are wider than those that are stored"
    assert tall.column_groups is None
