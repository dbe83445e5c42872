"""Columns that a fit divides are those of a scaled copy, whatever the divisors, the strategy and the door."""

from pathlib import Path
from typing import Any

import anndata as ad
import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp
import xarray as xr

from spae_dask import ColumnSelector, evaluate, load_encoder, plan
from spae_dask.errors import InvalidInput, NotFound, OtherCheckpoint
from spae_dask.estimators.saved import save_encoder
from spae_dask.report.reproduce import fit_command, python_lines
from spae_dask.scanpy import sparse_pca
from spae_dask.xarray import GridEncoder
from tests.estimators.sources import batch_encoder

DIVISORS = np.geomspace(0.2, 5.0, 12)


def genotypes(n: int = 300, d: int = 12) -> np.ndarray[Any, Any]:
    """Genotypes of three populations; column 4 is 0 throughout, and column 9 is 2."""
    rng = np.random.default_rng(5)
    share = rng.beta(0.8, 0.8, size=(3, d))
    x = rng.binomial(2, share[rng.integers(0, 3, n)]).astype(np.int8)
    x[:, 4], x[:, 9] = 0, 2
    return x


X = genotypes()


def scaled_copy(scale: Any, x: np.ndarray[Any, Any] = X) -> np.ndarray[Any, Any]:
    """The scaled matrix, made by hand in another way."""
    made = np.array(x, dtype=np.float64)
    for j in range(made.shape[1]):
        column = made[:, j].copy()
        if np.ptp(column) == 0:
            continue
        if isinstance(scale, str) and scale == "patterson":
            share = (np.sum(column == 1) + 2 * np.sum(column == 2)) / (2 * len(column))
            made[:, j] = column / np.sqrt(share * (1 - share))
        elif isinstance(scale, str) or scale is True:
            made[:, j] = column / column.std(ddof=1)
        else:
            made[:, j] = column / scale[j]
    return made


SCALES: list[Any] = ["std", "patterson", DIVISORS]


@pytest.mark.parametrize("strategy", ["gram", "tsqr", "sketch", "stream", "paper", "sample"])
@pytest.mark.parametrize("scale", SCALES, ids=["std", "patterson", "array"])
def test_the_encoder_is_that_of_a_scaled_copy(scale: Any, strategy: str) -> None:
    options: dict[str, Any] = {"n_nonzero": 4, "strategy": strategy, "method": "batch"}
    if strategy == "stream":  # as many rows as columns: nothing is estimated
        options |= {"sketch_rows": 200}
    made = batch_encoder(2, scale=scale, **options).fit(X)
    copy = scaled_copy(scale)
    wanted = batch_encoder(2, **options).fit(copy)
    assert made.certificate_.total == pytest.approx(wanted.certificate_.total, rel=1e-10)
    assert list(made.constant_features_) == [4, 9]
    centered = copy - copy.mean(axis=0)
    total = np.sum(centered**2)
    loss = total - np.sum((np.linalg.qr(centered @ made.components_.T)[0].T @ centered) ** 2)
    assert made.certificate_.loss == pytest.approx(loss, rel=1e-9)
    if strategy in ("gram", "tsqr", "sample"):
        assert made.certificate_.loss == pytest.approx(wanted.certificate_.loss, rel=1e-10)
        assert made.certificate_.pca_loss == pytest.approx(wanted.certificate_.pca_loss, rel=1e-10)
        np.testing.assert_allclose(made.components_, wanted.components_, atol=1e-10)
    np.testing.assert_allclose(made.transform(X), centered @ made.components_.T, atol=1e-10)
    assert evaluate(X, made).loss == pytest.approx(loss, rel=1e-9)


