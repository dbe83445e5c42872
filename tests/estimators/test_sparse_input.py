"""Sparse input of every kind gives the encoder of the dense matrix, at a cost in proportion to what is stored."""

from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray

from spae_dask import ColumnSelector, SparseEncoder, evaluate, open_matrix, plan
from spae_dask.errors import NonFiniteInput
from spae_dask.estimators.applying import encode_rows
from spae_dask.estimators.checking import check
from spae_dask.estimators.writing import transform_to_zarr
from spae_dask.maths.encoders.codes import RowEncoder
from tests.estimators.sources import batch_encoder
from tests.oracles import encoder_loss, pca_loss
from tests.storage.anndata_stores import anndata_store, csr_store

NAMES = [f"gene-{j}" for j in range(30)]


def counts(n: int = 1500, d: int = 30, dtype: str = "float32") -> NDArray[Any]:
    """Counts of three programs, about a twentieth of them not zero."""
    rng = np.random.default_rng(4)
    rates = rng.gamma(0.3, 1.0, (n, 3)) @ (rng.gamma(1.0, 1.0, (3, d)) * (rng.random((3, d)) < 0.3))
    return rng.poisson(0.15 * rates).astype(dtype)


X = counts()


def lazy(x: NDArray[Any]) -> da.Array:
    return da.from_array(x, chunks=(400, 30)).map_blocks(sp.csr_array, meta=sp.csr_array((0, 0), dtype=x.dtype))


def sources(folder: Path, x: NDArray[Any]) -> dict[str, Any]:
    return {
        "scipy": sp.csr_array(x),
        "dask": lazy(x),
        "group": csr_store(folder / "x", sp.csr_array(x), chunk=500, pointer_chunk=400),
        "anndata": anndata_store(folder / "a.zarr", sp.csr_array(x), NAMES),
    }


KINDS = ("scipy", "dask", "group", "anndata")


def test_the_counts_are_sparse() -> None:
    assert 0.02 < np.count_nonzero(X) / X.size < 0.1


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("strategy", ["gram", "tsqr", "paper"])
def test_the_encoder_and_its_losses_are_those_of_the_dense_matrix(tmp_path: Path, kind: str, strategy: str) -> None:
    given = sources(tmp_path, X)[kind]
    made = SparseEncoder(3, n_nonzero=5, strategy=strategy, method="batch")
    sparse, dense = (batch_encoder(**made.get_params()).fit(x) for x in (given, X))
    np.testing.assert_array_equal(sparse.selected_features_, dense.selected_features_)
    np.testing.assert_allclose(sparse.components_, dense.components_, atol=1e-7)
    centered = X.astype(np.float64) - X.mean(axis=0, dtype=np.float64)
    certificate = sparse.certificate_
    assert certificate.loss == pytest.approx(encoder_loss(centered, sparse.components_.T), rel=1e-9)
    if strategy != "paper":
        assert certificate.pca_loss == pytest.approx(pca_loss(centered, 3), rel=1e-9)


@pytest.mark.parametrize("scale", [False, True])
@pytest.mark.parametrize("center", [False, True])
def test_implicit_centering_and_scaling_are_those_of_the_dense_matrix(center: bool, scale: bool) -> None:
    """scanpy#3594: scaling sparse chunks raised; no dense copy is made here."""
    sparse, dense = (
        SparseEncoder(2, n_nonzero=4, method="batch", center=center, scale=scale).fit(x) for x in (sp.csr_array(X), X)
    )
    np.testing.assert_allclose(sparse.mean_, dense.mean_, atol=1e-14)
    np.testing.assert_allclose(sparse.scale_, dense.scale_, rtol=1e-12)
    np.testing.assert_allclose(sparse.components_, dense.components_, atol=1e-7)
    assert sparse.certificate_.loss == pytest.approx(dense.certificate_.loss, rel=1e-10)


@pytest.mark.parametrize("missing", ["zero", "mean"])
def test_missing_entries_are_filled_among_the_stored_ones_and_zeros_stay_zeros(missing: str) -> None:
    x = X.copy()
    at = np.argwhere(x > 0)[::9]
    x[tuple(at.T)] = np.nan
    means = np.zeros(30) if missing == "zero" else np.nanmean(x.astype(np.float64), axis=0)
    filled = np.where(np.isnan(x), means, x)
    found = SparseEncoder(2, n_nonzero=4, method="batch", missing=missing).fit(sp.csr_array(x))
    expected = SparseEncoder(2, n_nonzero=4, method="batch", strategy="gram").fit(filled)
    np.testing.assert_allclose(found.mean_, filled.mean(axis=0), atol=1e-12)
    assert found.certificate_.loss == pytest.approx(expected.certificate_.loss, rel=1e-9)
    assert found.certificate_.passes == (2 if missing == "mean" else 1)


def test_missing_entries_are_refused_with_their_place(tmp_path: Path) -> None:
    x = X.copy()
    x[1234, 7] = np.nan
    with pytest.raises(NonFiniteInput, match="row 1234, column 7"):
        batch_encoder(2, n_nonzero=4).fit(csr_store(tmp_path / "x", sp.csr_array(x), chunk=500, pointer_chunk=400))


