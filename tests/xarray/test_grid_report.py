"""Maps in the report of a grid encoder."""

from pathlib import Path

import matplotlib as mpl
import numpy as np
import numpy.typing as npt
import pytest
import shapely
import xarray as xr
from matplotlib.patches import PathPatch

from spae_dask import SparseEncoder
from spae_dask.estimators.reporting import grid_maps, write_report
from spae_dask.estimators.saved import load_encoder, save_encoder
from spae_dask.report.coastlines import NO_DATA, Coast
from spae_dask.report.map_section import MOST_MAPS, GridMaps, component_maps
from spae_dask.report.themes import DARK, LIGHT, Theme
from spae_dask.xarray import GridEncoder
from tests.report.coastline_data import store, with_data_in, without_cartopy
from tests.report.page_reader import read_page

mpl.use("agg")


def grid(*dims: str, n_lat: int = 5, n_lon: int = 7) -> xr.DataArray:
    """Sixty fields, with a cell that never has data, their dimensions in the order that is given."""
    values = np.random.default_rng(0).standard_normal((60, n_lat, n_lon))
    values[:, 2, 3] = np.nan
    coords = {"lat": np.linspace(60.0, -60.0, n_lat), "lon": np.linspace(0.0, 300.0, n_lon)}
    made = xr.DataArray(values, dims=("time", "lat", "lon"), coords=coords, name="sst")
    return made.transpose(*dims) if dims else made


@pytest.mark.parametrize("dims", [("time", "lat", "lon"), ("lon", "time", "lat")])
def test_maps_are_the_decoder_and_the_cells_in_the_order_of_the_data(dims: tuple[str, ...], tmp_path: Path) -> None:
    fitted = GridEncoder(2, n_nonzero=3, weights="coslat", scale=True, effort=0).fit(grid(*dims), sample_dim="time")
    fitted.save(tmp_path / "E.zarr")
    maps = grid_maps(load_encoder(tmp_path / "E.zarr"))
    y, x = (dim for dim in dims if dim != "time")
    assert maps is not None
    assert maps.dims == (y, x)
    np.testing.assert_allclose(maps.decoder, fitted.decoder().transpose("component", y, x), rtol=1e-12)
    np.testing.assert_array_equal(maps.used, fitted.selected().transpose("component", y, x))
    for places, dim in zip(maps.places, maps.dims, strict=True):
        np.testing.assert_array_equal(places, fitted.decoder()[dim])


def test_the_page_has_a_map_of_each_component_of_a_grid_and_none_of_a_matrix(tmp_path: Path) -> None:
    GridEncoder(2, n_nonzero=3, effort=0).fit(grid(), sample_dim="time").save(tmp_path / "E.zarr")
    save_encoder(
        SparseEncoder(2, n_nonzero=3, effort=0).fit(np.random.default_rng(0).random((40, 6))), tmp_path / "M.zarr"
    )
    told = []
    for name in ("E", "M"):
        write_report(load_encoder(tmp_path / f"{name}.zarr"), str(tmp_path / f"{name}.zarr"), tmp_path / "page.html",
                     overwrite=True)  # fmt: skip
        page = read_page((tmp_path / "page.html").read_text(encoding="utf-8"), scripts=1)
        assert page.errors == []
        told.append([alt for alt in page.alts if alt.startswith("Maps of 2 components over lat and lon")])
    assert [len(each) for each in told] == [1, 0]


def test_a_grid_of_one_dimension_has_no_map(tmp_path: Path) -> None:
    line = grid().isel(lon=0, drop=True)
    GridEncoder(2, n_nonzero=3, effort=0).fit(line, sample_dim="time").save(tmp_path / "E.zarr")
    assert grid_maps(load_encoder(tmp_path / "E.zarr")) is None


@pytest.mark.parametrize("k", [1, 3, MOST_MAPS])
def test_each_map_has_the_cells_of_its_component(k: int) -> None:
    used: npt.NDArray[np.bool_] = np.random.default_rng(1).random((k, 4, 6)) < 0.3
    maps = GridMaps(np.ones((k, 4, 6)), used, ("y", "x"), (np.arange(4.0), np.arange(6.0)))
    figure = component_maps(maps, range(k), LIGHT)
    drawn = [axes for axes in figure.axes if axes.get_title(loc="left").startswith("component")]
    assert len(drawn) == k
    for axes, cells in zip(drawn, used, strict=True):
        row, column = np.nonzero(cells)
        np.testing.assert_array_equal(axes.collections[-1].get_offsets(), np.stack([column, row], axis=1))


