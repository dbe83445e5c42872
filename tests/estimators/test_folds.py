"""Folds of one read against folds that are cut out of the rows: encoders fitted anew, and losses row by row."""

import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
import scipy.sparse as sp

from spae_dask import SparseEncoder, load_encoder, plan
from spae_dask.errors import InvalidInput, MemoryBudgetExceeded, NotFound, StorageError
from spae_dask.estimators.saved import save_encoder
from spae_dask.passes.plan import Resources
from spae_dask.strategies.held_out import HeldOut, HeldOutComponents, HeldOutSize, least_within
from tests.estimators.sources import Unreadable, spread

Floats = npt.NDArray[np.float64]

N, D, K, R, FOLDS = 240, 9, 2, 3, 4
X = spread(np.random.default_rng(3), N, D)
GAPPY = np.where(np.random.default_rng(1).random((N, D)) < 0.05, np.nan, X)
WIDE = spread(np.random.default_rng(6), N, 300)
FEW = np.where(np.random.default_rng(2).random((N, D)) < 0.6, 0.0, X)
GROUPS = np.array([f"donor {number}" for number in np.random.default_rng(4).integers(0, 13, N)])
AGE = np.random.default_rng(5).normal(size=N)


def planted(seed: int = 0, n: int = 600) -> Floats:
    """Three factors, each of five of 24 columns, and noise."""
    rng = np.random.default_rng(seed)
    loadings = np.zeros((3, 24))
    for j in range(3):
        loadings[j, 8 * j : 8 * j + 5] = rng.normal(size=5) + 2
    made: Floats = rng.normal(size=(n, 3)) @ loadings + rng.normal(size=(n, 24))
    return made


def fold_of(held_out: HeldOut, groups: npt.NDArray[Any] = GROUPS) -> npt.NDArray[np.intp]:
    """Fold of each row, largest groups first, each to the fold of fewest rows: written again."""
    names, sizes = np.unique(groups, return_counts=True)
    rows, fold = [0] * held_out.n_folds, {}
    for place in sorted(range(len(names)), key=lambda place: -sizes[place]):
        fold[names[place]] = rows.index(min(rows))
        rows[fold[names[place]]] += sizes[place]
    return np.array([fold[name] for name in groups])


def residuals(fitted: SparseEncoder, rows: Floats, age: Floats) -> Floats:
    """Rows as the encoder sees them: less what its covariates explain, about its mean, in its scale."""
    if hasattr(fitted, "covariates_"):
        removed = fitted.covariates_
        rows = rows - (age[:, None] - removed.mean) @ removed.coefficients
    return np.asarray((rows - fitted.mean_) / fitted.scale_)


CASES: dict[str, tuple[Any, dict[str, Any]]] = {
    "gram": (X, {"strategy": "gram", "method": "polished", "effort": 0}),
    "tsqr": (X, {"strategy": "tsqr"}),
    "float32": (X.astype(np.float32), {}),
    "integers": (np.clip(np.rint(5 * X), -128, 127).astype(np.int8), {}),
    "fast": (X, {"strategy": "gram", "precision": "fast"}),
    "scaled": (X, {"strategy": "gram", "scale": True}),
    "scaled, tsqr": (X, {"strategy": "tsqr", "scale": True}),
    "not centered": (X, {"strategy": "gram", "center": False}),
    "zeros for gaps": (GAPPY, {"missing": "zero"}),
    "means for gaps": (GAPPY, {"missing": "mean", "strategy": "gram"}),
    "sparse": (sp.csr_array(FEW), {}),
    "covariates, gram": (X, {"strategy": "gram", "covariates": AGE}),
    "covariates, tsqr": (X, {"strategy": "tsqr", "covariates": AGE, "scale": True}),
    "few rows of many columns": (WIDE, {"strategy": "tsqr"}),
    "iterative": (X, {"method": "iterative"}),
    "orthonormal": (X, {"orthonormal": True, "method": "polished", "effort": 0}),
    "to an eps": (X, {"n_nonzero": None, "eps": 0.1}),
    "sizes of each": (X, {"n_nonzero": (4, 2), "method": "polished", "effort": 0}),
}


