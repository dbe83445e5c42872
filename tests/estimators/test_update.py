"""An update reads new rows alone, and gives what a fit to all rows gives."""

import pickle
import shutil
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import zarr
from distributed import Client

from spae_dask import SparseEncoder, load_encoder, plan
from spae_dask.errors import InvalidInput, MemoryBudgetExceeded, NonFiniteInput, StorageError
from spae_dask.estimators.saved import save_encoder
from spae_dask.storage.artifacts.artifact_reading import read_encoder
from tests.estimators.sources import spread, zarr_array

N, D = 900, 8
CUTS = (0, 400, 650, N)
KEPT = ("components_", "decoder_", "mean_", "scale_", "singular_values_", "explained_variance_ratio_")


def matrix(dtype: str) -> Any:
    X = np.rint(20 * spread(np.random.default_rng(0), N, D))
    if np.dtype(dtype).kind in "iu":
        info = np.iinfo(dtype)
        return np.clip(X + (info.max + info.min) // 2, info.min, info.max).astype(dtype)
    return (np.median(X, axis=0) < X) if dtype == "bool" else (X / 7).astype(dtype)


def parts(X: Any) -> list[Any]:
    return [X[start:stop] for start, stop in pairwise(CUTS)]


def encoder_of(**more: Any) -> SparseEncoder:
    return SparseEncoder(2, **{"n_nonzero": 3, "method": "batch", "keep_state": True, **more})


def updated(X: Any, folder: Path, **more: Any) -> SparseEncoder:
    """A fit to the first part, and two updates, each of which is stored and loaded."""
    first, *others = parts(X)
    save_encoder(encoder_of(**more).fit(first), folder / "0.zarr", source=first)
    for number, rows in enumerate(others):
        save_encoder(load_encoder(folder / f"{number}.zarr").update(rows), folder / f"{number + 1}.zarr")
    return load_encoder(folder / f"{len(others)}.zarr")


def bits(encoder: SparseEncoder) -> list[bytes]:
    return [getattr(encoder, name).tobytes() for name in KEPT]


def assert_equal(found: SparseEncoder, wanted: SparseEncoder) -> None:
    np.testing.assert_array_equal(found.components_ != 0, wanted.components_ != 0)
    for name in KEPT:
        one, other = getattr(found, name), getattr(wanted, name)
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12 * np.abs(other).max(), err_msg=name)
    for name in ("loss", "pca_loss", "ratio", "total"):
        one, other = getattr(found.certificate_, name), getattr(wanted.certificate_, name)
        np.testing.assert_allclose(one, other, rtol=1e-12, err_msg=name)
    assert found.n_samples_seen_ == wanted.n_samples_seen_


@pytest.mark.parametrize(
    ("dtype", "more"),
    [
        ("bool", {}),
        ("int8", {}),
        ("uint8", {"scale": True, "center": False}),
        ("int16", {"n_nonzero": None, "keep": 0.8}),
    ],
    ids=str,
)
def test_of_small_integers_it_has_the_bits_of_a_fit_to_all_rows(
    dtype: str, more: dict[str, Any], tmp_path: Path
) -> None:
    X = matrix(dtype)
    found, wanted = updated(X, tmp_path, strategy="gram", **more), encoder_of(strategy="gram", **more).fit(X)
    assert bits(found) == bits(wanted)
    assert found.certificate_.exact_sums
    assert found.certificate_.loss == wanted.certificate_.loss


OPTIONS: list[dict[str, Any]] = [
    {"method": "polished", "effort": 0},
    {"strategy": "gram"},
    {"strategy": "tsqr"},
    {"scale": True},
    {"center": False},
    {"method": "iterative", "n_nonzero": [4, 2]},
    {"eps": 0.4, "n_nonzero": None},
    {"orthonormal": True},
    {"recipe": "arcsinh(2), clip(3)"},
]