@pytest.mark.parametrize("theme", [LIGHT, DARK])
@pytest.mark.parametrize("longitude", [0, 1])
def test_coastlines_lie_below_the_circles_and_leave_the_map_as_it_is(theme: Theme, longitude: int) -> None:
    coast = Coast(shapely.LineString([[-175.0, -50.0], [-100.0, 0.0], [-60.0, 80.0], [100.0, 80.0]]))
    places = (np.linspace(60.0, -60.0, 5), np.linspace(0.0, 350.0, 36))
    values = np.ones((1, 5, 36))
    dims = ("lat", "lon")
    if longitude == 0:
        places, values, dims = places[::-1], values.transpose(0, 2, 1), dims[::-1]
    bare = GridMaps(values, values > 0.0, dims, places)
    maps = GridMaps(values, values > 0.0, dims, places, coast, longitude)
    (before, *_), (axes, *_) = (component_maps(each, [0], theme).axes for each in (bare, maps))
    assert (axes.get_xlim(), axes.get_ylim()) == (before.get_xlim(), before.get_ylim())
    assert not [each for each in before.get_children() if isinstance(each, PathPatch)]
    (drawn,) = (each for each in axes.get_children() if isinstance(each, PathPatch))
    x, y = drawn.get_path().vertices.T
    assert (x.min() >= axes.get_xlim()[0], x.max() <= axes.get_xlim()[1]) == (True, True)
    assert (y.min() >= axes.get_ylim()[0], y.max() <= axes.get_ylim()[1]) == (True, True)
    assert (y, x)[longitude].min() == 185.0
    children = axes.get_children()
    assert children.index(drawn) < children.index(axes.collections[-1])
    assert drawn.get_zorder() <= axes.collections[-1].get_zorder()


def test_pages_have_a_coast_only_if_cartopy_and_its_data_are_there(tmp_path: Path) -> None:
    GridEncoder(2, n_nonzero=3, effort=0).fit(grid(), sample_dim="time").save(tmp_path / "E.zarr")
    encoder, told = load_encoder(tmp_path / "E.zarr"), "Thin lines are coastlines"

    def page() -> str:
        write_report(encoder, str(tmp_path / "E.zarr"), tmp_path / "page.html", overwrite=True)
        return (tmp_path / "page.html").read_text(encoding="utf-8")

    with with_data_in(tmp_path) as config:
        without_data = page()
        store(config["data_dir"], [[[[-170.0, -50.0], [-100.0, 20.0]]]])
        with_data = page()
    with without_cartopy():
        bare = page()
    assert (NO_DATA in read_page(without_data, scripts=1).text, told in without_data) == (True, False)
    assert (told in read_page(with_data, scripts=1).text, "No coastlines" in with_data) == (True, False)
    assert "oastline" not in bare
    assert without_data.replace(f" {NO_DATA}".replace("'", "&#39;"), "") == bare


def test_a_grid_that_is_not_on_the_earth_has_no_coast(tmp_path: Path) -> None:
    GridEncoder(2, n_nonzero=3, effort=0).fit(
        grid().rename(lat="y", lon="x"), sample_dim="time"
    ).save(tmp_path / "plane.zarr")  # fmt: skip
    around = grid().assign_coords(lon=(grid().lon + 200.0) % 360.0)  # drawn by numbers of cells: it does not rise
    GridEncoder(2, n_nonzero=3, effort=0).fit(around, sample_dim="time").save(tmp_path / "around.zarr")
    with with_data_in(tmp_path) as config:
        store(config["data_dir"], [[[[-170.0, -50.0], [-100.0, 20.0]]]])
        for name in ("plane", "around"):
            maps = grid_maps(load_encoder(tmp_path / f"{name}.zarr"))
            assert maps is not None
            assert maps.coast is None
