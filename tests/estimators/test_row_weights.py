"""A row of weight w counts as w rows, wherever rows and weights come from. The oracle repeats the rows."""

from pathlib import Path
from typing import Any

import anndata as ad
import dask.array as da
import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
import xarray as xr
import zarr
from distributed import Client, LocalCluster
from sklearn import config_context
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from spae_dask import SparseEncoder, evaluate, load_encoder, plan
from spae_dask.errors import InvalidInput, NotFound, OtherCheckpoint
from spae_dask.estimators.evaluation import evaluate_by
from spae_dask.estimators.paths import fit_path
from spae_dask.estimators.reporting import curve_from_data, write_report
from spae_dask.estimators.saved import save_encoder
from spae_dask.passes.events import PassStarted
from spae_dask.report.reproduce import fit_command, python_lines
from spae_dask.scanpy import sparse_pca
from spae_dask.storage.open import open_matrix
from spae_dask.xarray import GridEncoder

N, D = 400, 24
RNG = np.random.default_rng(11)
X = RNG.normal(size=(N, 4)) @ RNG.normal(size=(4, D)) + 0.4 * RNG.normal(size=(N, D)) + 3
SPARSE = sp.csr_array(np.where(RNG.random((N, D)) < 0.3, np.abs(X), 0))
COUNTS = RNG.integers(0, 5, N)
NAMES = [f"g{j}" for j in range(D)]
STRATEGIES = ["gram", "tsqr", "sketch"]
KINDS = ["numpy", "csr", "zarr", "dask", "h5ad", "int8"]


@pytest.fixture(params=KINDS)
def given(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Any, Any]:
    """Data of each kind, and as an array."""
    if request.param in ("csr", "h5ad"):
        if request.param == "csr":
            return SPARSE, SPARSE.toarray()
        ad.AnnData(sp.csr_matrix(SPARSE)).write_h5ad(tmp_path / "x.h5ad")
        return str(tmp_path / "x.h5ad"), SPARSE.toarray()
    if request.param == "zarr":
        zarr.create_array(tmp_path / "x.zarr", data=X, chunks=(37, 9))
        return str(tmp_path / "x.zarr"), X
    if request.param == "int8":
        return np.rint(5 * X).astype(np.int8), np.rint(5 * X)
    return (X if request.param == "numpy" else da.from_array(X, chunks=(50, 9))), X


def assert_same(found: Any, wanted: Any, *, rel: float = 1e-10) -> None:
    """Same encoder, about the same means, and same losses; after a sketch, which is of other rows, one as good."""
    mine, other = found.certificate_, wanted.certificate_
    assert mine.total == pytest.approx(other.total, rel=rel)
    assert mine.passes == other.passes
    if mine.pca_loss_kind == "estimate":
        assert mine.loss <= 1.1 * other.loss
        assert mine.pca_loss == pytest.approx(other.pca_loss, rel=1e-6)
    else:
        assert mine.loss == pytest.approx(other.loss, rel=rel)
        assert mine.pca_loss == pytest.approx(other.pca_loss, rel=rel)
        np.testing.assert_allclose(found.components_, wanted.components_, atol=1e-7)
    np.testing.assert_allclose(found.mean_, wanted.mean_, rtol=1e-9)
    np.testing.assert_allclose(found.scale_, wanted.scale_, rtol=1e-9)


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
@pytest.mark.parametrize("options", [{}, {"scale": True}, {"center": False}], ids=str)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_whole_weights_repeat_rows(given: tuple[Any, Any], strategy: str, options: dict[str, Any]) -> None:
    data, rows = given
    encoder = SparseEncoder(3, n_nonzero=4, strategy=strategy, method="batch", **options)
    repeated = np.repeat(rows, COUNTS, axis=0)
    wanted = SparseEncoder(3, n_nonzero=4, strategy=strategy, method="batch", **options).fit(repeated)
    assert_same(encoder.fit(data, sample_weight=COUNTS), wanted)
    assert encoder.n_samples_seen_ == N
    assert encoder.certificate_.total_weight == COUNTS.sum()
    assert f"the weights sum to {COUNTS.sum()}" in str(encoder.certificate_)
    assert not encoder.certificate_.exact_sums
    alone = evaluate(repeated, encoder)
    assert encoder.certificate_.loss == pytest.approx(alone.decoder_loss, rel=1e-9)
    weighed = evaluate(data, encoder, row_weights=COUNTS)
    assert weighed.decoder_loss == pytest.approx(alone.decoder_loss, rel=1e-9)
    assert weighed.pca_loss == pytest.approx(alone.pca_loss, rel=1e-9)
    assert weighed.total_weight == COUNTS.sum()
    assert encoder.score(data, sample_weight=COUNTS) == pytest.approx(encoder.score(repeated), rel=1e-9)