@pytest.mark.parametrize("kind", KINDS)
def test_codes_and_losses_on_sparse_rows_are_those_of_dense_rows(tmp_path: Path, kind: str) -> None:
    encoder = SparseEncoder(3, n_nonzero=5, method="batch").fit(X)
    given = sources(tmp_path, X)[kind]
    expected = encoder.transform(X)
    found = encoder.transform(given)
    np.testing.assert_allclose(np.asarray(found), expected, atol=1e-6)
    assert found.dtype == expected.dtype
    assert evaluate(given, encoder).decoder_loss == pytest.approx(evaluate(X, encoder).decoder_loss, rel=1e-10)
    report = transform_to_zarr(given, encoder, str(tmp_path / "z.zarr"))
    assert report.rows_verified == 1500
    np.testing.assert_allclose(open_matrix(tmp_path / "z.zarr").read(0)[:100], expected[:100], atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_selected_columns_of_sparse_rows_stay_sparse(tmp_path: Path, kind: str) -> None:
    selector = ColumnSelector(4).fit(X)
    found = selector.transform(sources(tmp_path, X)[kind])
    found = found if kind == "scipy" else found.compute()
    assert sp.issparse(found)
    np.testing.assert_array_equal(found.toarray(), X[:, selector.get_support()])


def test_names_of_an_anndata_store_are_those_of_the_encoder(tmp_path: Path) -> None:
    path = anndata_store(tmp_path / "a.zarr", sp.csr_array(X), NAMES)
    assert SparseEncoder(2, n_nonzero=4, method="batch").fit(path).feature_names_in_.tolist() == NAMES


@pytest.mark.parametrize("kind", ["scipy", "group"])
def test_a_plan_counts_what_is_stored(tmp_path: Path, kind: str) -> None:
    sparse = sp.csr_array(X)
    planned = plan(sources(tmp_path, X)[kind], 2, n_nonzero=4)
    nbytes = sparse.data.nbytes + sparse.indices.nbytes
    assert nbytes < planned.bytes_read <= nbytes + 8 * 1502
    assert planned.passes[0].flops < plan(X, 2, n_nonzero=4).passes[0].flops / 4
    assert any("stored" in note for note in planned.notes)


def test_large_chunks_of_row_pointers_are_noted(tmp_path: Path) -> None:
    n = 2_200_000
    x = sp.csr_array((n, 3), dtype=np.float32)
    csr_store(tmp_path / "x", x, indptr=np.zeros(n + 1, dtype=np.int64), pointer_chunk=n + 1)
    assert any("of row pointers besides its own" in note for note in plan(tmp_path / "x", 2, n_nonzero=2).notes)


def test_a_plan_of_lazy_sparse_blocks_says_what_it_assumes() -> None:
    planned = plan(lazy(X), 2, n_nonzero=4)
    assert any("25% of their entries are assumed to be stored" in note for note in planned.notes)
    assert planned.bytes_read < X.nbytes


def test_codes_take_the_selected_columns_of_rows_that_are_too_wide_to_be_made_dense() -> None:
    n, d = 20_000, 10**6  # 80 GB dense
    rng = np.random.default_rng(0)
    x = sp.csr_array((rng.random(n).astype(np.float32), rng.choice([7, 500, d - 1], n), np.arange(n + 1)), shape=(n, d))
    columns = np.array([7, d - 1])
    encoder = RowEncoder(columns, np.array([[1.0], [2.0]]), np.array([0.1, 0.2]), np.array([2.0, 4.0]))
    expected = (x[:, columns].toarray() - [0.1, 0.2]) / [2.0, 4.0] @ [[1.0], [2.0]]
    np.testing.assert_allclose(encode_rows(open_matrix(x), encoder), expected, atol=1e-6)


def test_a_matrix_whose_dense_form_fits_nowhere_is_planned_and_swept() -> None:
    # 10^6 rows of 2000 columns: 16 GB dense; 3 entries in every hundredth row
    rng = np.random.default_rng(0)
    rows = np.repeat(np.arange(0, 10**6, 100), 3)
    x = sp.csr_array(sp.coo_array((rng.random(30_000), (rows, rng.integers(0, 2000, 30_000))), shape=(10**6, 2000)))
    planned = plan(x, 2, n_nonzero=4, strategy="gram", memory_limit="1.5GB")
    assert planned.passes[0].nbytes < 10 << 20
    found = check(x)
    assert (found.n_nan, found.shape) == (0, (10**6, 2000))


def test_checks_look_at_stored_entries_and_missing_chunks(tmp_path: Path) -> None:
    x = X.copy()
    x[:, 11] = 0
    x[77, 3] = np.inf
    csr_store(tmp_path / "x", sp.csr_array(x), chunk=500, pointer_chunk=400)
    found = check(tmp_path / "x")
    assert (found.n_inf, found.first_non_finite) == (1, ((77, 3),))
    assert 11 in found.constant_columns
    assert (found.smallest, found.missing_chunks) == (0.0, 0)