@pytest.mark.parametrize("name", CASES)
def test_losses_are_those_of_encoders_of_the_other_rows_on_the_rows_left_out(name: str) -> None:
    given, how = CASES[name]
    parameters = {"n_nonzero": R, "method": "batch"} | how
    encoder = SparseEncoder(K, folds=FOLDS, fold_groups=GROUPS, **parameters).fit(given)
    held_out = encoder.certificate_.held_out
    numbers = fold_of(held_out)
    dense = given.toarray() if sp.issparse(given) else given.astype(np.float64)
    missing = parameters.pop("missing", None)
    if missing is not None:  # gaps are filled before the rows are dealt
        dense = np.where(np.isnan(dense), 0.0 if missing == "zero" else np.nanmean(dense, axis=0), dense)
    tol = 1e-4 if "fast" in name else 1e-8
    used = []
    for fold in range(FOLDS):
        train, test = numbers != fold, numbers == fold
        own = parameters | ({"covariates": AGE[train]} if "covariates" in how else {})
        other = SparseEncoder(K, **own).fit(dense[train])
        rows = residuals(other, dense[test], AGE[test])
        seen = residuals(other, dense[train], AGE[train])
        V = np.linalg.svd(seen, full_matrices=False)[2][:K].T
        lost = np.sum((rows - rows @ other.components_.T @ other.decoder_) ** 2)
        assert held_out.n_rows[fold] == test.sum()
        assert held_out.losses[fold] == pytest.approx(lost, rel=tol)
        assert held_out.pca_losses[fold] == pytest.approx(np.sum((rows - rows @ V @ V.T) ** 2), rel=tol)
        assert held_out.totals[fold] == pytest.approx(np.sum(rows**2), rel=tol)
        assert held_out.supports[fold] == tuple(other.selected_features_)
        used.append(other.components_.any(axis=0))
    ratios = np.array(held_out.losses) / np.array(held_out.pca_losses)
    assert held_out.ratio == pytest.approx(ratios.mean())
    assert held_out.ratio_error == pytest.approx(ratios.std(ddof=1) / 2)
    np.testing.assert_array_equal(encoder.selection_frequency_, np.mean(used, axis=0))


@pytest.mark.parametrize("name", ["gram", "tsqr", "scaled", "sparse", "covariates, gram", "iterative"])
def test_the_encoder_is_that_of_a_fit_without_folds(name: str) -> None:
    given, how = CASES[name]
    how = {"n_nonzero": R, "method": "batch"} | how
    with_folds = SparseEncoder(K, folds=FOLDS, **how).fit(given)
    plain = SparseEncoder(K, **how).fit(given)
    np.testing.assert_allclose(with_folds.components_, plain.components_, atol=1e-9)
    np.testing.assert_allclose(with_folds.mean_, plain.mean_, rtol=1e-12, atol=1e-12)
    found, known = with_folds.certificate_, plain.certificate_
    assert found.loss == pytest.approx(known.loss, rel=1e-9)
    assert (found.passes, found.bytes_read) == (known.passes, known.bytes_read)
    assert not hasattr(plain, "selection_frequency_")


def test_of_exact_sums_the_bits_are_those_of_a_fit_without_folds() -> None:
    given, _ = CASES["integers"]
    with_folds = SparseEncoder(K, n_nonzero=R, method="batch", folds=FOLDS).fit(given)
    plain = SparseEncoder(K, n_nonzero=R, method="batch").fit(given)
    for name in ("components_", "decoder_", "mean_", "singular_values_"):
        assert getattr(with_folds, name).tobytes() == getattr(plain, name).tobytes(), name
    assert replace(with_folds.certificate_, held_out=None) == plain.certificate_