@pytest.mark.parametrize("strategy", ["tsqr", "gram", "sketch"])
def test_few_rows_and_many_columns(strategy: str) -> None:
    wide = RNG.normal(size=(40, 3)) @ RNG.normal(size=(3, 1100)) + RNG.normal(size=(40, 1100))
    counts = np.arange(40) % 3
    encoder = SparseEncoder(2, n_nonzero=3, strategy=strategy, method="batch")
    wanted = SparseEncoder(2, n_nonzero=3, strategy=strategy, method="batch").fit(np.repeat(wide, counts, axis=0))
    found = encoder.fit(wide, sample_weight=counts)
    assert found.certificate_.loss == pytest.approx(wanted.certificate_.loss, rel=1e-9)
    assert found.certificate_.pca_loss == pytest.approx(wanted.certificate_.pca_loss, rel=1e-6)


def test_a_certified_bound_holds_for_weighted_rows() -> None:
    encoder = SparseEncoder(2, n_nonzero=4, method="batch", strategy="sketch", certified=True).fit(
        X, sample_weight=COUNTS
    )
    exact = SparseEncoder(2, n_nonzero=4, method="batch").fit(np.repeat(X, COUNTS, axis=0)).certificate_
    assert encoder.certificate_.pca_loss_kind == "certified lower bound"
    assert encoder.certificate_.pca_loss <= exact.pca_loss * (1 + 1e-12)
    assert encoder.certificate_.pca_loss_upper >= exact.pca_loss * (1 - 1e-12)
    evaluated = evaluate(X, encoder, strategy="sketch", row_weights=COUNTS)
    assert evaluated.decoder_loss == pytest.approx(encoder.certificate_.loss, rel=1e-9)


@pytest.mark.parametrize("rows", [X, X.astype(np.float32), SPARSE, X[:30, :]], ids=["f8", "f4", "csr", "few"])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_weights_of_one_leave_the_bits_as_they_are(rows: Any, strategy: str) -> None:
    plain = SparseEncoder(2, n_nonzero=4, method="batch", strategy=strategy).fit(rows)
    ones = SparseEncoder(2, n_nonzero=4, method="batch", strategy=strategy, row_weights=np.ones(rows.shape[0])).fit(
        rows
    )
    assert ones.components_.tobytes() == plain.components_.tobytes()
    assert ones.decoder_.tobytes() == plain.decoder_.tobytes()
    assert ones.certificate_.loss == plain.certificate_.loss
    assert plain.certificate_.total_weight is None


@pytest.mark.parametrize("factor", [1e-30, 1e-3, 7.5, 1e30])
@pytest.mark.parametrize("options", [{}, {"scale": True}], ids=str)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_factor_of_all_weights_chooses_the_same_features(
    strategy: str, options: dict[str, Any], factor: float
) -> None:
    encoder = SparseEncoder(3, n_nonzero=4, strategy=strategy, method="batch", **options)
    one, other = encoder.fit(X, sample_weight=COUNTS).components_, encoder.fit(X, sample_weight=factor * COUNTS)
    np.testing.assert_allclose(other.components_, one, atol=1e-9)
    if not options:
        first = SparseEncoder(3, n_nonzero=4, strategy=strategy, method="batch").fit(X, sample_weight=COUNTS)
        assert other.certificate_.loss == pytest.approx(factor * first.certificate_.loss, rel=1e-9)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_rows_of_weight_zero_change_nothing_however_large(strategy: str) -> None:
    strange = np.where((COUNTS == 0)[:, None], 1e12, X)
    encoder = SparseEncoder(3, n_nonzero=4, strategy=strategy, method="batch")
    wanted = SparseEncoder(3, n_nonzero=4, strategy=strategy, method="batch").fit(np.repeat(X, COUNTS, axis=0))
    assert_same(encoder.fit(strange, sample_weight=COUNTS), wanted, rel=1e-9)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_large_mean_costs_no_digits(strategy: str) -> None:
    far = X + 1e6
    encoder = SparseEncoder(3, n_nonzero=4, strategy=strategy, method="batch")
    found = encoder.fit(far, sample_weight=COUNTS).certificate_
    codes = (far - 1e6 - np.average(far - 1e6, axis=0, weights=COUNTS)) @ encoder.components_.T
    near = far - 1e6 - np.average(far - 1e6, axis=0, weights=COUNTS)
    left = near - codes @ encoder.decoder_
    assert found.loss == pytest.approx(float(COUNTS @ np.sum(left**2, axis=1)), rel=1e-8)
    assert found.loss_error < 1e-7 * found.loss


