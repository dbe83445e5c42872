"""Encoders keep to the rules that a fit is given, and lose no more than the best that the rules allow."""

import pickle
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
import xarray as xr

from spae_dask import SparseEncoder, open_matrix, plan
from spae_dask.blocks import RowBlocks
from spae_dask.errors import InvalidInput
from spae_dask.estimators.checkpointing import parameters_of
from spae_dask.estimators.paths import fit_path
from spae_dask.estimators.saved import load_encoder, save_encoder
from spae_dask.report.reproduce import fit_command
from spae_dask.strategies.parameters import FitParameters
from spae_dask.xarray import GridEncoder

Floats = npt.NDArray[np.float64]

EXACT = ("gram", "tsqr", "sketch")


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(5)


@pytest.fixture
def x(rng: np.random.Generator) -> Floats:
    made: Floats = rng.normal(size=(120, 3)) @ rng.normal(size=(3, 9)) + 0.6 * rng.normal(size=(120, 9))
    return made


def as_table(x: Floats) -> pd.DataFrame:
    return pd.DataFrame(x, columns=list("abcdefghi"))


def least_loss(x: Floats, k: int, r: int, include: list[int], exclude: list[int]) -> float:
    """Least loss of k codes on the included columns and r others, by trying all supports."""
    centered = x - x.mean(axis=0)
    others = [j for j in range(x.shape[1]) if j not in include + exclude]
    explained = []
    for chosen in combinations(others, r):
        Q = np.linalg.qr(centered[:, [*include, *chosen]])[0]
        explained.append(float(np.sum(np.linalg.svd(Q.T @ centered, compute_uv=False)[:k] ** 2)))
    return float(np.sum(centered**2)) - max(explained)


RULES: list[dict[str, list[int]]] = [
    {"include": [], "exclude": [0, 4]},
    {"include": [5], "exclude": []},
    {"include": [2, 7], "exclude": [0, 3]},
    {"include": [1], "exclude": [0, 2, 3, 4, 5]},
]


@pytest.mark.parametrize("strategy", EXACT)
@pytest.mark.parametrize("rules", RULES, ids=str)
@pytest.mark.parametrize(
    "how",
    [
        {"n_nonzero": 2, "shared_support": True},
        {"n_nonzero": 2, "method": "batch", "selection": "exchange"},
        {"n_features": 2},
    ],
    ids=str,
)
def test_a_shared_support_is_the_best_that_the_rules_allow(
    x: Floats, strategy: str, rules: dict[str, list[int]], how: dict[str, Any]
) -> None:
    fitted = SparseEncoder(2, strategy=strategy, **how, **rules).fit(x)
    assert fitted.certificate_.loss == pytest.approx(least_loss(x, 2, 2, **rules), rel=1e-9)
    assert fitted.certificate_.bound is None


@pytest.mark.parametrize("strategy", EXACT)
@pytest.mark.parametrize("rules", RULES, ids=str)
def test_one_component_is_the_best_that_the_rules_allow(x: Floats, strategy: str, rules: dict[str, list[int]]) -> None:
    fitted = SparseEncoder(1, n_nonzero=3, strategy=strategy, **rules).fit(x)
    assert fitted.certificate_.loss == pytest.approx(least_loss(x, 1, 3, **rules), rel=1e-9)


@pytest.mark.parametrize("strategy", [*EXACT, "sample"])
@pytest.mark.parametrize("method", ["polished", "batch"])
@pytest.mark.parametrize("size", [{"n_nonzero": 3}, {"keep": 0.7}], ids=str)
@pytest.mark.parametrize("rules", RULES, ids=str)
def test_every_component_keeps_to_the_rules(
    x: Floats, strategy: str, method: str, size: dict[str, Any], rules: dict[str, list[int]]
) -> None:
    if method == "batch" and strategy == "sketch" and "keep" in size:
        pytest.skip("a sketch needs the number of nonzeros for it")
    fitted = SparseEncoder(3, strategy=strategy, method=method, selection="greedy", effort=0, **size, **rules).fit(x)
    used = fitted.components_ != 0
    assert not used[:, rules["exclude"]].any()
    counted = np.delete(used, rules["include"], axis=1).sum(axis=1)
    assert counted.max() <= size.get("n_nonzero", 9)
    centered = x - x.mean(axis=0)
    codes = centered @ fitted.components_.T
    left = centered - codes @ np.linalg.lstsq(codes, centered, rcond=None)[0]
    assert fitted.certificate_.loss == pytest.approx(float(np.sum(left**2)), rel=1e-8), "excluded ones count"


