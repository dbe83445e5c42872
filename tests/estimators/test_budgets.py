"""Panels keep to budgets and to limits of groups, and lose no more than the best panels that do."""

import shlex
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
import xarray as xr
from typer.main import get_command

from spae_dask import SparseEncoder, load_encoder, plan
from spae_dask.cli.fit import FitGiven
from spae_dask.cli.main import app
from spae_dask.cli.options.groups import gathered
from spae_dask.errors import InvalidInput
from spae_dask.estimators.checkpointing import parameters_of
from spae_dask.estimators.panels import chosen_freely
from spae_dask.estimators.saved import save_encoder
from spae_dask.report.reproduce import fit_command
from spae_dask.strategies.parameters import FitParameters
from spae_dask.xarray import GridEncoder
from tests.estimators.test_rules import Unread

Floats = npt.NDArray[np.float64]

D = 9
NAMES = list("abcdefghi")
COSTS = [3.0, 1.0, 4.0, 1.0, 5.0, 9.0, 2.0, 6.0, 5.0]
PLACES = [0.0, 1.0, 2.0, 3.5, 4.0, 7.0, 7.5, 9.0, 9.9]
GROUPS = ["T", "T", "T", "B", "B", "", "M", "M", ""]


@pytest.fixture
def x() -> Floats:
    rng = np.random.default_rng(11)
    made: Floats = rng.normal(size=(120, 4)) @ rng.normal(size=(4, D)) + 0.6 * rng.normal(size=(120, D))
    return made


def panels(rules: dict[str, Any]) -> Iterator[tuple[int, ...]]:
    """All panels that keep the rules, included features among them, said without the library."""
    include, exclude = rules.get("include", []), rules.get("exclude", [])
    others = [j for j in range(D) if j not in include + exclude]
    most, least = (rules.get(name, default) for name, default in (("at_most", D), ("at_least", 0)))
    for size in range(min(len(others), rules.get("n_features", D)) + 1):
        for chosen in combinations(others, size):
            numbers = {g: sum(GROUPS[j] == g for j in (*include, *chosen)) for g in "TBM"}
            if (
                sum(COSTS[j] for j in chosen) <= rules.get("budget", np.inf)
                and all(n <= (most.get(g, D) if isinstance(most, dict) else most) for g, n in numbers.items())
                and all(
                    abs(PLACES[i] - PLACES[j]) >= rules.get("min_distance", 0.0)
                    for i, j in combinations((*include, *chosen), 2)
                    if not {i, j} <= set(include)
                )
                and all(n >= (least.get(g, 0) if isinstance(least, dict) else least) for g, n in numbers.items())
            ):
                yield (*include, *chosen)


def loss_on(x: Floats, k: int, columns: tuple[int, ...]) -> float:
    """Least loss of k codes on some columns."""
    centered = x - x.mean(axis=0)
    Q = np.linalg.qr(centered[:, list(columns)])[0]
    return float(np.sum(centered**2) - np.sum(np.linalg.svd(Q.T @ centered, compute_uv=False)[:k] ** 2))


MONEY = {"costs": COSTS, "budget": 8.0}
RULES: list[dict[str, Any]] = [
    MONEY,
    {**MONEY, "n_features": 2},
    {**MONEY, "include": [5], "exclude": [1, 3]},
    {"n_features": 4, "groups": GROUPS, "at_most": 1},
    {"n_features": 4, "groups": GROUPS, "at_least": {"T": 1, "M": 2}},
    {"n_features": 3, "groups": GROUPS, "at_most": {"T": 1}, "at_least": 1, "exclude": [6]},
    {**MONEY, "groups": GROUPS, "at_most": 2, "at_least": {"B": 1, "M": 1}, "include": [0]},
    {"n_features": 4, "positions": PLACES, "min_distance": 2.0},
    {**MONEY, "positions": PLACES, "min_distance": 1.5, "include": [0, 1], "groups": GROUPS, "at_most": 2},
]


@pytest.mark.parametrize("strategy", ["gram", "tsqr", "sketch", "sample"])
@pytest.mark.parametrize("rules", RULES, ids=str)
def test_a_panel_is_the_best_that_the_rules_allow(x: Floats, strategy: str, rules: dict[str, Any]) -> None:
    fitted = SparseEncoder(2, strategy=strategy, **rules).fit(x)
    assert fitted.certificate_.bound is None
    best = min(loss_on(x, 2, each) for each in panels(rules) if each)
    assert fitted.certificate_.loss == pytest.approx(best, rel=0.05 if strategy == "sketch" else 1e-9)
    chosen = tuple(sorted({*fitted.selected_features_.tolist(), *rules.get("include", [])}))
    assert chosen in {tuple(sorted(each)) for each in panels(rules)}