def test_weights_that_are_no_whole_numbers_minimise_the_weighted_loss() -> None:
    weights = RNG.gamma(1.0, size=N)
    found = SparseEncoder(2, n_nonzero=4, method="batch", row_weights=weights).fit(X)
    mean = weights @ X / weights.sum()
    codes = (X - mean) @ found.components_.T
    root = np.sqrt(weights)[:, None]
    decoder = np.linalg.lstsq(root * codes, root * (X - mean), rcond=None)[0]
    np.testing.assert_allclose(found.decoder_, decoder, atol=1e-9)
    left = X - mean - codes @ decoder
    assert found.certificate_.loss == pytest.approx(float(weights @ np.sum(left**2, axis=1)), rel=1e-10)
    spectrum = np.linalg.svd(root * (X - mean), compute_uv=False)
    assert found.certificate_.pca_loss == pytest.approx(float(np.sum(spectrum[2:] ** 2)), rel=1e-10)


@pytest.mark.parametrize("missing", ["mean", "zero"])
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("sparse", [False, True])
def test_gaps_are_filled_with_weighted_means(missing: str, strategy: str, sparse: bool) -> None:
    gappy = (SPARSE.toarray() if sparse else X).copy()
    gappy[RNG.random(X.shape) < 0.05] = np.nan
    options: dict[str, Any] = {"n_nonzero": 4, "strategy": strategy, "method": "batch", "missing": missing}
    found = SparseEncoder(2, row_weights=COUNTS, **options).fit(sp.csr_array(gappy) if sparse else gappy)
    assert_same(found, SparseEncoder(2, **options).fit(np.repeat(gappy, COUNTS, axis=0)))
    wanted = np.nanmean(np.repeat(gappy, COUNTS, axis=0), axis=0) if missing == "mean" else np.zeros(D)
    np.testing.assert_allclose(found.fill_, wanted, atol=1e-12)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("scale", [False, True])
def test_covariates_are_removed_by_weighted_least_squares(strategy: str, scale: bool) -> None:
    batch, age = np.array(["a", "b", "c"])[RNG.integers(0, 3, N)], RNG.normal(50, 9, N)
    options: dict[str, Any] = {"n_nonzero": 4, "strategy": strategy, "method": "batch", "scale": scale}
    found = SparseEncoder(2, covariates={"batch": batch, "age": age}, row_weights=COUNTS, **options).fit(X)
    again = {"batch": np.repeat(batch, COUNTS), "age": np.repeat(age, COUNTS)}
    assert_same(found, SparseEncoder(2, covariates=again, **options).fit(np.repeat(X, COUNTS, axis=0)), rel=1e-9)


@pytest.mark.parametrize("missing", ["error", "zero"])
def test_the_columns_of_largest_weighted_variance_are_used(missing: str) -> None:
    weights = np.where(X[:, 0] > X[:, 0].mean(), 9, 0)
    gappy = X.copy()
    if missing == "zero":
        gappy[::7, 3] = np.nan
    found = SparseEncoder(2, n_nonzero=3, method="batch", n_top_features=9, missing=missing, row_weights=weights).fit(
        gappy
    )
    repeated = np.repeat(gappy, weights, axis=0)
    wanted = SparseEncoder(2, n_nonzero=3, method="batch", n_top_features=9, missing=missing).fit(repeated)
    assert found.top_features_.tolist() == wanted.top_features_.tolist()
    plain = SparseEncoder(2, n_nonzero=3, method="batch", n_top_features=9, missing=missing).fit(gappy)
    assert plain.top_features_.tolist() != wanted.top_features_.tolist(), "else the weights decide nothing here"


