"""``spae prove``."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from spae_dask import SparseEncoder
from spae_dask.strategies import proof as house
from tests.cli.conftest import D, K, Outcome

Run = Callable[..., Outcome]


def test_the_best_panel_is_printed_with_its_bound(table: Path, spae: Run) -> None:
    done = spae("prove", table, "-k", K, "-n", 3, "--exclude", "G2")
    asked = spae("prove", table, "-k", K, "-n", 3, "--exclude", "G2", "--json").document
    found = SparseEncoder(K, n_features=3, exclude=["G2"]).fit(pd.read_parquet(table)).prove()
    assert done.code == 0, done.err
    assert "no 3 features lose less" in done.out
    assert f"features           {', '.join(asked['best'])}" in done.out
    assert asked["best"] == [f"G{place}" for place in found.features]
    assert asked["proof"]["is_best"] is True
    assert asked["proof"]["loss_lower"] == pytest.approx(found.loss_lower)
    assert asked["certificate"]["loss"] == pytest.approx(asked["proof"]["encoder_loss"])
    assert len(asked["panel"]) == 3


def test_a_limit_of_nodes_leaves_a_gap(table: Path, spae: Run) -> None:
    done = spae("prove", table, "-k", K, "-n", 5, "--nodes", 0, "--time-limit", 100, "--json")
    assert done.code == 0
    proof = done.document["proof"]
    assert proof["complete"] is False
    assert proof["loss_lower"] == pytest.approx(proof["pca_loss"])
    assert proof["gap"] == pytest.approx(1 - proof["pca_loss"] / proof["loss"])


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        ((), 2, "-n"),
        (("-n", 3, "-r", 2), 2, "-n and --budget are its only sizes"),
        (("-n", 3, "--time-limit", 0), 2, "give a positive number of seconds"),
        (("-n", 3, "--nodes", -1), 2, "--nodes"),
        (("-n", 3, "--strategy", "sketch"), 3, "a proof needs a core of the data"),
        (("--budget", 3, "--costs", ",".join(f"G{j}=1" for j in range(D))), 3, "costs and budget: a proof is about"),
        (("-n", 3, "--method", "doubly-sparse"), 3, "a proof is about the best decoder"),
    ],
    ids=str,
)
def test_what_cannot_be_proved_is_refused_before_the_read(
    table: Path, spae: Run, words: tuple[object, ...], code: int, told: str
) -> None:
    done = spae("prove", table, "-k", K, *words)
    assert done.code == code
    assert told in done.err
    assert "core: " not in done.err


def test_too_many_features_are_refused_before_the_read(tmp_path: Path, spae: Run) -> None:
    np.save(tmp_path / "x.npy", np.full((4, house.MOST_FEATURES + 2), np.nan))
    done = spae("prove", tmp_path / "x.npy", "-k", 1, "-n", 3, "--exclude", 0)
    assert done.code == 3
    assert "there are 2,001 to choose from: more than 2,000" in done.err
