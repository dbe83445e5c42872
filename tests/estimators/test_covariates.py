"""An encoder with covariates is that of least-squares residuals, wherever rows and covariates come from."""

import warnings
from pathlib import Path
from typing import Any

import anndata as ad
import dask.array as da
import h5py
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp
import zarr
from distributed import Client, LocalCluster
from sklearn.base import clone

from spae_dask import evaluate, load_encoder, open_matrix, plan
from spae_dask.errors import CovariatesExplainWarning, InvalidInput, NotFound, OtherCheckpoint, PrecisionWarning
from spae_dask.estimators.covariates import read_covariates
from spae_dask.estimators.reporting import curve_from_data, write_report
from spae_dask.estimators.saved import save_encoder
from spae_dask.estimators.writing import transform_to_zarr
from spae_dask.passes.events import RowsDone
from spae_dask.report.reproduce import fit_command, python_lines
from tests.estimators.sources import batch_encoder

N, D = 600, 24
RNG = np.random.default_rng(7)
BATCH = np.array(["b", "a", "c"])[RNG.integers(0, 3, N)]
AGE = RNG.normal(50, 9, N)
OBS = {"batch": BATCH, "age": AGE}
NAMES = [f"g{j}" for j in range(D)]


def residuals(X: Any, *columns: Any) -> Any:
    """Residuals of least squares on some columns and a constant."""
    Z = np.column_stack([np.ones(len(X)), *columns])
    return X - Z @ np.linalg.lstsq(Z, X, rcond=None)[0]


def levels(labels: Any) -> Any:
    return np.column_stack([labels == each for each in np.unique(labels)[1:]]).astype(float)


def correlated() -> Any:
    X = RNG.normal(size=(N, 4)) @ RNG.normal(size=(4, D)) + 0.4 * RNG.normal(size=(N, D)) + 3
    X += RNG.normal(size=(3, D))[np.unique(BATCH, return_inverse=True)[1]] + np.outer(AGE - 50, RNG.normal(size=D)) / 9
    return X


X = correlated()
R = residuals(X, levels(BATCH), AGE)
SPARSE = sp.csr_array(np.where(RNG.random((N, D)) < 0.2, np.abs(X), 0))
KINDS = ["numpy", "csr", "zarr", "dask", "h5ad"]


@pytest.fixture(params=KINDS)
def given(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Any, Any]:
    """Data of each kind, and as an array."""
    if request.param in ("csr", "h5ad"):
        rows = SPARSE.toarray()
        if request.param == "csr":
            return SPARSE, rows
        ad.AnnData(sp.csr_matrix(SPARSE)).write_h5ad(tmp_path / "x.h5ad")
        return str(tmp_path / "x.h5ad"), rows
    if request.param == "zarr":
        zarr.create_array(tmp_path / "x.zarr", data=X, chunks=(37, 9))
        return str(tmp_path / "x.zarr"), X
    return (X if request.param == "numpy" else da.from_array(X, chunks=(50, 9))), X


@pytest.mark.parametrize("scale", [False, True])
@pytest.mark.parametrize("strategy", ["gram", "tsqr", "sketch"])
def test_the_encoder_is_that_of_the_residuals(given: tuple[Any, Any], strategy: str, scale: bool) -> None:
    data, rows = given
    left = residuals(rows, levels(BATCH), AGE)
    options: dict[str, Any] = {"n_nonzero": 4, "strategy": strategy, "scale": scale, "method": "batch"}
    wanted = batch_encoder(3, **options).fit(left)
    found = batch_encoder(3, covariates=OBS, **options).fit(data)
    mine, other = found.certificate_, wanted.certificate_
    assert mine.loss == pytest.approx(other.loss, rel=1e-10)
    assert mine.total == pytest.approx(other.total, rel=1e-10)
    # of a sketch, a certified bound with the rounding of the products
    assert mine.pca_loss == pytest.approx(other.pca_loss, rel=1e-6 if strategy == "sketch" else 1e-10)
    assert mine.passes == other.passes
    np.testing.assert_allclose(found.components_, wanted.components_, atol=1e-9)
    np.testing.assert_allclose(found.scale_, wanted.scale_, rtol=1e-10)
    np.testing.assert_allclose(found.mean_, rows.mean(axis=0), rtol=1e-9)
    codes = left / found.scale_ @ found.components_.T
    np.testing.assert_allclose(np.asarray(found.transform(data, covariates=OBS)), codes, atol=1e-9)
    assert evaluate(data, found, covariates=OBS).decoder_loss == pytest.approx(mine.loss, rel=1e-9)
    assert found.score(data, covariates=OBS) == pytest.approx(mine.explained, rel=1e-9)