def test_a_recipe_makes_the_rows_that_are_weighed() -> None:
    counts = np.random.default_rng(0).poisson(np.exp(X / 4)).astype(np.float32)
    options: dict[str, Any] = {"n_nonzero": 4, "recipe": "normalize_total(100), log1p"}
    found = SparseEncoder(2, **options).fit(counts, sample_weight=COUNTS)
    assert_same(found, SparseEncoder(2, **options).fit(np.repeat(counts, COUNTS, axis=0)))
    median = SparseEncoder(2, n_nonzero=4, method="batch", recipe="normalize_total(median), log1p", row_weights=COUNTS)
    with pytest.raises(InvalidInput, match=r"Give the target as a number"):
        median.fit(counts)


# where they come from


def stored(kind: str, folder: Path) -> Any:
    """The rows with their weights by name."""
    obs = pd.DataFrame({"w": COUNTS}, index=[f"c{i}" for i in range(N)])
    adata = ad.AnnData(X.copy(), obs=obs, var=pd.DataFrame(index=NAMES))
    frame = pd.DataFrame(X, columns=NAMES).assign(w=COUNTS)
    if kind in ("anndata", "h5ad"):
        if kind == "h5ad":
            adata.write_h5ad(folder / "x.h5ad")
        return adata if kind == "anndata" else folder / "x.h5ad"
    if kind in ("frame", "polars"):
        return frame if kind == "frame" else pl.DataFrame(frame)
    if kind == "xarray":
        return xr.DataArray(X, dims=("time", "cell"), coords={"w": ("time", COUNTS)})
    path = folder / f"x.{kind}"
    frame.to_parquet(path) if kind == "parquet" else frame.to_csv(path, index=False)
    return path


@pytest.mark.parametrize("kind", ["anndata", "h5ad", "frame", "polars", "parquet", "csv", "xarray"])
def test_a_name_is_looked_up_where_the_rows_are(kind: str, tmp_path: Path) -> None:
    data = stored(kind, tmp_path)
    wanted = SparseEncoder(2, n_nonzero=4, method="batch").fit(np.repeat(X, COUNTS, axis=0))
    encoder = SparseEncoder(2, n_nonzero=4, method="batch", row_weights="w").fit(data)
    assert_same(encoder, wanted)
    assert_same(SparseEncoder(2, n_nonzero=4, method="batch").fit(data, sample_weight="w"), wanted)
    assert "weighs rows, in the read" in str(plan(data, 2, n_nonzero=4, row_weights="w"))
    save_encoder(encoder, tmp_path / "e.zarr", source=data)
    loaded = load_encoder(tmp_path / "e.zarr")
    assert loaded.row_weights == "w"
    assert loaded.certificate_ == encoder.certificate_
    for each in (encoder, loaded):
        assert np.asarray(each.transform(data)).shape == (N, 2)
        assert evaluate(data, each, row_weights="w").decoder_loss == pytest.approx(wanted.certificate_.loss, rel=1e-9)
    if kind != "xarray":
        assert encoder.feature_names_in_.tolist() == NAMES
    with pytest.raises(NotFound, match="weigth"):
        SparseEncoder(2, n_nonzero=4, method="batch", row_weights="weigth").fit(data)


def test_a_column_that_holds_weights_of_new_rows_is_no_data_either(tmp_path: Path) -> None:
    encoder = SparseEncoder(2, n_nonzero=4, method="batch").fit(pd.DataFrame(X, columns=NAMES))
    weighed = evaluate(stored("frame", tmp_path), encoder, row_weights="w")
    assert weighed.decoder_loss == pytest.approx(
        evaluate(pd.DataFrame(np.repeat(X, COUNTS, axis=0), columns=NAMES), encoder).decoder_loss, rel=1e-9
    )
    assert encoder.score(stored("csv", tmp_path), sample_weight="w") == pytest.approx(
        1 - weighed.decoder_loss / weighed.total
    )


@pytest.mark.parametrize("kind", ["npy", "csv"])
def test_a_file_holds_them(kind: str, tmp_path: Path) -> None:
    path = tmp_path / f"w.{kind}"
    np.save(path, COUNTS) if kind == "npy" else pd.DataFrame({"w": COUNTS}).to_csv(path, index=False)
    assert_same(
        SparseEncoder(2, n_nonzero=4, method="batch", row_weights=str(path)).fit(X),
        SparseEncoder(2, n_nonzero=4, method="batch", row_weights=COUNTS).fit(X),
    )