@pytest.mark.parametrize("strategy", EXACT)
def test_wide_data_keep_to_the_rules_too(rng: np.random.Generator, strategy: str) -> None:
    x = rng.normal(size=(60, 4)) @ rng.normal(size=(4, 2100)) + 0.3 * rng.normal(size=(60, 2100))
    x[:, 7], x[:, 11] = x[:, 3], x[:, 3]  # copies of an excluded one
    exclude, include = np.arange(0, 2100, 3), [10, 22]
    found = {}
    for shared in (False, True):
        encoder = SparseEncoder(3, n_nonzero=4, strategy=strategy, shared_support=shared, effort=0)
        fitted = encoder.set_params(exclude=exclude, include=include).fit(x)
        used = fitted.components_ != 0
        assert not used[:, exclude].any()
        assert np.delete(used, include, axis=1).sum(axis=1).max() <= 4
        found[shared] = fitted.certificate_.loss
    assert found[False] <= found[True] * (1 + 1e-9)


def test_copies_stand_for_an_excluded_feature(x: Floats) -> None:
    twice = np.hstack([x, x])
    fitted = SparseEncoder(2, n_nonzero=3, exclude=np.arange(9), effort=0).fit(twice)
    plain = SparseEncoder(2, n_nonzero=3, effort=0).fit(x)
    np.testing.assert_array_equal(fitted.selected_features_, plain.selected_features_ + 9)
    assert fitted.certificate_.ratio == pytest.approx(plain.certificate_.ratio, rel=1e-9)


@pytest.mark.parametrize("empty", [[], np.zeros(9, dtype=bool), ()], ids=str)
def test_no_rule_changes_no_bit(x: Floats, empty: Any) -> None:
    plain = SparseEncoder(3, n_nonzero=3, effort=0).fit(x)
    ruled = SparseEncoder(3, n_nonzero=3, include=empty, exclude=empty, effort=0).fit(x)
    assert plain.components_.tobytes() == ruled.components_.tobytes()
    assert plain.decoder_.tobytes() == ruled.decoder_.tobytes()
    assert plain.certificate_ == ruled.certificate_


def test_a_constant_feature_may_be_included_and_gets_no_weight(x: Floats) -> None:
    x[:, 2] = 5.0
    fitted = SparseEncoder(2, n_nonzero=2, include=[2, 5], effort=0).fit(x)
    assert not fitted.components_[:, 2].any()
    assert fitted.components_[:, 5].all()


def test_paths_and_curves_keep_to_the_rules_and_more_features_never_lose_more(x: Floats) -> None:
    frame = as_table(x)
    fitted = SparseEncoder(2, n_nonzero=2, include="f", exclude=["a", "d"], effort=0).fit(frame)
    losses = [point.loss for point in fitted.sparsity_path([2], [1, 2, 3]).points]
    assert losses[1] <= fitted.certificate_.loss * (1 + 1e-9)
    assert losses == sorted(losses, reverse=True)
    assert losses[-1] >= least_loss(x, 2, 6, [5], [0, 3]) * (1 - 1e-9)
    curve = fitted.curve()
    assert curve is not None
    assert curve.points[0].loss == pytest.approx(losses[0], rel=0.05)


