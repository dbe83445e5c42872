"""``spae panel``."""

from collections.abc import Callable
from pathlib import Path

import pandas as pd
import polars as pl
import pytest

from spae_dask import SparseEncoder, load_encoder
from tests.cli.conftest import D, K, Outcome

Run = Callable[..., Outcome]


def test_a_panel_is_printed_with_its_price_and_its_curve(table: Path, tmp_path: Path, spae: Run) -> None:
    rules = ("--include", "G1", "--exclude", "G2,G3")
    done = spae("panel", table, "-k", K, "-n", 5, *rules, "--curve", "4,5,8", "-o", tmp_path / "p.zarr")
    assert done.code == 0, done.err
    fitted = load_encoder(tmp_path / "p.zarr")
    names = [str(fitted.feature_names_in_[column]) for column in fitted.selected_features_]
    assert f"panel              {', '.join(names)}" in done.out
    assert "G1" in names
    assert len(names) == 6
    free = SparseEncoder(K, n_features=6).fit(pd.read_parquet(table)).certificate_.ratio
    ratio = fitted.certificate_.ratio
    assert f"price of rules     {ratio:.6f} times PCA's loss, {free:.6f} for 6 features" in done.out
    asked = spae("panel", table, "-k", K, "-n", 5, *rules, "--curve", "4,5,8", "--json").document
    assert asked["panel"] == names
    assert asked["features"] == fitted.table().records()
    assert str(fitted.table()) in done.out
    assert asked["without_rules"]["ratio"] == pytest.approx(free)
    assert [point["n_nonzero"] for point in asked["curve"]] == [4, 5, 8]
    assert asked["curve"][1]["ratio"] == pytest.approx(ratio)
    assert asked["encoder"] is None
    same = spae("fit", table, "-k", K, "-n", 5, *rules, "-o", tmp_path / "f.zarr", "--json").document
    assert same["certificate"] == asked["certificate"] | {"bytes_read": same["certificate"]["bytes_read"]}


def test_the_features_of_a_panel_are_written_as_a_table(table: Path, tmp_path: Path, spae: Run) -> None:
    costs = tmp_path / "costs.csv"
    costs.write_text("".join(f"G{place},{1 + place % 3}\n" for place in range(D)))
    done = spae("panel", table, "-k", K, "--costs", costs, "--budget", 7, "-o", tmp_path / "p.zarr")
    assert done.code == 0, done.err
    costs.unlink()  # the encoder holds what its features cost
    assert spae("inspect", tmp_path / "p.zarr", "--table", tmp_path / "p.csv").code == 0
    records = load_encoder(tmp_path / "p.zarr").table().records()
    written = pl.read_csv(tmp_path / "p.csv").to_dicts()
    assert written == records
    assert f"cost               {written[-1]['cost_so_far']:g} of 7" in done.out
    assert spae("inspect", tmp_path / "p.zarr", "--json").document["features"] == records
    assert spae("inspect", tmp_path / "p.zarr", "--table", tmp_path / "p.csv").code == 3
    assert spae("inspect", tmp_path / "p.zarr", "--table", tmp_path / "p.txt").code == 2


def test_without_rules_there_is_no_price(table: Path, spae: Run) -> None:
    done = spae("panel", table, "-k", K, "-n", 5)
    assert done.code == 0
    assert "price" not in done.out


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        ((), 2, "-n"),
        (("-n", 5, "-r", 3), 2, "-n and --budget are its only sizes"),
        (("-n", 5, "--keep", 0.9), 2, "-n and --budget are its only sizes"),
        (("-n", 5, "--curve", "3,x"), 2, "3,x is not allowed"),
        (("-n", 5, "--curve", f"3,{D + 1}"), 3, f"--curve={D + 1} is not allowed: give a whole number from 1 to {D}"),
        (("-n", 5, "--curve", "3", "--strategy", "sketch"), 3, "a curve needs a core of the data"),
    ],
    ids=str,
)
def test_panels_without_sense_are_refused(
    table: Path, spae: Run, words: tuple[object, ...], code: int, told: str
) -> None:
    done = spae("panel", table, "-k", K, *words)
    assert done.code == code
    assert told in done.err