def test_chosen_rows_keep_their_weights(tmp_path: Path) -> None:
    path = stored("h5ad", tmp_path)
    kept = COUNTS > 1
    found = SparseEncoder(2, n_nonzero=4, method="batch", row_weights="w").fit(open_matrix(path, rows="w > 1"))
    assert_same(found, SparseEncoder(2, n_nonzero=4, method="batch").fit(np.repeat(X[kept], COUNTS[kept], axis=0)))


@pytest.mark.parametrize(
    "weights",
    [COUNTS.tolist(), COUNTS.astype(np.uint8), COUNTS.astype(np.float32), pd.Series(COUNTS), COUNTS.reshape(N, 1)],
    ids=["list", "uint8", "float32", "series", "column"],
)
def test_numbers_of_any_kind_are_weights(weights: Any) -> None:
    wanted = SparseEncoder(2, n_nonzero=4, method="batch").fit(X, sample_weight=COUNTS).certificate_
    assert SparseEncoder(2, n_nonzero=4, method="batch").fit(X, sample_weight=weights).certificate_ == wanted


def with_row(value: float) -> Any:
    return np.where(np.arange(N) == 7, value, 1.0)


@pytest.mark.parametrize(
    ("weights", "words"),
    [
        (with_row(-1), r"the row weight is -1 in row 7"),
        (with_row(np.nan), r"is nan in row 7"),
        (with_row(np.inf), r"is inf in row 7"),
        (np.zeros(N), "zero in all rows"),
        (np.ones(N - 1), r"has 399 values, but .* has 400 rows"),
        (np.ones((N, 2)), "have 2 columns"),
        (np.array(["heavy"] * N), "holds <U5"),
        ("w", "columns of AnnData's obs or of a table"),
        (3.0, "row_weights=3.0 is not allowed"),
        ("", "row_weights='' is not allowed"),
        ([True, "x"], "is not allowed"),
    ],
    ids=lambda given: given if isinstance(given, str) else None,
)
def test_what_is_no_weight_is_refused_before_the_read(weights: Any, words: str) -> None:
    read: list[Any] = []
    encoder = SparseEncoder(2, n_nonzero=4, method="batch", row_weights=weights, progress=read.append)
    with pytest.raises(InvalidInput, match=words):
        encoder.fit(X)
    assert not any(isinstance(each, PassStarted) for each in read)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"strategy": "stream"}, "it cannot weigh rows"),
        ({"strategy": "sample"}, "it cannot weigh rows"),
        ({"strategy": "paper"}, "it cannot weigh rows"),
        ({"tolerance": 0.1}, "it cannot weigh rows"),
        ({"method": "doubly-sparse"}, "cannot weigh them"),
        ({"precision": "fast"}, "precision='fast'"),
        ({"folds": 4}, "folds=4 measure losses on rows that all count the same"),
        ({"folds": 4, "fold_groups": COUNTS}, "folds=4 measure losses"),
        ({"n_components": "cv", "folds": 4}, "folds=4 measure losses"),
        ({"keep_state": True}, "keep_state=True stores sums .* row weights are those of the rows of one fit"),
    ],
    ids=str,
)
def test_fits_that_cannot_weigh_rows_say_so_before_they_read(options: dict[str, Any], words: str) -> None:
    read: list[Any] = []
    given = {"n_components": 2, "n_nonzero": 4, "progress": read.append} | options
    with pytest.raises(InvalidInput, match=words):
        SparseEncoder(**given, row_weights=COUNTS).fit(X)
    with pytest.raises(InvalidInput, match=words):
        SparseEncoder(**given).fit(X, sample_weight=COUNTS)
    assert not any(isinstance(each, PassStarted) for each in read)


def test_a_path_with_folds_weighs_no_rows() -> None:
    with pytest.raises(InvalidInput, match="folds=4 measure losses"):
        fit_path(open_matrix(X), [2], [4], method="polished", folds=4, row_weights=COUNTS)