class Unread(RowBlocks):
    """Data that must not be read."""

    shape = (50, 9)
    dtype = np.dtype(np.float64)
    bounds = (0, 50)
    in_process = True
    feature_names = tuple("abcdefghi")

    def describe(self) -> str:
        return "unread"

    def read(self, number: int) -> Any:
        raise AssertionError(f"block {number} was read")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"exclude": "z*"}, r"exclude='z\*' fits none"),
        ({"include": "a", "exclude": "a"}, "contradict"),
        ({"exclude": "*"}, "leaves none"),
        ({"exclude": "[a-g]"}, r"n_nonzero=3 is more than exclude leaves: 2 of 9 features"),
        ({"exclude": "a", "method": "iterative"}, "method='iterative' cannot keep to exclude"),
        ({"include": "a", "method": "doubly-sparse"}, "method='doubly-sparse' cannot keep to include"),
        ({"include": "a", "method": "batch"}, "selection='dual-set' cannot keep to include .*='greedy' or"),
        ({"include": "a", "selection": "leverage"}, "selection='leverage' cannot keep to include"),
        ({"include": "a", "strategy": "stream"}, "strategy='stream' cannot do this: it does not keep to include"),
        ({"include": "a", "strategy": "paper"}, "strategy='paper' cannot do this: it does not keep to include"),
    ],
    ids=str,
)
def test_impossible_rules_are_refused_before_a_read(given: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        SparseEncoder(2, n_nonzero=3, **given).fit(Unread())
    with pytest.raises(InvalidInput, match=words):
        plan(Unread(), 2, n_nonzero=3, calibrate=False, **given)


def test_a_stream_of_batches_refuses_rules(x: Floats) -> None:
    with pytest.raises(InvalidInput, match=r"partial_fit keeps to no rules, .*exclude 3"):
        SparseEncoder(2, n_nonzero=2, exclude=3).partial_fit(x)


def test_the_record_names_the_features_and_makes_the_fit_again(x: Floats, tmp_path: Path) -> None:
    panel = tmp_path / "panel.txt"
    panel.write_text("b\n")
    frame = as_table(x)
    mask = np.arange(9) == 4
    fitted = SparseEncoder(2, n_nonzero=2, include=str(panel), exclude=mask, effort=0).fit(frame)
    save_encoder(fitted, tmp_path / "e.zarr")
    panel.unlink()
    loaded = load_encoder(tmp_path / "e.zarr")
    assert (loaded.include, loaded.exclude) == (["b"], [4])
    again = SparseEncoder(**loaded.get_params()).fit(frame)
    assert again.components_.tobytes() == fitted.components_.tobytes()
    command = fit_command(loaded.get_params(), {"path": "/x.csv"})
    assert command is not None
    assert "--include b --exclude 4" in command


def test_a_checkpoint_knows_the_features_and_not_the_words_for_them() -> None:
    def identity(**rules: Any) -> dict[str, Any]:
        return parameters_of(FitParameters(2, 3, **rules).resolved(list("abc*"), 4))

    assert identity(exclude="a") == identity(exclude=[0]) != identity(exclude="b")
    assert identity(include="a") != identity(exclude="a")
    assert identity(exclude=[]) == identity()
    assert not {"include", "exclude"} & set(identity()), "those of before have none"


def test_a_grid_takes_masks_numbers_and_patterns_of_cells(rng: np.random.Generator) -> None:
    field = rng.normal(size=(80, 2)) @ rng.normal(size=(2, 12)) + 0.3 * rng.normal(size=(80, 12))
    da = xr.DataArray(
        field.reshape(80, 3, 4), dims=("time", "lat", "lon"), coords={"lat": [0, 30, 60], "lon": [0, 90, 180, 270]}
    )
    da[:, 0, 1] = np.nan  # no column: numbers of cells and of columns differ
    south = xr.zeros_like(da.isel(time=0, drop=True), dtype=bool)
    south[0] = True
    by_mask = GridEncoder(2, n_nonzero=3, exclude=south, include=6, effort=0).fit(da, "time")
    by_name = GridEncoder(2, n_nonzero=3, exclude="lat=0*", include=[6], effort=0).fit(da, "time")
    used = by_mask.selected().values
    assert not used[:, 0].any()
    assert used[:, 1, 2].all()
    np.testing.assert_array_equal(used, by_name.selected().values)
    with pytest.raises(InvalidInput, match=r"exclude='lat=7\*' fits none"):
        GridEncoder(2, n_nonzero=3, exclude="lat=7*").fit(da, "time")


def test_of_the_columns_of_largest_variance_rules_name_those_that_are_there(x: Floats) -> None:
    order = np.argsort(x.var(axis=0))
    least, most = (int(order[place]) for place in (0, -1))
    names = list("abcdefghi")
    rules = {"include": names[least], "exclude": [names[most], names[int(order[1])]]}
    fitted = SparseEncoder(2, n_nonzero=2, n_top_features=5, **rules).fit(as_table(x))
    kept = sorted([least, *order[-4:].tolist()])
    np.testing.assert_array_equal(fitted.top_features_, kept)
    used = (fitted.components_ != 0).any(axis=0)
    assert used[kept.index(least)]
    assert not used[kept.index(most)]
    alone = SparseEncoder(2, n_nonzero=2, include=kept.index(least), exclude=kept.index(most), effort=0).fit(x[:, kept])
    assert fitted.components_.tobytes() == alone.components_.tobytes()
    path = fitted.sparsity_path([2], [1, 2])
    assert path == alone.sparsity_path([2], [1, 2])
    assert fit_path(open_matrix(as_table(x)), [2], [1, 2], method="polished", n_top_features=5, **rules) == path


def test_rules_that_the_columns_of_largest_variance_cannot_keep_are_refused(x: Floats) -> None:
    with pytest.raises(InvalidInput, match=r"n_top_features=2 is less than the 3 features that include names"):
        SparseEncoder(2, n_nonzero=2, n_top_features=2, include="[a-c]").fit(Unread())
    with pytest.raises(InvalidInput, match=r"n_nonzero=3 is more than exclude leaves: 2 of 4 features"):
        SparseEncoder(2, n_nonzero=3, n_top_features=4, exclude="[a-g]").fit(Unread())
    most = np.argsort(x.var(axis=0))[-3:]
    with pytest.raises(InvalidInput, match=r"n_nonzero=3 is more than exclude leaves: 1 of 4 features"):
        SparseEncoder(2, n_nonzero=3, n_top_features=4, exclude=most).fit(x)


def test_rules_name_chosen_columns_and_none_that_hold_covariates(x: Floats) -> None:
    frame = as_table(x)
    fitted = SparseEncoder(2, n_nonzero=2, covariates="b", include="c", exclude="d", effort=0).fit(frame)
    used = (fitted.components_ != 0).any(axis=0)
    assert fitted.feature_names_in_.tolist() == list("acdefghi")
    assert used[1]
    assert not used[2]
    with pytest.raises(InvalidInput, match=r"exclude='b' fits none of the names of the 8 features"):
        SparseEncoder(2, n_nonzero=2, covariates="b", exclude="b").fit(frame)
    chosen = open_matrix(frame, columns=["a", "c", "d", "e", "f"])
    by_name = SparseEncoder(2, n_nonzero=2, exclude="d", effort=0).fit(chosen)
    by_number = SparseEncoder(2, n_nonzero=2, exclude=2, effort=0).fit(chosen)
    assert by_name.components_.tobytes() == by_number.components_.tobytes()
    assert not by_name.components_[:, 2].any()
    with pytest.raises(InvalidInput, match=r"exclude='b' fits none of the names of the 5 features"):
        SparseEncoder(2, n_nonzero=2, exclude="b").fit(chosen)


def test_a_loaded_encoder_of_the_columns_of_largest_variance_has_no_curve(x: Floats, tmp_path: Path) -> None:
    fitted = SparseEncoder(2, n_nonzero=2, n_top_features=5, exclude="a", effort=0).fit(as_table(x))
    assert fitted.curve() is not None
    save_encoder(fitted, tmp_path / "e.zarr")
    loaded = load_encoder(tmp_path / "e.zarr")
    del loaded._curve
    assert loaded.curve() is None, "it does not know the names that the rules refer to"
    assert pickle.loads(pickle.dumps(fitted)).exclude == "a"


@pytest.mark.parametrize("size", [{"n_nonzero": 4}, {"n_features": 4}], ids=str)
def test_sizes_beside_that_of_an_encoder_leave_out_excluded_features(size: dict[str, int]) -> None:
    x = np.random.default_rng(0).normal(size=(60, 8))
    fitted = SparseEncoder(2, exclude=[2, 5], folds=2, effort=0, **size).fit(x)
    assert fitted.certificate_.held_out is not None
    assert max(each.n_nonzero for each in fitted.certificate_.held_out.sizes) == 6
    if "n_nonzero" in size:
        found = fitted.curve()
        assert found is not None
        assert max(point.n_nonzero for point in found.points) == 6