@pytest.mark.parametrize(
    ("dtype", "more"), [("float32", {}), ("int32", {}), *(("float64", each) for each in OPTIONS)], ids=str
)
def test_of_other_numbers_it_is_that_of_a_fit_to_all_rows(dtype: str, more: dict[str, Any], tmp_path: Path) -> None:
    X = matrix(dtype)
    assert_equal(updated(X, tmp_path, **more), SparseEncoder(2, **{"n_nonzero": 3, "method": "batch", **more}).fit(X))


def test_its_losses_are_those_of_all_rows_by_the_definition(tmp_path: Path) -> None:
    X = matrix("float64")
    found = updated(X, tmp_path)
    Y = X - X.mean(axis=0)
    H = found.components_.T
    residual = Y - Y @ H @ np.linalg.lstsq(Y @ H, Y, rcond=None)[0]
    np.testing.assert_allclose(found.certificate_.loss, np.sum(residual**2), rtol=1e-10)
    np.testing.assert_allclose(found.certificate_.pca_loss, np.sum(np.linalg.svd(Y)[1][2:] ** 2), rtol=1e-10)
    np.testing.assert_allclose(found.decoder_, np.linalg.lstsq(Y @ H, Y, rcond=None)[0], atol=1e-10)


@pytest.mark.parametrize("missing_value", [None, -1.0])
def test_gaps_are_filled_with_zeros_in_new_rows_too(missing_value: float | None, tmp_path: Path) -> None:
    X = matrix("float64")
    X[np.random.default_rng(1).random(X.shape) < 0.1] = np.nan if missing_value is None else missing_value
    more = {"missing": "zero", "missing_value": missing_value}
    assert_equal(updated(X, tmp_path, **more), SparseEncoder(2, n_nonzero=3, method="batch", **more).fit(X))


def test_sparse_rows_are_added(tmp_path: Path) -> None:
    X = matrix("float32")
    X[np.random.default_rng(1).random(X.shape) < 0.8] = 0
    found, wanted = (
        updated(sp.csr_array(X), tmp_path),
        SparseEncoder(2, n_nonzero=3, method="batch").fit(sp.csr_array(X)),
    )
    np.testing.assert_allclose(found.components_, wanted.components_, atol=1e-9)
    np.testing.assert_allclose(found.certificate_.loss, wanted.certificate_.loss, rtol=1e-12)


def test_few_rows_of_many_columns_are_added(tmp_path: Path) -> None:
    X = spread(np.random.default_rng(3), 40, 1010)
    first = encoder_of(method="batch").fit(X[:30])
    assert first.plan_.strategy == "tsqr"
    found = first.update(X[30:])
    wanted = SparseEncoder(2, n_nonzero=3, method="batch").fit(X)
    np.testing.assert_array_equal(found.components_ != 0, wanted.components_ != 0)
    np.testing.assert_allclose(found.components_, wanted.components_, atol=1e-10)
    np.testing.assert_allclose(found.certificate_.loss, wanted.certificate_.loss, rtol=1e-10)


