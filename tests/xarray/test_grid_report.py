"""Maps in the report of a grid encoder."""

from pathlib import Path

import matplotlib as mpl
import numpy as np
import numpy.typing as npt
import pytest
import xarray as xr

from spae_dask import SparseEncoder
from spae_dask.estimators.reporting import grid_maps, write_report
from spae_dask.estimators.saved import load_encoder, save_encoder
from spae_dask.report.map_section import MOST_MAPS, GridMaps, component_maps
from spae_dask.report.themes import LIGHT
from spae_dask.xarray import GridEncoder
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
    maps = grid_maps(load_encoder(tmp_path / "E.zarr"), tmp_path / "E.zarr")
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
    assert grid_maps(load_encoder(tmp_path / "E.zarr"), tmp_path / "E.zarr") is None


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