def test_a_flag_is_standard_deviations_and_no_further_read_is_planned(tmp_path: Path) -> None:
    flag = batch_encoder(2, n_nonzero=4, scale=True, checkpoint=tmp_path / "run").fit(X)
    named = batch_encoder(2, n_nonzero=4, scale="std", checkpoint=tmp_path / "run").fit(X)
    assert np.array_equal(flag.components_, named.components_)
    for scale in (False, *SCALES):
        assert len(plan(X, 2, n_nonzero=4, scale=scale, calibrate=False).passes) == 1
    for scale in (False, "patterson", DIVISORS):
        with pytest.raises(OtherCheckpoint, match="scale"):
            batch_encoder(2, n_nonzero=4, scale=scale, checkpoint=tmp_path / "run").fit(X)
    other = batch_encoder(2, n_nonzero=4, scale=DIVISORS, checkpoint=tmp_path / "array")
    other.fit(X)
    other.set_params(scale=DIVISORS.tolist()).fit(X)
    with pytest.raises(OtherCheckpoint, match="scale"):
        other.set_params(scale=DIVISORS * 2).fit(X)


@pytest.mark.parametrize("kind", ["csr", "dask", "uncentered", "stream", "missing"])
def test_any_rows_are_divided(kind: str) -> None:
    options: dict[str, Any] = {"n_nonzero": 4, "scale": "patterson"}
    wanted = batch_encoder(2, n_nonzero=4).fit(scaled_copy("patterson"))
    x: Any = {"csr": sp.csr_array(X), "dask": da.from_array(X, chunks=(70, 5))}.get(kind, X)
    if kind == "uncentered":
        options["center"] = False
        wanted = batch_encoder(2, n_nonzero=4, center=False).fit(scaled_copy("patterson"))
    if kind == "missing":
        x, options = np.array(X), options | {"missing_value": -1, "missing": "mean"}
        x[::7, 3] = -1
        copy = np.where(x == -1, np.nan, x)
        copy[:, 3] = np.where(np.isnan(copy[:, 3]), np.nanmean(copy[:, 3]), copy[:, 3])
        share = copy.mean(axis=0) / 2
        wanted = batch_encoder(2, n_nonzero=4).fit(copy / np.where(share % 1 == 0, 1, np.sqrt(share * (1 - share))))
    made = batch_encoder(2, **options)
    if kind == "stream":
        made.set_params(strategy="gram")
        for rows in np.array_split(x, 4):
            made.partial_fit(rows)
    else:
        made.fit(x)
    assert made.certificate_.loss == pytest.approx(wanted.certificate_.loss, rel=1e-10)


@pytest.mark.parametrize("strategy", ["gram", "tsqr", "sketch"])
@pytest.mark.parametrize("wrong", [-0.1, 2.1])
def test_means_of_no_genotypes_are_refused_by_column(strategy: str, wrong: float) -> None:
    x = X.astype(float)
    x[:, 6] = wrong
    with pytest.raises(InvalidInput, match=rf"genotypes from 0 to 2, but column 6 .* its mean is {wrong}\."):
        batch_encoder(2, n_nonzero=4, scale="patterson", strategy=strategy).fit(x)


def test_a_column_of_mean_0_that_varies_holds_no_genotypes() -> None:
    x = X.astype(float)
    x[:, 6] = np.where(np.arange(300) % 2, 1.0, -1.0)
    with pytest.raises(InvalidInput, match=r"column 6 .* its mean is 0\."):
        batch_encoder(2, n_nonzero=4, scale="patterson", strategy="tsqr").fit(x)
    x[:, 6] = 0.0
    x[3, 6] = 1e-300
    made = batch_encoder(2, n_nonzero=4, scale="patterson", strategy="tsqr").fit(x)
    assert np.isfinite(made.components_).all()


@pytest.mark.parametrize(
    ("scale", "words"),
    [
        ("sd", r"scale='sd' is not allowed: give True, False, 'std', 'patterson', a divisor"),
        (1, r"scale=1 is not allowed: give True"),
        (np.ones((2, 2)), r"is not allowed: give True"),
        (np.ones(7), r"give one divisor for each of the 12 columns \(n_features = 12\); these are 7"),
        ([1.0] * 11 + [0.0], r"scale=\(1\.0, .*\.\.\.\) is not allowed: give positive numbers"),
        ([1.0] * 11 + [np.nan], r"give positive numbers"),
        ([1.0] * 11 + ["a"], r"give positive numbers"),
    ],
)
@pytest.mark.parametrize(
    "door",
    [
        lambda scale: batch_encoder(2, n_nonzero=4, scale=scale).fit(X),
        lambda scale: plan(X, 2, n_nonzero=4, scale=scale),
        lambda scale: ColumnSelector(4, scale=scale).fit(X),
    ],
)
def test_what_gives_no_divisors_is_refused(scale: Any, words: str, door: Any) -> None:
    with pytest.raises(InvalidInput, match=words):
        door(scale)