@pytest.mark.parametrize("strategy", ["gram", "tsqr"])
@pytest.mark.parametrize("dtype", ["uint8", "float64"])
def test_half_the_weight_is_that_of_new_rows_given_twice(strategy: str, dtype: str, tmp_path: Path) -> None:
    X = matrix(dtype)
    old, new = X[:400], X[400:700]
    save_encoder(encoder_of(strategy=strategy).fit(old), tmp_path / "e.zarr")
    found = load_encoder(tmp_path / "e.zarr").update(new, forget=0.5)
    wanted = SparseEncoder(2, n_nonzero=3, method="batch", strategy=strategy).fit(np.concatenate([old, new, new]))
    for name in ("components_", "decoder_", "mean_"):
        np.testing.assert_allclose(getattr(found, name), getattr(wanted, name), rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(2 * found.certificate_.loss, wanted.certificate_.loss, rtol=1e-11)
    np.testing.assert_allclose(found.certificate_.ratio, wanted.certificate_.ratio, rtol=1e-11)
    assert not found.certificate_.exact_sums
    assert found.n_samples_seen_ == 700
    assert found.certificate_.rows == "700: 400 of the array at weight 0.5, 300 of the array"
    again = found.update(X[700:], forget=0.5)
    assert [each["weight"] for each in again.provenance_["parts"]] == [0.25, 0.5, 1.0]


@pytest.mark.parametrize(("first", "then", "exact"), [
    ("uint8", "bool", True), ("uint8", "float32", False), ("bool", "uint8", False), ("float32", "uint8", False),
])  # fmt: skip
def test_rows_of_another_type_are_added(first: str, then: str, exact: bool) -> None:
    old, new = matrix(first)[:500], matrix(then)[500:]
    found = encoder_of(strategy="gram").fit(old).update(new)
    wanted = SparseEncoder(2, n_nonzero=3, method="batch", strategy="gram").fit(
        np.concatenate([old.astype(float), new.astype(float)])
    )
    for name in ("components_", "decoder_", "mean_"):
        np.testing.assert_allclose(getattr(found, name), getattr(wanted, name), rtol=1e-9, atol=1e-10)
    assert found.certificate_.exact_sums == exact


def test_a_stream_and_an_update_add_to_each_other(tmp_path: Path) -> None:
    X = matrix("float64")
    a, b, c = parts(X)
    wanted = SparseEncoder(2, n_nonzero=3, method="batch").fit(X)
    assert_equal(encoder_of().fit(a).partial_fit(b).update(c), wanted)
    assert_equal(encoder_of().partial_fit(a).update(b).partial_fit(c), wanted)
    save_encoder(encoder_of().partial_fit(a), tmp_path / "e.zarr")
    assert_equal(load_encoder(tmp_path / "e.zarr").partial_fit(b).update(c), wanted)
    counts = encoder_of(strategy="gram").fit(matrix("uint8")[:400]).partial_fit(matrix("uint8")[400:])
    assert_equal(counts, SparseEncoder(2, n_nonzero=3, method="batch", strategy="gram").fit(matrix("uint8")))


def test_a_sketch_of_a_stream_is_added_to(tmp_path: Path) -> None:
    X = matrix("float64")
    found = updated(X, tmp_path, strategy="stream")
    wanted = SparseEncoder(2, n_nonzero=3, method="batch", strategy="stream").fit(X)
    np.testing.assert_allclose(found.components_, wanted.components_, atol=1e-8)
    with pytest.raises(InvalidInput, match=r"forget=0\.5 .*strategy='gram' or 'tsqr'"):
        found.update(X[:5], forget=0.5)


def test_workers_of_a_cluster_add_the_rows(two_workers: Client, tmp_path: Path) -> None:
    X = matrix("uint8")
    old, new = zarr_array(tmp_path / "old.zarr", X[:500], (50, D)), zarr_array(tmp_path / "new.zarr", X[500:], (50, D))
    found = encoder_of(strategy="gram").fit(old).update(new)
    assert bits(found) == bits(encoder_of(strategy="gram").fit(X))


def test_the_record_lists_all_data(tmp_path: Path) -> None:
    X = matrix("float32")
    for name, rows in zip("abc", parts(X), strict=True):
        np.save(tmp_path / f"{name}.npy", rows)
    encoder = encoder_of().fit(str(tmp_path / "a.npy"))
    for name in "bc":
        encoder.update(str(tmp_path / f"{name}.npy"))
    save_encoder(encoder, tmp_path / "e.zarr")
    loaded = load_encoder(tmp_path / "e.zarr")
    listed = loaded.provenance_["parts"]
    assert [each["path"] for each in listed] == [str(tmp_path / f"{name}.npy") for name in "abc"]
    assert [each["n_rows"] for each in listed] == [400, 250, 250]
    assert loaded.provenance_["n_samples"] == loaded.n_samples_seen_ == N
    assert loaded.provenance_["shape"] == [N, D]
    assert loaded.certificate_.rows == encoder.certificate_.rows
    assert str(loaded.certificate_.rows).startswith("900: 400 of ")
    assert not hasattr(encoder, "plan_")


def test_many_parts_are_summed_in_the_certificate() -> None:
    X = matrix("float32")
    encoder = encoder_of(method="batch").fit(X[:400])
    for start in range(400, N, 100):
        encoder.update(X[start : start + 100])
    assert encoder.certificate_.rows == ("900: 400 of the array, 100 of the array, 300 of 3 updates, 100 of the array")


def test_nothing_is_stored_that_was_not_asked_for_and_readers_of_before_open_what_is(tmp_path: Path) -> None:
    X = matrix("uint8")
    save_encoder(SparseEncoder(2, n_nonzero=3, method="batch").fit(X), tmp_path / "plain.zarr")
    save_encoder(encoder_of().fit(X), tmp_path / "kept.zarr")
    plain, kept = (zarr.open_group(tmp_path / f"{name}.zarr", mode="r") for name in ("plain", "kept"))
    assert set(kept.array_keys()) - set(plain.array_keys()) == {"state"}
    assert set(kept.attrs) - set(plain.attrs) == {"state"}
    assert kept.attrs["format_version"] == 1
    assert "needs" not in kept.attrs
    np.testing.assert_array_equal(read_encoder(tmp_path / "kept.zarr").decoder, plain["decoder"][...])


def test_an_encoder_is_applied_without_its_state_being_read(tmp_path: Path) -> None:
    X = matrix("float32")
    save_encoder(encoder_of().fit(X), tmp_path / "e.zarr")
    shutil.rmtree(tmp_path / "e.zarr" / "state")
    encoder = load_encoder(tmp_path / "e.zarr")
    assert encoder.transform(X).shape == (N, 2)
    with pytest.raises(InvalidInput, match="'state' is missing"):
        encoder.update(X)


def test_a_damaged_state_is_refused(tmp_path: Path) -> None:
    X = matrix("float32")
    save_encoder(encoder_of().fit(X), tmp_path / "e.zarr")
    encoder = load_encoder(tmp_path / "e.zarr")
    array = zarr.open_array(tmp_path / "e.zarr" / "state", mode="r+")
    array[200] = array[200] ^ 1
    with pytest.raises(StorageError, match="'state' differs from what was written"):
        encoder.update(X)


@pytest.mark.parametrize(("name", "value"), [
    ("strategy", "paper"), ("strategy", 3), ("dtype", "elephant"), ("n_rows", None), ("exact_sums", True),
])  # fmt: skip
def test_a_record_that_lies_about_the_state_is_refused(name: str, value: Any, tmp_path: Path) -> None:
    save_encoder(encoder_of(strategy="gram").fit(matrix("float32").astype("float16")), tmp_path / "e.zarr")
    group = zarr.open_group(tmp_path / "e.zarr", mode="r+")
    more = {"dtype": "|u1"} if name == "exact_sums" else {}
    group.attrs["state"] = dict(group.attrs["state"]) | {name: value} | more
    with pytest.raises((InvalidInput, StorageError), match="is damaged"):
        load_encoder(tmp_path / "e.zarr").update(matrix("float32"))


def test_an_encoder_that_was_replaced_since_it_was_loaded_is_refused(tmp_path: Path) -> None:
    X = matrix("float32")
    save_encoder(encoder_of().fit(X[:500]), tmp_path / "e.zarr")
    loaded = load_encoder(tmp_path / "e.zarr")
    save_encoder(load_encoder(tmp_path / "e.zarr").update(X[500:]), tmp_path / "e.zarr", overwrite=True)
    with pytest.raises(InvalidInput, match="written again after it was loaded"):
        loaded.update(X[500:])


def test_it_is_pickled_with_its_state() -> None:
    X = matrix("float32")
    encoder = pickle.loads(pickle.dumps(encoder_of().fit(X[:500]))).update(X[500:])
    assert_equal(encoder, SparseEncoder(2, n_nonzero=3, method="batch").fit(X))


def test_refused_rows_leave_the_encoder_as_it_was() -> None:
    X = matrix("float64")
    encoder = encoder_of().fit(X[:500])
    before = bits(encoder)
    bad = X[500:].copy()
    bad[3, 2] = np.nan
    with pytest.raises(NonFiniteInput, match="row 3, column 2"):
        encoder.update(bad)
    with pytest.raises(InvalidInput, match="7 features"):
        encoder.update(X[:, :7])
    encoder.set_params(memory_limit="1 MB")
    with pytest.raises(MemoryBudgetExceeded):
        encoder.update(X[500:])
    assert bits(encoder) == before
    assert hasattr(encoder, "plan_")
    assert_equal(
        encoder.set_params(memory_limit=None).update(X[500:]), SparseEncoder(2, n_nonzero=3, method="batch").fit(X)
    )


def test_columns_of_other_names_are_refused(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    X = pandas.DataFrame(matrix("float32"), columns=list("abcdefgh"))
    encoder = encoder_of().fit(X[:500])
    with pytest.raises((InvalidInput, ValueError), match="feature names should match"):
        encoder.update(X[500:].rename(columns={"c": "z"}))
    assert_equal(encoder.update(X[500:]), SparseEncoder(2, n_nonzero=3, method="batch").fit(X))


@pytest.mark.parametrize("forget", [0, 1.5, -1, "half", True, np.nan, None])
def test_a_weight_that_is_none_is_refused(forget: Any) -> None:
    with pytest.raises(InvalidInput, match=r"forget=.* is not allowed: give a number above 0 and at most 1"):
        encoder_of().fit(matrix("float32")).update(matrix("float32"), forget=forget)


def test_a_weight_that_leaves_nothing_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"forget=0\.0001 leaves no weight to the 900 old rows"):
        encoder_of().fit(matrix("float32")).update(matrix("float32"), forget=1e-4)


def test_an_encoder_without_a_state_is_refused(tmp_path: Path) -> None:
    X = matrix("float32")
    encoder = SparseEncoder(2, n_nonzero=3, method="batch").fit(X)
    with pytest.raises(InvalidInput, match=r"keeps no state of its rows.*keep_state=True"):
        encoder.update(X)
    with pytest.raises(InvalidInput, match="this fit kept none"):
        save_encoder(encoder.set_params(keep_state=True), tmp_path / "e.zarr")


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"missing": "mean"}, "missing='mean' fills gaps with means of all rows"),
        ({"n_top_features": 4}, "n_top_features=4 compares variances of all rows"),
        ({"recipe": "normalize_total(median), log1p"}, "takes the median of all rows"),
        ({"covariates": np.arange(N)}, "covariates are removed by a fit to all rows"),
        ({"method": "doubly-sparse"}, "method='doubly-sparse' chooses among all rows"),
        ({"strategy": "sketch"}, "keeps no state to which rows can be added"),
        ({"strategy": "paper", "method": "batch"}, "keeps no state to which rows can be added"),
        ({"tolerance": 0.1}, "keeps no state to which rows can be added"),
        ({"keep_state": 1}, "keep_state=1 is not allowed"),
    ],
)
def test_fits_that_cannot_be_added_to_keep_no_state(more: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        encoder_of(**more).fit(np.abs(matrix("float32")))


def test_wide_data_take_a_core_where_a_sketch_would_be_cheaper() -> None:
    X = np.zeros((4000, 9000), dtype=np.float32)
    assert plan(X, 2, n_nonzero=3, memory_limit="64GB").strategy == "sketch"
    kept = plan(X, 2, n_nonzero=3, keep_state=True, calibrate=False, memory_limit="64GB")
    assert kept.strategy == "gram"
    with pytest.raises(MemoryBudgetExceeded, match="strategy='stream'"):
        plan(X, 2, n_nonzero=3, keep_state=True, calibrate=False, memory_limit="4GB")
