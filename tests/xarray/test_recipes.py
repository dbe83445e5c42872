"""Recipes of grids: the fit of arrays that xarray changes, without a changed copy."""

import pickle
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
import zarr
from dask.distributed import Client

from spae_dask.errors import InvalidInput
from spae_dask.recipes import Recipe
from spae_dask.storage.grids.xarray_blocks import Cells, rows_of
from spae_dask.xarray import GridEncoder
from tests.xarray.grids import field


def rain(dtype: str = "f8") -> xr.DataArray:
    """Positive numbers, NaN on land, and a few zeros."""
    made = np.exp(0.4 * (field() - 10)).astype(dtype)
    land = xr.DataArray(np.arange(20).reshape(4, 5) % 7 == 3, dims=("lat", "lon"))
    return made.where(made > 0.2, 0).where(~land).assign_attrs(units="mm", long_name="rain")


STEPS: dict[str, Any] = {
    "sqrt": np.sqrt,
    "log1p": np.log1p,
    "arcsinh(0.5), clip(2.5)": lambda da: np.arcsinh(da / 0.5).clip(max=2.5),
    "binarize": lambda da: (da > 0).where(da.notnull()) * 1.0,
}
HOW: dict[str, Any] = {"plain": {}, "coslat": {"weights": "coslat"}, "both": {"weights": "coslat", "scale": True}}


def encoder(**options: Any) -> GridEncoder:
    return GridEncoder(2, **({"n_nonzero": 4, "method": "batch"} | options))


def held(da: xr.DataArray, where: str, folder: Path) -> xr.DataArray:
    if where == "file":
        da.to_netcdf(folder / "x.nc", engine="h5netcdf")
        return xr.open_dataset(folder / "x.nc", engine="h5netcdf")["air"]
    return da.chunk(time=17, lat=2) if where == "dask" else da


@pytest.mark.parametrize("recipe", STEPS)
@pytest.mark.parametrize(
    ("where", "how"), [*(("memory", how) for how in HOW), ("dask", "both"), ("file", "coslat")], ids=str
)
def test_it_is_the_fit_of_the_array_that_xarray_makes(where: str, recipe: str, how: str, tmp_path: Path) -> None:
    by_hand, given = STEPS[recipe](rain()), held(rain(), where, tmp_path)
    wanted = encoder(**HOW[how]).fit(by_hand, "time")
    made = encoder(recipe=recipe, **HOW[how]).fit(given, "time")
    assert made.certificate_.loss == pytest.approx(wanted.certificate_.loss, rel=1e-9)
    assert made.certificate_.passes == wanted.certificate_.passes
    xr.testing.assert_allclose(made.components(), wanted.components(), atol=1e-8)
    xr.testing.assert_allclose(made.mean(), wanted.mean())
    scores = wanted.scores(by_hand)
    made.save(tmp_path / "e.zarr")
    for each in (made, GridEncoder.load(tmp_path / "e.zarr")):
        np.testing.assert_allclose(each.scores(given), scores, atol=1e-8)
        assert each.score(given) == pytest.approx(wanted.score(by_hand), rel=1e-9)
        np.testing.assert_allclose(each.reconstruct(scores), wanted.reconstruct(scores), atol=1e-8)
    assert each.get_params()["recipe"] == recipe
    assert "reads raw data: " + recipe in "\n".join(made.encoder_.plan_.notes)


def test_seasons_and_gaps_follow_the_recipe() -> None:
    gappy = rain().where(field() < 14)
    options = {"missing": "mean", "covariates": "C(season)", "missing_value": -1.0}
    wanted = encoder(**options).fit(np.sqrt(gappy), "time")
    made = encoder(recipe="sqrt", **options).fit(gappy.fillna(-1.0).where(rain().notnull()), "time")
    assert made.certificate_.loss == pytest.approx(wanted.certificate_.loss, rel=1e-9)
    np.testing.assert_allclose(made.scores(gappy), wanted.scores(np.sqrt(gappy)), atol=1e-8)


@pytest.mark.parametrize(("dtype", "wanted"), [("f4", "f4"), ("i2", "f8")])
def test_types_are_those_of_a_matrix_with_a_recipe(dtype: str, wanted: str) -> None:
    whole = (10 * rain()).fillna(0).astype(dtype)
    made = encoder(recipe="sqrt").fit(whole, "time")
    assert made.encoder_.plan_.dtype == np.dtype(wanted).name
    by_hand = encoder().fit(np.sqrt(whole.astype("f8")), "time")
    assert made.certificate_.loss == pytest.approx(by_hand.certificate_.loss, rel=1e-5)