@pytest.mark.parametrize("rules", RULES, ids=str)
def test_components_that_use_a_part_keep_to_the_rules_too(x: Floats, rules: dict[str, Any]) -> None:
    fitted = SparseEncoder(2, n_nonzero=2, **rules).fit(x)
    used = set(fitted.selected_features_.tolist()) - set(rules.get("include", []))
    assert any(used <= set(each) for each in panels(rules))
    many = SparseEncoder(2, n_nonzero=6, **rules).fit(x) if "n_features" not in rules else None
    assert many is None or many.certificate_.loss <= fitted.certificate_.loss * (1 + 1e-9)
    counted = np.delete(fitted.components_ != 0, rules.get("include", []), axis=1)
    assert counted.sum(axis=1).max() <= 2


def test_equal_features_of_other_costs_and_groups_are_told_apart(x: Floats) -> None:
    twice = np.hstack([x, x])
    costs = [100.0] * D + COSTS
    fitted = SparseEncoder(2, costs=costs, budget=8.0).fit(twice)
    alone = SparseEncoder(2, **MONEY).fit(x)
    np.testing.assert_array_equal(fitted.selected_features_, alone.selected_features_ + D)
    of_groups = SparseEncoder(2, n_features=3, groups=["A"] * D + ["B"] * D, at_most={"A": 0}).fit(twice)
    assert (of_groups.selected_features_ >= D).all()


def test_paths_and_prices_of_panels_with_rules(x: Floats) -> None:
    fitted = SparseEncoder(2, **MONEY).fit(x)
    curve = fitted.sparsity_path([2], [1, 2, 3]).points
    for point in curve:
        best = min(loss_on(x, 2, each) for each in panels({**MONEY, "n_features": point.n_nonzero}) if each)
        assert point.loss == pytest.approx(best, rel=1e-9)
    free = chosen_freely(fitted)
    assert free is not None
    assert free.n_nonzero == len(fitted.selected_features_)
    best = min(loss_on(x, 2, each) for each in panels({"n_features": free.n_nonzero}) if each)
    assert free.loss == pytest.approx(best, rel=1e-9)


def test_wide_data_keep_to_a_budget_and_to_groups() -> None:
    rng = np.random.default_rng(3)
    wide = rng.normal(size=(70, 5)) @ rng.normal(size=(5, 2200)) + 0.4 * rng.normal(size=(70, 2200))
    costs, groups = rng.uniform(1, 9, size=2200), [f"g{j % 40}" for j in range(2200)]
    rules = {"costs": costs, "budget": 25.0, "groups": groups, "at_most": 1, "at_least": {"g39": 1}}
    greedy = SparseEncoder(3, n_features=3, exclude=np.flatnonzero(costs > 3), effort=0).fit(wide)
    for strategy in ("tsqr", "sketch"):
        fitted = SparseEncoder(3, strategy=strategy, **rules).fit(wide)
        chosen = fitted.selected_features_
        assert costs[chosen].sum() <= 25.0
        assert len({groups[j] for j in chosen}) == len(chosen)
        assert "g39" in {groups[j] for j in chosen}
        assert fitted.certificate_.loss < greedy.certificate_.loss


def test_names_are_looked_up_and_recorded(x: Floats, tmp_path: Path) -> None:
    frame = pd.DataFrame(x, columns=NAMES)
    costs = tmp_path / "costs.csv"
    costs.write_text("feature,cost\n" + "".join(f"{n},{c}\n" for n, c in zip(NAMES, COSTS, strict=True)) + "z,1\n")
    groups = {name: group for name, group in zip(NAMES, GROUPS, strict=True) if group}
    rules = {"costs": str(costs), "budget": 8, "groups": groups, "at_most": 1, "include": "a"}
    fitted = SparseEncoder(2, **rules).fit(frame)
    by_number = SparseEncoder(2, **{**rules, "costs": COSTS, "groups": GROUPS, "include": 0}).fit(x)
    assert fitted.components_.tobytes() == by_number.components_.tobytes()
    points = SparseEncoder(2, n_features=3, positions=np.stack([PLACES, COSTS], axis=1), min_distance=3).fit(x)
    for each, data in ((fitted, frame), (by_number, x), (points, x)):
        save_encoder(each, tmp_path / "e.zarr", overwrite=True)
        loaded = load_encoder(tmp_path / "e.zarr")
        again = SparseEncoder(**loaded.get_params()).fit(data)
        assert again.components_.tobytes() == each.components_.tobytes()
        told = fit_command(loaded.get_params(), {"path": "/x.csv"})
        assert told is not None
        words = get_command(app).commands["fit"].make_context("fit", shlex.split(told)[2:]).params  # type: ignore[attr-defined]
        parsed = SparseEncoder(**(gathered(FitGiven, words).fitted | {"strategy": "auto"})).fit(data)
        assert parsed.components_.tobytes() == each.components_.tobytes()
    save_encoder(fitted, tmp_path / "e.zarr", overwrite=True)
    command = fit_command(load_encoder(tmp_path / "e.zarr").get_params(), {"path": "/x.csv"})
    assert command is not None
    assert f"--costs {costs} --budget 8.0 --groups a=T,b=T,c=T,d=B,e=B,g=M,h=M --at-most 1" in command