def test_folds_are_random_runs_of_rows_by_the_seed() -> None:
    first, again, other = (
        SparseEncoder(K, n_nonzero=R, method="batch", folds=FOLDS, random_state=seed).fit(X).certificate_.held_out
        for seed in (0, 0, 1)
    )
    assert first == again
    assert first.losses != other.losses
    assert first.n_rows == (N // FOLDS,) * FOLDS


def test_folds_choose_the_planted_size() -> None:
    encoder = SparseEncoder("cv", n_nonzero="cv", folds=5, effort=0).fit(planted())
    held_out = encoder.certificate_.held_out
    assert encoder.n_components_ == 3
    assert (encoder.components_ != 0).sum(axis=1).tolist() == [5, 5, 5]
    assert [each.n_components for each in held_out.components][:4] == [1, 2, 3, 4]
    assert encoder.selected_features_.tolist() == np.flatnonzero(encoder.selection_frequency_ == 1).tolist()
    assert "chosen: k of" in str(encoder.certificate_)
    path = encoder.sparsity_path([2, 3, 4], [2, 5, 8])
    assert path.chosen == (3, 5)
    point = next(each for each in path.points if (each.n_components, each.n_nonzero) == (3, 5))
    assert point.held_out == pytest.approx(held_out.ratio, rel=1e-6)
    assert point.held_out_error == pytest.approx(held_out.ratio_error, rel=1e-4, abs=1e-9)
    with pytest.raises(InvalidInput, match="needs folds"):
        encoder.set_params(folds=None).fit(X)


def test_entries_held_out_are_predicted_from_other_columns() -> None:
    """Of the pass of a fit: the numbers of a program that has the rows."""
    rows = planted(1, 200)
    groups = np.arange(200) % 5
    held_out = (
        SparseEncoder("cv", n_nonzero=5, folds=5, fold_groups=groups, method="batch").fit(rows).certificate_.held_out
    )
    blocks = np.random.default_rng(0).permutation(24) % 5
    for each in (held_out.components[0], held_out.components[4]):
        shares = []
        for fold in range(5):
            mean = rows[groups != fold].mean(axis=0)
            V = np.linalg.svd(rows[groups != fold] - mean, full_matrices=False)[2][: each.n_components].T
            test, lost = rows[groups == fold] - mean, 0.0
            for number in range(5):
                seen, out = blocks != number, blocks == number
                codes = np.linalg.lstsq(V[seen], test[:, seen].T, rcond=None)[0].T
                lost += np.sum((test[:, out] - codes @ V[out].T) ** 2)
            shares.append(lost / np.sum(test**2))
        assert each.lost == pytest.approx(np.mean(shares), rel=1e-9)
        assert each.lost_error == pytest.approx(np.std(shares, ddof=1) / np.sqrt(5), rel=1e-6)


def test_the_least_within_one_standard_error_of_the_best_is_chosen() -> None:
    sizes = [HeldOutSize(2, r, ratio, error) for r, ratio, error in [(1, 1.5, 0.1), (2, 1.1, 0.9), (3, 1.0, 0.2)]]
    assert least_within(sizes).n_nonzero == 2
    sizes[2] = HeldOutSize(2, 3, 1.0, 0.05)
    assert least_within(sizes).n_nonzero == 3
    assert least_within([HeldOutComponents(1, 0.5, 0.0), HeldOutComponents(2, 0.5, 0.1)]).n_components == 1


def test_data_of_no_more_directions_than_components_have_ratio_one() -> None:
    low = np.outer(AGE, np.arange(1.0, 7.0))
    held_out = SparseEncoder(1, n_nonzero=1, folds=3, strategy="tsqr").fit(low).certificate_.held_out
    assert held_out.ratio == 1.0
    assert held_out.ratio_error == 0.0


FRAME = pd.DataFrame(X, columns=[f"c{j}" for j in range(D)]).assign(donor=GROUPS)


def test_groups_are_columns_of_a_table_and_no_data(tmp_path: Path) -> None:
    FRAME.to_csv(tmp_path / "x.csv", index=False)
    FRAME.to_parquet(tmp_path / "x.parquet")
    known = SparseEncoder(K, n_nonzero=R, method="batch", folds=FOLDS, fold_groups=GROUPS).fit(X).certificate_.held_out
    for given in (FRAME, str(tmp_path / "x.csv"), str(tmp_path / "x.parquet")):
        encoder = SparseEncoder(K, n_nonzero=R, method="batch", folds=FOLDS, fold_groups="donor").fit(given)
        assert encoder.n_features_in_ == D
        assert encoder.certificate_.held_out.losses == pytest.approx(known.losses)
        assert encoder.certificate_.held_out.folds == "4 folds of 13 groups (donor)"
        assert encoder.transform(given).shape == (N, K)
        save_encoder(encoder, tmp_path / "e.zarr", source=given, overwrite=True)
        loaded = load_encoder(tmp_path / "e.zarr")
        assert loaded.fold_groups == ["donor"]
        assert loaded.transform(given).shape == (N, K)


def test_what_folds_say_is_stored_with_the_encoder(tmp_path: Path) -> None:
    encoder = SparseEncoder(K, n_nonzero="cv", folds=FOLDS, method="batch").fit(X)
    save_encoder(encoder, tmp_path / "e.zarr")
    loaded = load_encoder(tmp_path / "e.zarr")
    assert loaded.certificate_ == encoder.certificate_
    assert loaded.certificate_.held_out.sizes
    np.testing.assert_array_equal(loaded.selection_frequency_, encoder.selection_frequency_)
    assert loaded.curve() == encoder.curve()
    save_encoder(loaded, tmp_path / "again.zarr")
    assert load_encoder(tmp_path / "again.zarr").certificate_ == encoder.certificate_
    import zarr

    group = zarr.open_group(tmp_path / "e.zarr")
    assert "held_out" not in group.attrs["certificate"], "earlier versions know no such entry"
    assert group.attrs["format_version"] == 1
    plain = SparseEncoder(K, n_nonzero=R, method="batch").fit(X)
    save_encoder(plain, tmp_path / "plain.zarr")
    assert "held_out" not in zarr.open_group(tmp_path / "plain.zarr").attrs
    assert "held_out" not in plain.certificate_.as_dict()
    group.attrs["held_out"] = {"folds": "5"}
    with pytest.raises(InvalidInput, match="lacks a part of its record"):
        load_encoder(tmp_path / "e.zarr")


def test_a_second_fit_forgets_the_folds_of_the_first() -> None:
    encoder = SparseEncoder(K, n_nonzero=R, method="batch", folds=FOLDS).fit(X)
    encoder.set_params(folds=None).fit(X)
    assert encoder.certificate_.held_out is None
    assert not hasattr(encoder, "selection_frequency_")


LEVELS = np.array([f"lab {group[-1]}" for group in GROUPS])


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"folds": 1}, "folds=1 is not allowed: give a whole number from 2 to 100"),
        ({"folds": 5, "fold_groups": np.arange(N) // 80}, r"folds=5 is more than the 3 group\(s\).*folds=3 or fewer"),
        ({"folds": 5, "fold_groups": np.zeros(N)}, r"more than the 1 group\(s\).*other groups"),
        ({"folds": 5, "fold_groups": AGE[:-1]}, "239 values, but the array has 240 rows"),
        ({"folds": 5, "fold_groups": np.where(np.arange(N) == 7, None, GROUPS)}, "the group is missing in row 7"),
        ({"folds": 5, "fold_groups": X[:, :2]}, "2 columns of groups are given.*Give one"),
        ({"folds": 5, "fold_groups": "donor"}, "'donor' must name columns of AnnData's obs or of a table"),
        ({"folds": 2, "fold_groups": np.arange(N) > 0}, "all rows but 1 are in one fold"),
        ({"fold_groups": GROUPS}, "fold_groups: this needs folds"),
        ({"n_components": "cv"}, "n_components='cv': this needs folds"),
        ({"n_components": "cv", "n_nonzero": None, "folds": 3}, "n_components='cv' needs one n_nonzero"),
        ({"n_components": "all", "folds": 3}, "n_components='all' is not allowed: .*, or 'cv'"),
        ({"folds": 5, "method": "doubly-sparse"}, "folds keep no rows"),
        ({"folds": 5, "strategy": "stream"}, "no summary of the columns for each fold. Use strategy 'gram', 'tsqr' or"),
        ({"folds": 5, "strategy": "paper"}, "Use strategy 'gram', 'tsqr' or 'sketch'"),
        ({"folds": 5, "strategy": "sketch", "covariates": AGE}, "it cannot remove covariates"),
        ({"folds": 5, "tolerance": 0.1}, "without tolerance"),
        ({"folds": 3, "fold_groups": GROUPS, "covariates": GROUPS}, "without fold 1 of 3 some effect"),
    ],
    ids=lambda given: ", ".join(given) if isinstance(given, dict) else None,
)
@pytest.mark.parametrize("strategy", ["gram", "tsqr"])
def test_what_cannot_be_folded_is_refused(given: dict[str, Any], words: str, strategy: str) -> None:
    if "tolerance" in given:
        strategy = "auto"
    with pytest.raises(InvalidInput, match=words):
        SparseEncoder(**({"n_components": K, "n_nonzero": R, "strategy": strategy} | given)).fit(X)