@pytest.mark.parametrize("strategy", ["gram", "stream"])
def test_an_update_weighs_no_rows(strategy: str) -> None:
    read: list[Any] = []
    encoder = SparseEncoder(2, n_nonzero=4, method="batch", strategy=strategy, keep_state=strategy == "gram").fit(X)
    loss = encoder.certificate_.loss
    encoder.set_params(row_weights=COUNTS, progress=read.append)
    for add in (encoder.update, encoder.partial_fit):
        with pytest.raises(InvalidInput, match="row weights"):
            add(X)
    assert not any(isinstance(each, PassStarted) for each in read)
    assert encoder.certificate_.loss == loss
    with pytest.raises(InvalidInput, match="keeps no state"):
        SparseEncoder(2, n_nonzero=4, method="batch").fit(X, sample_weight=COUNTS).update(X)


def test_rules_and_panels_hold_for_weighted_rows() -> None:
    options: dict[str, Any] = {"n_features": 5, "exclude": [0, 1], "include": [7], "method": "polished"}
    wanted = SparseEncoder(3, n_nonzero=3, **options).fit(np.repeat(X, COUNTS, axis=0))
    found = SparseEncoder(3, n_nonzero=3, row_weights=COUNTS, **options).fit(X)
    assert found.certificate_.loss == pytest.approx(wanted.certificate_.loss, rel=1e-9)
    used = np.flatnonzero(found.components_.any(axis=0))
    assert used.tolist() == np.flatnonzero(wanted.components_.any(axis=0)).tolist()
    assert not {0, 1} & set(used.tolist())


def test_columns_beside_the_data_are_those_of_all_parameters() -> None:
    frame = pd.DataFrame(X, columns=NAMES).assign(w=COUNTS, age=RNG.normal(size=N), donor=COUNTS)
    fitted = SparseEncoder(2, n_nonzero=4, method="batch", row_weights="w", covariates="age").fit(
        frame.drop(columns="donor")
    )
    assert fitted.feature_names_in_.tolist() == NAMES
    assert evaluate_by(frame, fitted, "donor").certificate.loss > 0
    all_columns = SparseEncoder(2, n_nonzero=4, method="batch").fit(frame)
    assert evaluate(frame, all_columns, row_weights="w").total_weight == COUNTS.sum()


def test_batches_have_no_weights() -> None:
    with pytest.raises(InvalidInput, match="partial_fit cannot weigh rows"):
        SparseEncoder(2, n_nonzero=4, method="batch", row_weights=COUNTS).partial_fit(X)


def test_one_of_the_two_names_is_given() -> None:
    with pytest.raises(InvalidInput, match="Leave out one of them"):
        SparseEncoder(2, n_nonzero=4, method="batch", row_weights=COUNTS).fit(X, sample_weight=COUNTS)


# beside all that is not a fit


def test_scikit_learn_routes_them() -> None:
    with config_context(enable_metadata_routing=True):
        encoder = SparseEncoder(2, n_nonzero=4, method="batch").set_fit_request(sample_weight=True)
        scaler = StandardScaler().set_fit_request(sample_weight=False)
        model = make_pipeline(scaler, encoder).fit(X, sample_weight=COUNTS)
        plain = StandardScaler().fit_transform(X)
        assert_same(model[-1], SparseEncoder(2, n_nonzero=4, method="batch").fit(np.repeat(plain, COUNTS, axis=0)))
        left = make_pipeline(scaler, SparseEncoder(2, n_nonzero=4, method="batch").set_fit_request(sample_weight=False))
        assert left.fit(X).steps[-1][1].certificate_.total_weight is None


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_checkpoint_is_of_its_weights(strategy: str, tmp_path: Path) -> None:
    options: dict[str, Any] = {"n_nonzero": 4, "method": "batch", "strategy": strategy, "checkpoint": tmp_path / "run"}
    first = SparseEncoder(2, row_weights=COUNTS, **options).fit(X)
    read: list[Any] = []
    again = SparseEncoder(2, row_weights=COUNTS, progress=read.append, **options).fit(X)
    assert again.certificate_ == first.certificate_
    for others in (COUNTS + 1, None):
        with pytest.raises(OtherCheckpoint, match="row_weights"):
            SparseEncoder(2, row_weights=others, **options).fit(X)


def test_a_checkpoint_of_an_evaluation_is_of_its_weights(tmp_path: Path) -> None:
    encoder = SparseEncoder(2, n_nonzero=4, method="batch").fit(X)
    evaluate(X, encoder, row_weights=COUNTS, checkpoint=tmp_path / "run")
    with pytest.raises(OtherCheckpoint, match="row_weights"):
        evaluate(X, encoder, checkpoint=tmp_path / "run")