def test_tall_chunks_are_read_by_groups_of_cells(tmp_path: Path) -> None:
    tall = field(3000, (30, 40)) ** 2
    name = {"air": {"chunksizes": (3000, 10, 10)}}
    tall.to_netcdf(tmp_path / "x.nc", engine="h5netcdf", encoding=name)
    with xr.open_dataset(tmp_path / "x.nc", engine="h5netcdf") as dataset:
        made = encoder(recipe="sqrt", strategy="sketch").fit(dataset["air"], "time")
    wanted = encoder(strategy="sketch").fit(np.sqrt(tall), "time")
    assert made.certificate_.loss == pytest.approx(wanted.certificate_.loss, rel=1e-9)


def test_units_are_not_those_of_the_data() -> None:
    made = encoder(recipe="sqrt").fit(rain(), "time")
    for each in (made.mean(), made.decoder(), made.reconstruct(made.scores(rain()))):
        assert each.attrs == {"long_name": "sqrt of rain"}
    assert encoder().fit(rain(), "time").mean().attrs["units"] == "mm"


@pytest.mark.parametrize("where", ["memory", "dask", "file"])
def test_a_negative_number_is_named_by_time_and_cell(where: str, tmp_path: Path) -> None:
    bad = rain()
    bad[40, 2, 4] = -3.0
    words = (
        r"'air' at time=2001-02-10.*, lat=20.0, lon=40.0: sqrt takes numbers of at least 0, and -3 is among the data"
    )
    with pytest.raises(InvalidInput, match=words) as caught:
        encoder(recipe="sqrt").fit(held(bad, where, tmp_path), "time")
    assert pickle.loads(pickle.dumps(caught.value)).place == caught.value.place, "as between processes"


def test_a_negative_number_is_named_where_data_are_scored() -> None:
    made, bad = encoder(recipe="log1p").fit(rain(), "time"), rain()
    bad[5] = -2.0
    for apply in (made.scores, made.score):
        with pytest.raises(
            InvalidInput, match=r"'air' at time=2001-01-06.*: log1p takes numbers of at least 0, and -2"
        ):
            apply(bad)


def test_workers_name_it_too() -> None:
    bad = rain().chunk(time=20)
    bad[45, 0, 1] = -3.0
    words = r"'air' at time=2001-02-15.*, lat=-60.0, lon=10.0: sqrt takes"
    client = Client(processes=False, n_workers=1, threads_per_worker=1, dashboard_address=":0")
    with client, pytest.raises(InvalidInput, match=words):
        encoder(recipe="sqrt").fit(bad, "time")


@pytest.mark.parametrize(
    ("recipe", "words"),
    [
        ("normalize_total(1e4), sqrt", r"recipe='normalize_total\(10000\), sqrt' .* different areas\. Leave out that"),
        ("sqr", r"recipe='sqr' is not allowed: .*Did you mean 'sqrt'"),
    ],
)
def test_steps_that_are_none_for_cells_are_refused(recipe: str, words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        encoder(recipe=recipe).fit(rain(), "time")


@pytest.mark.parametrize("where", ["memory", "file"])
def test_small_numbers_are_not_taken_for_logarithms(where: str, tmp_path: Path) -> None:
    assert (rain() / 1000).max() < 20
    encoder(recipe="log1p").fit(held(rain() / 1000, where, tmp_path), "time")


def test_a_grid_with_a_recipe_is_refused_by_versions_that_would_pass_over_it(tmp_path: Path) -> None:
    for recipe, version in ((None, 1), ("sqrt", 2)):
        encoder(recipe=recipe).fit(rain(), "time").save(tmp_path / f"{version}.zarr")
        assert zarr.open_group(tmp_path / f"{version}.zarr", mode="r")["grid"].attrs["format_version"] == version


@pytest.mark.parametrize("dtype", ["i2", "f4", "f8"])
def test_a_block_takes_no_more_than_is_promised(dtype: str) -> None:
    x = xr.DataArray(np.ones((3000, 20, 50), dtype=dtype), dims=("time", "lat", "lon"))
    blocks = rows_of(x, ("time",), ("lat", "lon"), Cells(1000, None, np.ones(1000), recipe=Recipe.of("sqrt, clip(3)")))
    tracemalloc.start()
    block = blocks.read(0)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert 1.5 * block.nbytes < peak <= block.nbytes + blocks.read_nbytes