def files_of(folder: Path) -> list[Path]:
    np.save(folder / "w.npy", DIVISORS)
    np.savetxt(folder / "column.csv", DIVISORS)
    np.savetxt(folder / "row.csv", DIVISORS[None], delimiter=",")
    return [folder / name for name in ("w.npy", "column.csv", "row.csv")]


def test_a_file_holds_the_divisors_and_a_saved_encoder_keeps_them(tmp_path: Path) -> None:
    wanted = batch_encoder(2, n_nonzero=4, scale=DIVISORS).fit(X)
    for file in files_of(tmp_path):
        made = batch_encoder(2, n_nonzero=4, scale=str(file)).fit(X)
        assert np.array_equal(made.scale_, wanted.scale_)
    for scale in (str(file), DIVISORS, "patterson", True):
        made = batch_encoder(2, n_nonzero=4, scale=scale).fit(X)
        save_encoder(made, tmp_path / "e.zarr", overwrite=True)
        loaded = load_encoder(tmp_path / "e.zarr")
        assert np.array_equal(loaded.transform(X), made.transform(X))
        again = batch_encoder(2, n_nonzero=4, scale=loaded.scale).fit(X)
        assert np.array_equal(again.components_, made.components_)
        lines = "\n".join(python_lines(loaded.get_params(), {"source": "x", "strategy": "gram"}))
        assert "scale=" in lines
        assert "--scale" in str(fit_command(loaded.get_params(), {"path": "/x.npy"}))
    (tmp_path / "bad.csv").write_text("a,b\n")
    np.save(tmp_path / "bad.npy", np.ones((3, 4)))
    np.save(tmp_path / "objects.npy", np.array([{}], dtype=object))
    for name, words in (("bad.csv", "no numbers"), ("bad.npy", r"shape \(3, 4\)"), ("objects.npy", "no numbers")):
        with pytest.raises(InvalidInput, match=words):
            batch_encoder(2, n_nonzero=4, scale=str(tmp_path / name)).fit(X)
    with pytest.raises(NotFound, match="scale names"):
        batch_encoder(2, n_nonzero=4, scale=str(tmp_path / "gone.npy")).fit(X)


def test_genes_are_divided_within_the_mask() -> None:
    adata = ad.AnnData(X.astype(np.float64))
    mask = np.arange(12) != 1
    sparse_pca(adata, 2, n_nonzero=4, method="batch", mask_var=mask, scale=DIVISORS[mask])
    wanted = batch_encoder(2, n_nonzero=4).fit(X[:, mask] / DIVISORS[mask])
    assert adata.uns["spae"]["loss"] == pytest.approx(wanted.certificate_.loss, rel=1e-10)


def test_cells_of_a_grid_are_divided_by_name_and_numbers_are_weights() -> None:
    grid = xr.DataArray(X.reshape(300, 3, 4).astype(float), dims=("time", "lat", "lon"), coords={"lat": [0, 30, 60]})
    weights = np.sqrt(np.cos(np.radians([0, 30, 60]))).repeat(4)
    wanted = batch_encoder(2, n_nonzero=4).fit(scaled_copy("patterson") * weights)
    made = GridEncoder(2, n_nonzero=4, method="batch", scale="patterson", weights="coslat").fit(grid)
    assert made.certificate_.loss == pytest.approx(wanted.certificate_.loss, rel=1e-10)
    made = GridEncoder(2, n_nonzero=4, method="batch", scale="patterson").fit(grid)
    wanted = batch_encoder(2, n_nonzero=4).fit(scaled_copy("patterson"))
    assert made.certificate_.loss == pytest.approx(wanted.certificate_.loss, rel=1e-10)
    with pytest.raises(InvalidInput, match="give weights"):
        GridEncoder(2, n_nonzero=4, method="batch", scale=DIVISORS).fit(grid)