def test_workers_weigh_rows_to_the_same_bits(tmp_path: Path) -> None:
    zarr.create_array(tmp_path / "x.zarr", data=X, chunks=(37, 9))
    encoder = SparseEncoder(2, n_nonzero=4, method="batch", row_weights=COUNTS)
    alone = encoder.fit(str(tmp_path / "x.zarr")).components_
    place = LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0", processes=False)
    with place as cluster, Client(cluster):
        assert encoder.fit(str(tmp_path / "x.zarr")).components_.tobytes() == alone.tobytes()


def test_encoders_of_many_sizes_weigh_rows() -> None:
    found = fit_path(open_matrix(X), [2], [3, 5], method="batch", row_weights=COUNTS)
    wanted = fit_path(open_matrix(np.repeat(X, COUNTS, axis=0)), [2], [3, 5], method="batch")
    for mine, other in zip(found.points, wanted.points, strict=True):
        assert mine.loss == pytest.approx(other.loss, rel=1e-10)
    tiny = SparseEncoder(2, n_nonzero=4, method="batch", row_weights=COUNTS * 1e-9).fit(X)
    assert tiny.sparsity_path([2], [4]).points[0].loss == pytest.approx(tiny.certificate_.loss)


def test_a_record_says_that_rows_were_weighed(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", X)
    encoder = SparseEncoder(2, n_nonzero=4, method="batch").fit(str(tmp_path / "x.npy"), sample_weight=COUNTS)
    save_encoder(encoder, tmp_path / "e.zarr")
    loaded = load_encoder(tmp_path / "e.zarr")
    record = loaded.provenance_
    assert record["row_weights"] == "given as values"
    assert fit_command(loaded.get_params(), record) is None
    assert "row_weights=w" in "\n".join(python_lines(loaded.get_params(), record))
    write_report(loaded, "e", tmp_path / "r.html")
    page = (tmp_path / "r.html").read_text()
    assert "Losses are weighted sums over rows." in page
    with pytest.raises(InvalidInput, match="values of row weights"):
        curve_from_data(loaded, open_matrix(str(tmp_path / "x.npy")))


def test_single_cells_have_weights_by_name() -> None:
    adata = stored("anndata", Path())
    sparse_pca(adata, 2, n_nonzero=4, method="batch", row_weights="w")
    wanted = SparseEncoder(2, n_nonzero=4, method="batch").fit(np.repeat(X, COUNTS, axis=0))
    np.testing.assert_allclose(adata.varm["spae"], wanted.components_.T, atol=1e-7)
    assert adata.uns["spae"]["loss"] == pytest.approx(wanted.certificate_.loss, rel=1e-9)


@pytest.mark.parametrize("lazy", [False, True])
def test_months_count_by_their_days(lazy: bool, tmp_path: Path) -> None:
    times = pd.date_range("2001-01-01", periods=120, freq="MS")
    grid = xr.DataArray(X[:120].reshape(120, 4, 6), dims=("time", "lat", "lon"), coords={"time": times})
    days = times.days_in_month.to_numpy()
    repeated = xr.DataArray(np.repeat(grid.values, days, axis=0), dims=("time", "lat", "lon"))
    wanted = GridEncoder(2, n_nonzero=4, method="batch").fit(repeated, sample_dim="time")
    given = grid.transpose("lat", "time", "lon")
    for weights in ("time.days_in_month", days, grid["time.days_in_month"]):
        found = GridEncoder(2, n_nonzero=4, method="batch", row_weights=weights).fit(
            given.chunk() if lazy else given, sample_dim="time"
        )
        assert found.certificate_.loss == pytest.approx(wanted.certificate_.loss, rel=1e-10)
    found.set_params(row_weights="time.days_in_month").fit(given, sample_dim="time")
    found.save(tmp_path / "e.zarr")
    assert GridEncoder.load(tmp_path / "e.zarr").row_weights == "time.days_in_month"
    with pytest.raises(InvalidInput, match="scale=True, weights and row_weights"):
        GridEncoder(2, n_nonzero=4, row_weights=days, scale=True, weights=xr.ones_like(grid[0])).fit(grid, "time")