def test_a_large_batch_effect_changes_nothing() -> None:
    half = np.arange(N) < N // 2
    effect = 100 * RNG.normal(size=D)
    for strategy, rel in (("gram", 1e-9), ("tsqr", 1e-12), ("sketch", 1e-9)):
        made = [
            batch_encoder(3, n_nonzero=4, strategy=strategy, covariates=half).fit(rows)
            for rows in (X, X + np.outer(half, effect))
        ]
        assert made[1].certificate_.loss == pytest.approx(made[0].certificate_.loss, rel=rel)
        assert np.array_equal(made[0].selected_features_, made[1].selected_features_)
    plain = batch_encoder(3, n_nonzero=4).fit(X + np.outer(half, effect))
    assert plain.certificate_.total > 10 * made[1].certificate_.total


@pytest.mark.parametrize("strategy", ["gram", "tsqr"])
def test_few_rows_and_many_columns(strategy: str) -> None:
    wide = RNG.normal(size=(40, 1100)) + np.outer(np.arange(40) % 2, np.ones(1100))
    labels = (np.arange(40) % 2).astype(str)
    found = batch_encoder(2, n_nonzero=3, strategy=strategy, covariates=labels).fit(wide)
    wanted = batch_encoder(2, n_nonzero=3, strategy="tsqr").fit(residuals(wide, levels(labels)))
    assert found.certificate_.loss == pytest.approx(wanted.certificate_.loss, rel=1e-9)
    assert found.certificate_.pca_loss == pytest.approx(wanted.certificate_.pca_loss, rel=1e-9)


def test_collinear_covariates_are_cut_to_their_rank() -> None:
    columns = np.column_stack([AGE, 2 * AGE - 3, np.full(N, 4.0), AGE + 1e5])
    found = batch_encoder(2, n_nonzero=4, covariates=columns).fit(X)
    alone = batch_encoder(2, n_nonzero=4, covariates=AGE).fit(X)
    assert found.certificate_.loss == pytest.approx(alone.certificate_.loss, rel=1e-9)
    np.testing.assert_allclose(found.transform(X, covariates=columns), alone.transform(X, covariates=AGE), atol=1e-7)
    nothing = batch_encoder(2, n_nonzero=4, covariates=np.full(N, "only")).fit(X)
    assert nothing.certificate_.loss == pytest.approx(batch_encoder(2, n_nonzero=4).fit(X).certificate_.loss, rel=1e-9)


@pytest.mark.parametrize("strategy", ["gram", "tsqr", "sketch"])
@pytest.mark.parametrize("scale", [False, True])
def test_columns_that_covariates_explain_are_left_out_with_a_warning(strategy: str, scale: bool) -> None:
    rows = X.copy()
    rows[:, 5] = 3 * AGE + (BATCH == "a")
    encoder = batch_encoder(2, n_nonzero=4, strategy=strategy, covariates=OBS, scale=scale)
    with pytest.warns(CovariatesExplainWarning, match="1 column.* to rounding: 5"):
        encoder.fit(rows)
    assert 5 in encoder.constant_features_
    wanted = batch_encoder(2, n_nonzero=4, strategy=strategy, scale=scale)
    rest = np.where(np.arange(D) == 5, 0, residuals(rows, levels(BATCH), AGE))
    assert encoder.certificate_.loss == pytest.approx(wanted.fit(rest).certificate_.loss, rel=1e-8)