def test_a_checkpoint_knows_the_values_and_not_the_words_for_them() -> None:
    def identity(**rules: Any) -> dict[str, Any]:
        return parameters_of(FitParameters(2, **rules).resolved(NAMES, D))

    by_name = dict(zip(NAMES, COSTS, strict=True))
    assert identity(costs=by_name, budget=8) == identity(**MONEY) != identity(costs=COSTS, budget=9)
    assert identity(costs=COSTS[::-1], budget=8) != identity(**MONEY)
    one, other = ({"groups": GROUPS, "n_features": 4, "at_most": most} for most in (1, 2))
    assert identity(**one) != identity(**other)


def test_the_columns_of_largest_variance_keep_to_them(x: Floats) -> None:
    rich = SparseEncoder(2, n_top_features=6, **(MONEY | {"budget": 36.0})).fit(x)
    assert len(rich.selected_features_) == 6
    fitted = SparseEncoder(2, n_top_features=6, **MONEY).fit(x)
    kept = fitted.top_features_
    alone = SparseEncoder(2, costs=np.array(COSTS)[kept], budget=8.0).fit(x[:, kept])
    assert fitted.components_.tobytes() == alone.components_.tobytes()
    assert fitted.sparsity_path([2], [1, 2]) == alone.sparsity_path([2], [1, 2])
    least = [NAMES[j] for j in np.argsort(x.var(axis=0))[:3]]
    groups = dict.fromkeys(least, "least")
    with pytest.raises(InvalidInput, match=r"at_least=3 of the group 'least' is more than the 0 features"):
        SparseEncoder(2, n_top_features=6, n_features=3, groups=groups, at_least=3).fit(pd.DataFrame(x, columns=NAMES))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"costs": COSTS, "budget": 0.5}, r"budget=0.5 is less than the cheapest feature costs, 1"),
        ({**MONEY, "keep": 0.9}, r"budget=8.0 and keep=0.9 are two targets"),
        ({**MONEY, "method": "iterative"}, r"budget=8.0: method='iterative' chooses"),
        ({**MONEY, "method": "doubly-sparse"}, r"method='doubly-sparse' cannot keep to costs and budget"),
        ({**MONEY, "method": "batch"}, r"selection='dual-set' cannot keep to costs and budget .*'exchange'"),
        ({**MONEY, "method": "batch", "selection": "greedy"}, r"selection='greedy' cannot keep to costs and budget"),
        ({**MONEY, "strategy": "stream"}, r"'stream' cannot do this: it does not keep to costs and budget"),
        ({"n_nonzero": 2, "groups": GROUPS, "at_most": 1}, r"groups and at_most: these are rules for all components"),
        ({"groups": GROUPS, "at_most": 1}, r"groups and at_most: these are rules for all components together"),
        (
            {"n_features": 2, "groups": GROUPS, "at_least": 1},
            r"at_least asks for 3 features .* has 2 at most",
        ),
        ({"n_features": 3, "groups": GROUPS, "at_most": 1, "include": "a,b"}, r"at_most=1 of the group 'T' is less"),
        ({"n_features": 2, "min_distance": 1}, r"min_distance without positions"),
        (
            {"n_features": 3, "groups": GROUPS, "at_least": 1, "positions": PLACES, "min_distance": 1},
            r"min_distance and at_least cannot be combined",
        ),
        ({"n_features": 4, **MONEY, "n_nonzero": 5}, r"n_nonzero=5 is more than n_features=4"),
    ],
    ids=str,
)
def test_impossible_rules_are_refused_before_a_read(given: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        SparseEncoder(2, **given).fit(Unread())
    with pytest.raises(InvalidInput, match=words):
        plan(Unread(), 2, calibrate=False, **given)


def test_a_grid_takes_costs_and_groups_of_its_cells() -> None:
    rng = np.random.default_rng(2)
    field = rng.normal(size=(80, 2)) @ rng.normal(size=(2, 12)) + 0.3 * rng.normal(size=(80, 12))
    da = xr.DataArray(field.reshape(80, 3, 4), dims=("time", "lat", "lon"), coords={"lat": [0, 30, 60]})
    da[:, 0, 1] = np.nan  # no column: numbers of cells and of columns differ
    cells = xr.zeros_like(da.isel(time=0, drop=True)).fillna(0)
    rows = cells + xr.DataArray([1, 2, 3], dims="lat")
    fitted = GridEncoder(2, n_features=3, groups=rows.astype(str), at_most=1, at_least=1).fit(da, "time")
    np.testing.assert_array_equal(fitted.selected().any("component").sum("lon"), [1, 1, 1])
    cheap = GridEncoder(2, costs=rows, budget=2.0).fit(da, "time").selected().any("component")
    assert float((rows * cheap).sum()) <= 2.0
    with pytest.raises(InvalidInput, match=r"costs are over \('lat',\)"):
        GridEncoder(2, costs=rows.isel(lon=0), budget=2.0).fit(da, "time")


def great_circle(one: tuple[float, float], other: tuple[float, float]) -> float:
    """Distance in km of two places in degrees, by the haversine."""
    (a, b), (c, d) = np.deg2rad(one), np.deg2rad(other)
    h = np.sin((c - a) / 2) ** 2 + np.cos(a) * np.cos(c) * np.sin((d - b) / 2) ** 2
    return float(2 * 6371.0088 * np.arcsin(np.sqrt(h)))


@pytest.mark.parametrize("km", [300.0, 1500.0, 6000.0])
def test_cells_of_a_grid_are_far_from_each_other_along_great_circles(km: float, tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    lat, lon = np.arange(-80, 81, 20), np.arange(0, 360, 30)
    field = rng.normal(size=(90, 4)) @ rng.normal(size=(4, lat.size * lon.size))
    field += 0.4 * rng.normal(size=field.shape)
    coords = {"lat": lat, "lon": lon}
    da = xr.DataArray(field.reshape(90, lat.size, lon.size), dims=("time", "lat", "lon"), coords=coords)
    encoder = GridEncoder(2, n_features=5, min_distance=km).fit(da, "time")
    cells = encoder.selected().any("component").values
    places = [(float(lat[i]), float(lon[j])) for i, j in np.argwhere(cells)]
    nearest = min(great_circle(one, other) for one, other in combinations(places, 2))
    assert nearest >= km * (1 - 1e-9)
    assert len(places) == 5
    encoder.save(tmp_path / "e.zarr")
    again = GridEncoder(**GridEncoder.load(tmp_path / "e.zarr").get_params()).fit(da, "time")
    np.testing.assert_array_equal(again.components(), encoder.components())


def test_an_only_coordinate_of_a_grid_gives_positions_and_others_are_asked_for(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    field = rng.normal(size=(90, 3)) @ rng.normal(size=(3, 12)) + 0.4 * rng.normal(size=(90, 12))
    bands = xr.DataArray(field, dims=("sample", "band"), coords={"band": np.linspace(400, 700, 12)})
    chosen = GridEncoder(2, n_features=4, min_distance=60).fit(bands, "sample").selected().any("component")
    nm = bands["band"].values[chosen.values]
    assert np.diff(np.sort(nm)).min() >= 60
    named = bands.assign_coords(band=[f"b{j}" for j in range(12)])
    with pytest.raises(InvalidInput, match=r"min_distance needs positions of the cells"):
        GridEncoder(2, n_features=4, min_distance=60).fit(named, "sample")
    given = xr.DataArray(bands["band"].values, dims="band")
    by_array = GridEncoder(2, n_features=4, min_distance=60, positions=given, exclude=given < 430).fit(named, "sample")
    by_array.save(tmp_path / "e.zarr")
    again = GridEncoder(**GridEncoder.load(tmp_path / "e.zarr").get_params()).fit(named, "sample")
    np.testing.assert_array_equal(again.components(), by_array.components())
    globe = xr.DataArray(
        field.reshape(90, 3, 4), dims=("t", "lat", "lon"), coords={"lat": [0, 1, 2], "lon": [0, 1, 2, 3]}
    )
    with pytest.raises(InvalidInput, match=r"min_distance=30000 is not allowed: give km along great circles"):
        GridEncoder(2, n_features=4, min_distance=30000).fit(globe, "t")
