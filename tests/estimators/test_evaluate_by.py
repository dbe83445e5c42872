"""One read measures every part of the rows as an evaluation of that part alone does."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from distributed import Client

from spae_dask import SparseEncoder, evaluate, evaluate_by
from spae_dask.blocks import ArrayBlocks
from spae_dask.errors import InvalidInput, NonFiniteInput, NotFound
from spae_dask.passes.accumulators import Cut
from spae_dask.strategies.drift import ALL_ROWS, SAME_PART, Drift
from tests.estimators.sources import Watched, spread, zarr_array

N, D, K = 700, 9, 2
X = spread(np.random.default_rng(0), N, D)
X[450:, 4] += 3 * np.random.default_rng(1).standard_normal(N - 450)
LABELS = np.array(["b", "a", "c"])[np.random.default_rng(2).integers(0, 3, N)]


@pytest.fixture(scope="module")
def encoder() -> SparseEncoder:
    return SparseEncoder(K, n_nonzero=4, scale=True, effort=0).fit(X[:300])


def assert_parts(found: Drift, encoder: SparseEncoder, rows: dict[str, Any], x: Any = X, **more: Any) -> None:
    """Each part is what an evaluation of its rows alone gives."""
    assert [each.name for each in found.parts] == list(rows)
    for part in found.parts:
        alone = evaluate(x[rows[part.name]], encoder, **more)
        assert part.n_rows == x[rows[part.name]].shape[0]
        for name in ("loss", "decoder_loss", "pca_loss", "ratio", "total"):
            np.testing.assert_allclose(getattr(part, name), getattr(alone, name), rtol=1e-9, err_msg=name)


@pytest.mark.parametrize("strategy", ["gram", "tsqr"])
def test_equal_parts_are_those_of_their_rows_alone(strategy: str, encoder: SparseEncoder) -> None:
    found = evaluate_by(X, encoder, 4, strategy=strategy)
    rows = {f"rows {a}-{a + 174}": slice(a, a + 175) for a in range(0, N, 175)}
    assert_parts(found, encoder, rows, strategy=strategy)
    assert (found.reference, found.by) == (SAME_PART, "4")


def test_parts_of_uneven_numbers_of_rows_cover_them_all(encoder: SparseEncoder) -> None:
    found = evaluate_by(X, encoder, 9)
    counts = [each.n_rows for each in found.parts]
    assert (sum(counts), max(counts) - min(counts)) == (N, 1)
    np.testing.assert_allclose(sum(each.decoder_loss for each in found.parts), found.certificate.decoder_loss)
    np.testing.assert_allclose(sum(each.total for each in found.parts), found.certificate.total)


def test_the_certificate_is_that_of_an_evaluation(encoder: SparseEncoder) -> None:
    found, wanted = evaluate_by(X, encoder, 3).certificate, evaluate(X, encoder)
    for name in ("loss", "decoder_loss", "pca_loss", "ratio", "total", "symmetric_ratio"):
        np.testing.assert_allclose(getattr(found, name), getattr(wanted, name), rtol=1e-10)
    assert found.passes == 1


@pytest.mark.parametrize("strategy", ["gram", "tsqr"])
def test_labels_in_any_order_are_parts(strategy: str, encoder: SparseEncoder) -> None:
    found = evaluate_by(X, encoder, LABELS, strategy=strategy)
    assert_parts(found, encoder, {each: each == LABELS for each in "abc"}, strategy=strategy)


def test_labels_that_are_numbers_are_in_their_order(encoder: SparseEncoder) -> None:
    years = np.repeat([11.0, 9.0, 10.0, 100.0], N // 4)
    found = evaluate_by(X, encoder, years)
    assert_parts(found, encoder, {str(each): years == each for each in (9, 10, 11, 100)})


def test_shares_of_features_are_those_of_the_residuals(encoder: SparseEncoder) -> None:
    found = evaluate_by(X, encoder, 2)
    Y = (X - encoder.mean_) / encoder.scale_
    lost = (Y - Y @ encoder.components_.T @ encoder.decoder_) ** 2
    of_all = lost.sum(axis=0) / lost.sum()
    for part, rows in zip(found.parts, (lost[:350], lost[350:]), strict=True):
        share = rows.sum(axis=0) / rows.sum()
        order = [j for j in np.argsort(of_all - share) if share[j] > of_all[j]][:5]
        assert [each.column for each in part.features] == order
        np.testing.assert_allclose([each.share for each in part.features], share[order])
        np.testing.assert_allclose([each.share_of_all for each in part.features], of_all[order])
    assert found.parts[1].features[0].column == 4, "the column that drifts"
    assert "column 4 (" in str(found)


def test_sparse_rows_are_cut(encoder: SparseEncoder) -> None:
    x = np.where(np.random.default_rng(3).random(X.shape) < 0.7, 0, X)
    assert_parts(evaluate_by(sp.csr_array(x), encoder, LABELS), encoder, {each: each == LABELS for each in "abc"}, x)


def test_gaps_are_filled_in_each_part() -> None:
    x = X.copy()
    x[np.random.default_rng(4).random(X.shape) < 0.1] = np.nan
    encoder = SparseEncoder(K, n_nonzero=4, missing="mean", effort=0).fit(x[:300])
    assert_parts(evaluate_by(x, encoder, LABELS), encoder, {each: each == LABELS for each in "abc"}, x)
    with pytest.raises(NonFiniteInput):
        evaluate_by(x, SparseEncoder(K, n_nonzero=4).fit(X), 3)


def test_what_covariates_explain_is_taken_from_each_part() -> None:
    age = np.linspace(-1, 1, N)
    encoder = SparseEncoder(K, n_nonzero=4, covariates=age, effort=0).fit(X)
    found = evaluate_by(X, encoder, 2, covariates=age)
    removed = encoder.covariates_
    Y = X - (age[:, None] - removed.mean) @ removed.coefficients - encoder.mean_
    lost = (Y - Y @ encoder.components_.T @ encoder.decoder_) ** 2
    np.testing.assert_allclose([each.decoder_loss for each in found.parts], [lost[:350].sum(), lost[350:].sum()])


@pytest.mark.parametrize("strategy", ["sketch", "gram"])
def test_without_room_parts_are_compared_with_all_rows(
    strategy: str, encoder: SparseEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    if strategy == "gram":
        monkeypatch.setattr("spae_dask.estimators.evaluation.PCA_SECONDS", 0.0)
    found, whole = evaluate_by(X, encoder, 2, strategy=strategy), evaluate(X, encoder, strategy=strategy)
    assert found.reference == ALL_ROWS
    np.testing.assert_allclose(found.certificate.ratio, whole.ratio, rtol=1e-10)
    for part, rows in zip(found.parts, (slice(350), slice(350, N)), strict=True):
        alone = evaluate(X[rows], encoder)
        for name in ("loss", "decoder_loss", "total"):
            np.testing.assert_allclose(getattr(part, name), getattr(alone, name), rtol=1e-9)
        np.testing.assert_allclose(part.pca_loss, whole.pca_loss / 2, rtol=1e-9)
        np.testing.assert_allclose(part.ratio, 2 * alone.loss / whole.pca_loss, rtol=1e-9)


def test_parts_that_do_not_fit_in_memory_share_pca_of_all_rows() -> None:
    x = np.random.default_rng(0).standard_normal((4000, 300))
    encoder = SparseEncoder(K, n_nonzero=4, method="batch").fit(x)
    assert evaluate_by(x, encoder, 400, memory_limit="4GB").reference == SAME_PART
    assert evaluate_by(x, encoder, 400, memory_limit="600MB").reference == ALL_ROWS


def test_each_block_is_read_once(encoder: SparseEncoder) -> None:
    source = Watched(X, 50)
    evaluate_by(source, encoder, LABELS)
    assert sorted(source.reads) == list(range(14))


def test_workers_of_a_cluster_cut_the_rows(two_workers: Client, encoder: SparseEncoder, tmp_path: Path) -> None:
    found = evaluate_by(zarr_array(tmp_path / "x.zarr", X, (50, D)), encoder, LABELS)
    assert two_workers.status == "running"
    assert_parts(found, encoder, {each: each == LABELS for each in "abc"})


def test_a_column_of_a_table_that_is_named_is_no_data(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    frame = pandas.DataFrame(X, columns=[f"g{j}" for j in range(D)])
    encoder = SparseEncoder(K, n_nonzero=4, effort=0).fit(frame[:300])
    labelled = frame.assign(batch=LABELS)
    labelled.to_parquet(tmp_path / "x.parquet")
    for given in (labelled, str(tmp_path / "x.parquet")):
        found = evaluate_by(given, encoder, "batch")
        assert_parts(found, encoder, {each: each == LABELS for each in "abc"}, frame)
        assert found.by == "batch"
        assert all(str(feature.name).startswith("g") for part in found.parts for feature in part.features)
    own = evaluate_by(frame.assign(g3=np.repeat([0, 1], N // 2)), encoder, "g3")
    assert [each.name for each in own.parts] == ["0", "1"]
    with pytest.raises(NotFound, match="nobody"):
        evaluate_by(frame, encoder, "nobody")


@pytest.mark.parametrize(
    ("by", "words"),
    [
        (0, r"by=0 is not allowed: give a number of parts from 1 to 700"),
        (701, r"by=701 is not allowed"),
        ("-1", "must name columns"),
        (True, "by=True is not allowed"),
        (2.5, "by=2.5 is not allowed"),
        (np.arange(5), "has 5 values, but .* 700 rows"),
        (np.where(np.arange(N) == 3, np.nan, 1.0), "NaN.* in row 3"),
        (np.ones((N, 2)), "2 columns of labels are given"),
    ],
)
def test_parts_that_are_none_are_refused(by: Any, words: str, encoder: SparseEncoder) -> None:
    with pytest.raises(InvalidInput, match=words):
        evaluate_by(ArrayBlocks(X, 100), encoder, by)


@pytest.mark.parametrize(("first", "last"), [(0, 10), (0, 1), (3, 7), (9, 10), (4, 4), (2, 9)])
def test_parts_of_rows_are_those_of_their_codes(first: int, last: int) -> None:
    codes = np.array([2, 2, 0, 1, 1, 1, 0, 0, 2, 2])
    cut = Cut.by_codes(codes, 4)
    np.testing.assert_array_equal(cut.of_rows(first, last), codes[first:last])
    np.testing.assert_array_equal(cut.counts, [3, 3, 4, 0])
    assert cut.starts.size == 5
