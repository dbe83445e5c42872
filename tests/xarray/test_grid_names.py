"""Names of cells: coordinates rounded to the spacing of the grid, and still apart."""

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st

from spae_dask.storage.grids.grid_layout import dim_labels
from spae_dask.xarray import GridEncoder


def labels_of(values: np.ndarray) -> list[str]:
    coords = xr.Dataset(coords={"lat": values})
    return dim_labels(coords, "lat", values.size)


@given(
    start=st.floats(-1e4, 1e4),
    spacing=st.floats(-3, 4).map(lambda exponent: 10.0**exponent),
    steps=st.lists(st.floats(1.0, 9.0), min_size=1, max_size=20),
    noise=st.floats(-1e-3, 1e-3),
)
def test_names_of_places_are_apart_and_parse_back_within_a_hundredth_of_the_spacing(start, spacing, steps, noise):
    values = start + spacing * np.cumsum([0.0, *steps]) + noise * spacing
    labels = labels_of(values)
    assert len(set(labels)) == values.size
    nearest = np.diff(values).min()
    np.testing.assert_allclose([float(label) for label in labels], values, rtol=0, atol=nearest / 100)


def test_float32_leaves_no_noise_in_names():
    values = np.arange(-90, 92.5, 2.5, dtype=np.float32) + np.float32(7.6293945e-06)
    assert labels_of(values)[::12] == [str(30.0 * n) for n in range(-3, 4)]
    assert labels_of(np.array([0.1, 0.2, 0.7], dtype=np.float32)) == ["0.1", "0.2", "0.7"]


@pytest.mark.parametrize("values", [[3.25], [1.0, np.nan], [2.0, 2.0], [1e-300, 3e-300], [1e300, 2e300], [0.0, np.inf]])
def test_odd_coordinates_have_names_that_parse_back(values):
    values = np.array(values)
    np.testing.assert_allclose([float(label) for label in labels_of(values)], values, rtol=1e-2)


def test_the_table_has_the_coordinates_of_the_cells():
    rng = np.random.default_rng(3)
    field = rng.normal(size=(60, 2)) @ rng.normal(size=(2, 12)) + 0.1 * rng.normal(size=(60, 12))
    coords = {
        "lat": [10.0, 20.0, 30.0],
        "height": (("lat", "x"), np.arange(12.0).reshape(3, 4)),
        "cell": ("x", list("abcd")),
        "level": 5,
    }
    da = xr.DataArray(field.reshape(60, 3, 4), dims=("time", "lat", "x"), coords=coords)
    encoder = GridEncoder(2, n_nonzero=3, method="batch").fit(da.transpose("x", "time", "lat"), "time")
    table = encoder.table()
    assert set(table.data_vars) == {"component", "coefficient", "cell", "lat", "x", "height", "cell_cell"}
    assert table["x"].dtype == np.int64
    frame = table.to_dataframe()
    assert isinstance(frame, pd.DataFrame)
    components = encoder.components().assign_coords(x=range(4))
    for row in frame.itertuples():
        at = components.sel(component=row.component, lat=row.lat, x=row.x)
        assert (float(at), float(at.height), str(at.cell.values)) == (row.coefficient, row.height, row.cell_cell)