def test_cancellation_is_in_the_error_of_the_loss() -> None:
    far = X + np.outer(AGE, np.linspace(1e4, 1e5, D))
    with pytest.warns(PrecisionWarning, match="strategy='tsqr'"):
        gram = batch_encoder(2, n_nonzero=4, strategy="gram", covariates=AGE).fit(far)
    exact = batch_encoder(2, n_nonzero=4, covariates=AGE).fit(X).certificate_.loss
    tsqr = batch_encoder(2, n_nonzero=4, strategy="tsqr", covariates=AGE).fit(far)
    assert abs(gram.certificate_.loss - gram.certificate_.loss_error) <= exact * 1.1
    assert tsqr.certificate_.loss == pytest.approx(exact, rel=1e-6)
    assert tsqr.certificate_.loss_error < gram.certificate_.loss_error / 100


@pytest.mark.parametrize("size", [1.0, 1e3, 1e5])
@pytest.mark.parametrize("strategy", ["gram", "tsqr", "sketch"])
def test_the_loss_errs_by_no_more_than_it_says(strategy: str, size: float) -> None:
    rows = X + size * np.outer(AGE, np.sin(np.arange(D)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        encoder = batch_encoder(2, n_nonzero=4, strategy=strategy, covariates=OBS).fit(rows)
    # residuals in extended precision: the rows themselves are rounded to float64
    wide = rows.astype(np.longdouble)
    Z = np.column_stack([np.ones(N), levels(BATCH), AGE]).astype(np.longdouble)
    basis = np.empty((N, 0), dtype=np.longdouble)
    for column in Z.T:
        for _ in range(2):
            column = column - basis @ (basis.T @ column)
        basis = np.column_stack([basis, column / np.sqrt(column @ column)])
    for _ in range(2):
        wide = wide - basis @ (basis.T @ wide)
    H, G = encoder.components_.T, encoder.decoder_
    loss = float(np.sum((wide - wide @ H @ G) ** 2))
    found = encoder.certificate_
    # its own decoder is the best one to rounding, and loses no less
    assert abs(found.loss - loss) <= found.loss_error
    assert found.loss_error < 1e-6 * loss * size**2


@pytest.mark.parametrize("strategy", ["gram", "sketch"])
@pytest.mark.parametrize("rows", [X.astype(np.float32), SPARSE.astype(np.float32)], ids=["dense", "sparse"])
def test_products_in_float32_remove_them_too(strategy: str, rows: Any) -> None:
    options: dict[str, Any] = {"n_nonzero": 4, "strategy": strategy, "covariates": OBS, "method": "batch"}
    exact = batch_encoder(2, **options).fit(rows).certificate_
    fast = batch_encoder(2, precision="fast", **options).fit(rows).certificate_
    assert fast.loss == pytest.approx(exact.loss, rel=1e-4)
    assert fast.loss_error >= exact.loss_error


@pytest.mark.parametrize("dtype", ["uint8", "int32", "bool"])
def test_whole_numbers_leave_residuals_that_are_none(dtype: Any) -> None:
    rows = np.clip(10 * X, 0, 200).astype(dtype) if dtype != "bool" else X > 3
    found = batch_encoder(2, n_nonzero=4, covariates=OBS, strategy="gram").fit(rows)
    left = residuals(rows.astype(float), levels(BATCH), AGE)
    wanted = batch_encoder(2, n_nonzero=4, strategy="gram").fit(left)
    assert found.certificate_.loss == pytest.approx(wanted.certificate_.loss, rel=1e-10)
    assert not found.certificate_.exact_sums


def test_missing_entries_are_filled_before_covariates_are_removed() -> None:
    gappy = X.copy()
    gappy[RNG.random(X.shape) < 0.05] = np.nan
    filled = np.where(np.isnan(gappy), np.nanmean(gappy, axis=0), gappy)
    for strategy in ("gram", "tsqr", "sketch"):
        options: dict[str, Any] = {"n_nonzero": 4, "strategy": strategy, "method": "batch"}
        found = batch_encoder(2, covariates=OBS, missing="mean", **options).fit(gappy)
        wanted = batch_encoder(2, **options).fit(residuals(filled, levels(BATCH), AGE))
        assert found.certificate_.loss == pytest.approx(wanted.certificate_.loss, rel=1e-9)
        assert found.score(gappy, covariates=OBS) == pytest.approx(found.certificate_.explained, rel=1e-9)


def test_without_covariates_nothing_is_new(tmp_path: Path) -> None:
    encoder = batch_encoder(2, n_nonzero=4).fit(X)
    assert not hasattr(encoder, "covariates_")
    save_encoder(encoder, tmp_path / "e.zarr")
    group = zarr.open_group(tmp_path / "e.zarr")
    assert group.attrs["format_version"] == 1
    assert "covariates" not in {*group.attrs, *group.attrs["parameters"], *group.attrs["provenance"]}
    assert not [key for key in group if "covariate" in key]
    with pytest.raises(InvalidInput, match="was fitted without"):
        encoder.transform(X, covariates=AGE)


# where they come from


def numbers_of(given: Any, x: Any = None) -> list[tuple[str, Any, Any]]:
    source = open_matrix(X)
    return [(each.name, each.levels, each.values.tolist()) for each in read_covariates(given, x, source)]


@pytest.mark.parametrize(
    "labels",
    [
        BATCH,
        BATCH.astype(object),
        BATCH.astype("S"),
        BATCH.astype(np.dtypes.StringDType()),
        pd.Series(BATCH),
        pd.Series(BATCH, dtype="string"),
        pd.Categorical(BATCH, ["x", "c", "b", "a"]),
        pl.Series(BATCH),
        pl.Series(BATCH, dtype=pl.Categorical),
        pa.array(BATCH.tolist()),
    ],
    ids=lambda labels: f"{type(labels).__module__} {getattr(labels, 'dtype', '')}",
)
def test_labels_of_any_kind_are_the_same(labels: Any) -> None:
    ((_, found, codes),) = numbers_of(labels)
    assert found == ("a", "b", "c")
    assert [found[code] for code in codes] == BATCH.tolist()


def test_values_of_any_shape_are_the_same() -> None:
    for table in (pd.DataFrame(OBS), pl.DataFrame(OBS), pa.table({"batch": BATCH.tolist(), "age": AGE})):
        assert numbers_of(table) == numbers_of(OBS)
    ((_, _, first), (_, _, second)) = numbers_of(np.column_stack([AGE, AGE**2]))
    assert first == AGE.tolist()
    assert second == (AGE**2).tolist()
    ((_, found, _),) = numbers_of({"C(day)": np.arange(N) % 7})
    assert found == tuple("0123456")
    ((_, found, _),) = numbers_of(pd.Series(pd.Categorical(np.arange(N) % 7)))
    assert found == tuple("0123456")
    ((_, found, _),) = numbers_of(AGE > 50)
    assert found == ("False", "True")


def stored(kind: str, folder: Path) -> Any:
    """The rows with their covariates by name."""
    obs = pd.DataFrame({"batch": pd.Categorical(BATCH), "age": AGE, "text": BATCH}, index=[f"c{i}" for i in range(N)])
    adata = ad.AnnData(sp.csr_matrix(SPARSE), obs=obs, var=pd.DataFrame(index=NAMES))
    frame = pd.DataFrame(SPARSE.toarray(), columns=NAMES).assign(batch=BATCH, age=AGE)
    if kind == "anndata":
        return adata
    if kind == "frame":
        return frame
    path = folder / f"x.{kind}"
    if kind in ("h5ad", "backed"):
        adata.write_h5ad(folder / "x.h5ad")
        return ad.read_h5ad(folder / "x.h5ad", backed="r") if kind == "backed" else folder / "x.h5ad"
    if kind == "zarr":
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # anndata's, about what will be its default
            adata.write_zarr(path)
    elif kind == "parquet":
        frame.to_parquet(path, row_group_size=100)
    elif kind == "arrow":
        frame.to_feather(path)
    else:
        frame.to_csv(path, index=False)
    return path


@pytest.mark.parametrize("kind", ["anndata", "backed", "h5ad", "zarr", "frame", "parquet", "arrow", "csv"])
def test_names_are_looked_up_where_the_rows_are(kind: str, tmp_path: Path) -> None:
    data = stored(kind, tmp_path)
    wanted = batch_encoder(2, n_nonzero=4, covariates=OBS).fit(SPARSE)
    for names in ("batch,age", ["batch", "age"]):
        encoder = batch_encoder(2, n_nonzero=4, covariates=names).fit(data)
        assert encoder.certificate_.loss == pytest.approx(wanted.certificate_.loss, rel=1e-9)
        assert encoder.feature_names_in_.tolist() == NAMES
        assert "removes what 2 covariate(s) explain" in str(plan(data, 2, n_nonzero=4, covariates=names))
    save_encoder(encoder, tmp_path / "e.zarr", source=data)
    loaded = load_encoder(tmp_path / "e.zarr")
    assert loaded.covariates == ["batch", "age"]
    assert zarr.open_group(tmp_path / "e.zarr").attrs["format_version"] == 2
    codes = np.asarray(wanted.transform(SPARSE, covariates=OBS))
    for each in (encoder, loaded):
        np.testing.assert_allclose(np.asarray(each.transform(data)), codes, atol=1e-9)
    assert evaluate(data, loaded).decoder_loss == pytest.approx(wanted.certificate_.loss, rel=1e-9)
    assert loaded.score(data) == pytest.approx(wanted.certificate_.explained, rel=1e-9)
    np.testing.assert_allclose(np.asarray(clone(encoder).fit_transform(data)), codes, atol=1e-9)
    with pytest.raises(NotFound, match=r"batch"):
        batch_encoder(2, n_nonzero=4, covariates="bach").fit(data)


def test_views_have_the_covariates_of_their_rows(tmp_path: Path) -> None:
    kept = np.flatnonzero(RNG.random(N) < 0.7)
    obs = {name: values[kept] for name, values in OBS.items()}
    wanted = batch_encoder(2, n_nonzero=4, covariates=obs).fit(SPARSE[kept]).certificate_.loss
    for kind in ("anndata", "backed"):
        view = stored(kind, tmp_path)[kept]
        found = batch_encoder(2, n_nonzero=4, covariates="batch,age").fit(view)
        assert found.certificate_.loss == pytest.approx(wanted, rel=1e-9)


@pytest.mark.parametrize("kind", ["csv", "npy"])
def test_a_file_holds_values(kind: str, tmp_path: Path) -> None:
    path = tmp_path / f"z.{kind}"
    if kind == "csv":
        pd.DataFrame(OBS).to_csv(path, index=False)
    else:
        np.save(path, np.column_stack([*levels(BATCH).T, AGE]))
    encoder = batch_encoder(2, n_nonzero=4, covariates=str(path)).fit(X)
    wanted = batch_encoder(2, n_nonzero=4, covariates=OBS).fit(X)
    assert encoder.certificate_.loss == pytest.approx(wanted.certificate_.loss, rel=1e-10)
    with pytest.raises(InvalidInput, match="Give those of these rows"):
        encoder.transform(X)  # other rows may have other covariates
    np.testing.assert_allclose(
        encoder.transform(X, covariates=str(path)), wanted.transform(X, covariates=OBS), atol=1e-9
    )


def test_values_are_remembered_by_their_names_alone(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", X)
    encoder = batch_encoder(2, n_nonzero=4, covariates=OBS).fit(tmp_path / "x.npy")
    save_encoder(encoder, tmp_path / "e.zarr", source=tmp_path / "x.npy")
    loaded = load_encoder(tmp_path / "e.zarr")
    assert loaded.covariates is None
    assert loaded.covariates_.names == ("batch", "age")
    assert loaded.covariates_.levels == (("a", "b", "c"), None)
    assert np.array_equal(loaded.transform(X, covariates=OBS), encoder.transform(X, covariates=OBS))
    with pytest.raises(InvalidInput, match=r"\(batch, age\).*--covariates"):
        loaded.transform(X)
    assert fit_command(loaded.get_params(), loaded.provenance_) is None
    assert any("covariates=z" in line for line in python_lines(loaded.get_params(), loaded.provenance_))
    write_report(loaded, "e.zarr", tmp_path / "r.html")
    assert "covariates removed" in (tmp_path / "r.html").read_text()
    with pytest.raises(InvalidInput, match="values of covariates"):
        curve_from_data(loaded, open_matrix(str(tmp_path / "x.npy")))
    found, _ = curve_from_data(encoder, open_matrix(str(tmp_path / "x.npy")))
    assert found.points[-1].loss <= encoder.certificate_.loss * 1.01


def test_names_make_the_same_fit_again(tmp_path: Path) -> None:
    path = stored("h5ad", tmp_path)
    encoder = batch_encoder(2, n_nonzero=4, covariates=["batch", "age"]).fit(path)
    save_encoder(encoder, tmp_path / "e.zarr", source=path)
    loaded = load_encoder(tmp_path / "e.zarr")
    assert "--covariates batch,age" in str(fit_command(loaded.get_params(), loaded.provenance_))
    curve, origin = curve_from_data(loaded, open_matrix(str(path)))
    assert curve.points[-1].loss <= encoder.certificate_.loss * 1.01
    assert "not the data of the fit" not in origin
    report = transform_to_zarr(path, loaded, tmp_path / "codes.zarr")
    assert report.rows_verified == N
    np.testing.assert_allclose(zarr.open(tmp_path / "codes.zarr")[:], encoder.transform(path), atol=1e-6)


def test_new_covariates_are_known_by_their_names() -> None:
    values = {"height": RNG.normal(size=N), "age": AGE}
    encoder = batch_encoder(2, n_nonzero=4, covariates=values).fit(X)
    codes = encoder.transform(X, covariates=values)
    assert np.array_equal(encoder.transform(X, covariates=dict(reversed(values.items()))), codes)
    assert np.array_equal(encoder.transform(X, covariates=np.column_stack([*values.values()])), codes)
    assert not np.array_equal(encoder.transform(X, covariates=np.column_stack([*values.values()])[:, ::-1]), codes)
    with pytest.raises(InvalidInput, match="the covariates height, age, and 1 are given: age"):
        encoder.transform(X, covariates={"age": AGE})
    for each in (values, pd.DataFrame(values), AGE):
        assert "covariates=" in repr(batch_encoder(covariates=each))


def test_names_with_commas_stand_in_quotes() -> None:
    frame = pd.DataFrame(X, columns=NAMES).assign(**{"age, in years": AGE})
    wanted = batch_encoder(2, n_nonzero=4, covariates=AGE).fit(X).certificate_.loss
    for given in ('"age, in years"', ["age, in years"]):
        found = batch_encoder(2, n_nonzero=4, covariates=given).fit(frame)
        assert found.certificate_.loss == pytest.approx(wanted, rel=1e-12)
    command = fit_command({"n_components": 2, "n_nonzero": 4, "covariates": ["age, in years"]}, {"path": "/x.csv"})
    assert """--covariates '"age, in years"'""" in str(command)


@pytest.mark.parametrize("layout", ["records", "categories beside", "nullable"])
def test_obs_of_every_layout_is_read(layout: str, tmp_path: Path) -> None:
    path, index = tmp_path / "x.h5ad", np.array([f"c{i}".encode() for i in range(N)])
    codes = np.unique(BATCH, return_inverse=True)[1].astype("i1")
    names = np.array([name.encode() for name in NAMES])
    with h5py.File(path, "w") as file:
        file["X"] = X
        if layout == "records":
            obs = np.zeros(N, dtype=[("index", "S8"), ("batch", "i1"), ("age", "f8")])
            obs["index"], obs["batch"], obs["age"] = index, codes, AGE
            file["obs"], file["uns/batch_categories"] = obs, np.array([b"a", b"b", b"c"])
        else:
            file["obs/_index"] = index
            if layout == "nullable":
                group = file.create_group("obs/age")
                group.attrs["encoding-type"] = "nullable-integer"
                group["values"], group["mask"] = np.round(AGE).astype(int), np.arange(N) == 4
                file["obs/batch"] = BATCH.astype("S")
            else:
                file["obs/batch"], file["obs/__categories/batch"] = codes, np.array([b"a", b"b", b"c"])
                file["obs/age"] = AGE
        var = np.zeros(D, dtype=[("index", "S8")])
        var["index"] = names
        file["var"] = var
    encoder = batch_encoder(2, n_nonzero=4, covariates="batch,age")
    if layout == "nullable":
        with pytest.raises(InvalidInput, match=r"'age' is NaN or infinite in row 4\."):
            encoder.fit(path)
        encoder.set_params(covariates="batch")
    found = encoder.fit(path)
    assert found.covariates_.levels[0] == ("a", "b", "c")
    given = OBS if layout != "nullable" else {"batch": BATCH}
    wanted = batch_encoder(2, n_nonzero=4, covariates=given).fit(X)
    assert found.certificate_.loss == pytest.approx(wanted.certificate_.loss, rel=1e-9)


def test_lazy_codes_are_those_of_their_rows() -> None:
    encoder = batch_encoder(2, n_nonzero=4, covariates=OBS).fit(X)
    lazy = da.from_array(X, chunks=((100, 250, 250), (10, 14)))
    codes = encoder.transform(lazy, covariates=OBS)
    assert isinstance(codes, da.Array)
    np.testing.assert_allclose(codes.compute(), encoder.transform(X, covariates=OBS), atol=1e-12)
    other = {"batch": BATCH, "age": AGE + 1}
    assert encoder.transform(lazy, covariates=other).name != codes.name
    unknown = lazy[da.from_array(np.ones(N, dtype=bool), chunks=100)]
    with pytest.raises(InvalidInput, match="chunks of unknown length"):
        encoder.transform(unknown, covariates=OBS)


# what is refused


def test_labels_that_the_fit_has_not_seen_are_named() -> None:
    encoder = batch_encoder(2, n_nonzero=4, covariates={"batch": BATCH}).fit(X)
    other = BATCH.astype(object)
    other[7] = "zeta"
    with pytest.raises(InvalidInput, match=r"'batch' has labels that the fit has not seen: 'zeta'.*'a', 'b', 'c'"):
        encoder.transform(X, covariates={"batch": other})
    few = encoder.transform(X[:3], covariates=np.array(["b"] * 3))
    assert few.shape == (3, 2)


@pytest.mark.parametrize(
    ("covariates", "words"),
    [
        (np.where(np.arange(N) == 11, np.nan, AGE), r"NaN or infinite in row 11\."),
        (np.where(np.arange(N) == 11, None, BATCH), r"missing in row 11\."),
        (
            pd.Series(np.where(np.arange(N) > 500, None, BATCH), name="batch"),
            r"'batch' is missing in row 501, and in 98 more",
        ),
        (pd.Series([1, None] * (N // 2), dtype="Int64"), r"NaN or infinite in row 1, and in 299 more"),
        (pd.Series(["a", None] * (N // 2), dtype="string"), r"missing in row 1, and in 299 more"),
        (AGE[:-1], r"599 values, but .* 600 rows"),
        (AGE.reshape(N, 1, 1), "3 dimensions"),
        (np.array([f"cell {i}" for i in range(N)]), None),
        (AGE.astype(complex), "neither numbers nor labels"),
        (pd.date_range("2020", periods=N), "neither numbers nor labels"),
        ("batch", "columns of AnnData's obs or of a table"),
        (object(), "covariates=.* is not allowed"),
        ("batch,", "covariates='batch,' is not allowed"),
    ],
    ids=lambda given: given if isinstance(given, str) else type(given).__name__,
)
def test_what_is_no_covariate_is_refused(covariates: Any, words: str | None) -> None:
    encoder = batch_encoder(2, n_nonzero=4, covariates=covariates)
    if words is None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert encoder.fit(X).certificate_.loss == pytest.approx(0, abs=1e-6)  # a label for each row
        return
    with pytest.raises(InvalidInput, match=words):
        encoder.fit(X)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"strategy": "stream"}, r"strategy='stream' cannot do this: it cannot remove covariates"),
        ({"strategy": "sample"}, r"strategy='sample' cannot do this: it cannot remove covariates"),
        ({"tolerance": 0.1}, r"strategy='sample' cannot do this: it cannot remove covariates"),
        ({"strategy": "paper"}, r"strategy='paper' cannot do this: it cannot remove covariates"),
        ({"strategy": "sketch", "certified": True}, "it cannot remove covariates.*without.*certified=True"),
        ({"method": "doubly-sparse"}, "method='doubly-sparse' makes a decoder of rows"),
        ({"center": False}, "center=False and covariates contradict each other"),
    ],
    ids=str,
)
def test_what_cannot_remove_covariates_says_so_before_any_read(options: dict[str, Any], words: str) -> None:
    class Unread:
        shape, dtype, bounds, read_nbytes, in_process = (N, D), np.dtype("f8"), (0, N), 0, True

        def read(self, i: int) -> Any:
            raise AssertionError("read")

        def describe(self) -> str:
            return "unread"

    with pytest.raises(InvalidInput, match=words):
        batch_encoder(2, n_nonzero=6, covariates=AGE, **options).fit(Unread())


def test_a_stream_takes_none() -> None:
    with pytest.raises(InvalidInput, match="partial_fit cannot remove covariates"):
        batch_encoder(2, n_nonzero=4, covariates=AGE).partial_fit(X)


def test_wide_integers_are_refused_beside_them() -> None:
    wide = (X * 1000).astype(np.int64) + 2**60
    with pytest.raises(InvalidInput, match=r"beyond 2\*\*53"):
        batch_encoder(2, n_nonzero=4, covariates=AGE).fit(wide)


# clusters and checkpoints


@pytest.mark.parametrize("strategy", ["gram", "tsqr", "sketch"])
def test_workers_of_a_cluster_give_the_same_bits(strategy: str, tmp_path: Path) -> None:
    zarr.create_array(tmp_path / "x.zarr", data=X, chunks=(37, 9))
    encoder = batch_encoder(2, n_nonzero=4, strategy=strategy, covariates=OBS)
    here = clone(encoder).fit(tmp_path / "x.zarr")
    with LocalCluster(2, processes=False, threads_per_worker=1, dashboard_address=":0") as cluster, Client(cluster):
        there = encoder.fit(tmp_path / "x.zarr")
        codes = there.transform(tmp_path / "x.zarr", covariates=OBS).compute()
    assert "dask workers" in there.plan_.resources.where
    assert there.components_.tobytes() == here.components_.tobytes()
    assert there.covariates_.coefficients.tobytes() == here.covariates_.coefficients.tobytes()
    np.testing.assert_allclose(codes, here.transform(X, covariates=OBS), atol=1e-9)


@pytest.mark.parametrize("strategy", ["gram", "sketch"])
def test_a_checkpoint_resumes_to_the_same_bits_and_knows_its_covariates(strategy: str, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", X)
    options: dict[str, Any] = {"n_nonzero": 4, "strategy": strategy}
    plain = batch_encoder(2, covariates=OBS, **options).fit(tmp_path / "x.npy")
    first = batch_encoder(2, covariates=OBS, checkpoint=tmp_path / "run", **options).fit(tmp_path / "x.npy")
    seen: list[Any] = []
    again = clone(first).set_params(progress=seen.append).fit(tmp_path / "x.npy")
    assert not [event for event in seen if isinstance(event, RowsDone)]
    for each in (first, again):
        assert each.components_.tobytes() == plain.components_.tobytes()
        assert each.covariates_.coefficients.tobytes() == plain.covariates_.coefficients.tobytes()
    for others in ({"batch": BATCH, "age": AGE + np.eye(N)[9]}, {"batch": BATCH[::-1], "age": AGE}, None):
        with pytest.raises(OtherCheckpoint, match="covariates"):
            clone(first).set_params(covariates=others).fit(tmp_path / "x.npy")
    evaluated = evaluate(tmp_path / "x.npy", plain, covariates=OBS, checkpoint=tmp_path / "second")
    assert evaluate(tmp_path / "x.npy", plain, covariates=OBS, checkpoint=tmp_path / "second").loss == evaluated.loss
    with pytest.raises(OtherCheckpoint, match="covariates"):
        evaluate(tmp_path / "x.npy", plain, covariates=OBS | {"age": -AGE}, checkpoint=tmp_path / "second")


def test_a_plan_prices_more_columns() -> None:
    wide = RNG.normal(size=(50, 400))
    bare = plan(wide, 2, n_nonzero=4, strategy="gram", calibrate=False)
    labels = (np.arange(50) % 25).astype(str)
    more = plan(wide, 2, n_nonzero=4, strategy="gram", covariates=labels, calibrate=False)
    assert more.passes[0].state_nbytes > bare.passes[0].state_nbytes * (424 / 400) ** 2 * 0.99
    assert len(more.passes) == len(bare.passes)