def test_more_folds_than_rows_are_refused() -> None:
    with pytest.raises(InvalidInput, match=r"folds=9 is more than the 8 row\(s\)"):
        SparseEncoder(K, n_nonzero=R, method="batch", folds=9).fit(X[:8])


def test_an_unknown_column_of_groups_is_named() -> None:
    with pytest.raises(NotFound, match=r"no column 'doner'\. Did you mean 'donor'"):
        SparseEncoder(K, n_nonzero=R, method="batch", folds=3, fold_groups="doner").fit(FRAME)


def test_a_stream_keeps_no_folds() -> None:
    with pytest.raises(InvalidInput, match="partial_fit cannot keep folds"):
        SparseEncoder(K, n_nonzero=R, method="batch", folds=3).partial_fit(X)


def test_memory_for_all_folds_is_planned_and_refused_before_anything_is_read() -> None:
    source = Unreadable((100_000, 1000), 1000)
    parameters: dict[str, Any] = {"n_nonzero": 5, "calibrate": False, "strategy": "gram"}
    alone = plan(source, 3, **parameters)
    folded = plan(source, 3, folds=5, **parameters)
    assert folded.passes[0].state_nbytes == pytest.approx(5 * alone.passes[0].state_nbytes, rel=0.01)
    assert folded.finish_nbytes >= alone.finish_nbytes + 5 * 8 * 1000**2
    assert any("5 folds in runs of 500 rows" in note for note in folded.notes)
    limit = alone.finish_nbytes + (700 << 20)
    small = Resources(where="here", n_workers=1, threads=1, memory_limit=limit)
    plan(source, 3, **parameters, resources=small)
    with pytest.raises(
        MemoryBudgetExceeded,
        match=r"Nothing was read\..*'sketch', which fits\. Or give fewer folds, or none: each of the 90",
    ):
        plan(source, 3, folds=90, **parameters, resources=small)


def test_too_many_columns_are_refused_with_a_way_out() -> None:
    wide = Unreadable((100_000, 30_000), 1000)
    with pytest.raises(MemoryBudgetExceeded, match="fewer folds"):
        plan(wide, 3, n_nonzero=5, folds=5, calibrate=False, memory_limit="1500MB")
    assert plan(wide, 3, n_nonzero=5, folds=5, calibrate=False, memory_limit="6GB").strategy == "sketch"


def test_groups_that_are_numbers_of_any_kind_are_labels() -> None:
    numbers = np.array([int(each.split()[1]) for each in GROUPS])
    known = None
    for groups in (numbers, numbers.astype(float), pd.Series(numbers, name="g").astype("category"), numbers.tolist()):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = (
                SparseEncoder(K, n_nonzero=R, method="batch", folds=3, fold_groups=groups).fit(X).certificate_.held_out
            )
        known = known or found
        assert found.losses == known.losses


def test_a_name_that_was_a_file_is_read(tmp_path: Path) -> None:
    np.save(tmp_path / "groups.npy", np.arange(N) % 7)
    by_file = SparseEncoder(K, n_nonzero=R, method="batch", folds=3, fold_groups=str(tmp_path / "groups.npy")).fit(X)
    by_value = SparseEncoder(K, n_nonzero=R, method="batch", folds=3, fold_groups=np.arange(N) % 7).fit(X)
    assert by_file.certificate_.held_out.losses == by_value.certificate_.held_out.losses


def test_what_is_stored_of_folds_and_cut_off_is_damage(tmp_path: Path) -> None:
    import zarr

    save_encoder(SparseEncoder(K, n_nonzero=R, method="batch", folds=3).fit(X), tmp_path / "e.zarr")
    group = zarr.open_group(tmp_path / "e.zarr")
    group.attrs["held_out"] = 5
    with pytest.raises((InvalidInput, StorageError), match="'held_out' is neither null nor an object"):
        load_encoder(tmp_path / "e.zarr")
