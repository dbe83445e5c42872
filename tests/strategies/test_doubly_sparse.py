"""Doubly sparse encoders: a wanted excess holds with the decoder that is returned, and so does the theorem's bound."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from spae_dask.blocks import ArrayBlocks
from spae_dask.passes.serial import SerialRunner
from spae_dask.strategies.core import read_core
from spae_dask.strategies.doubly_sparse import FittedRows, choose_rows, pool_size
from spae_dask.strategies.parameters import FitParameters
from spae_dask.strategies.sparse_encoder import encode_core
from tests.matrices import power_law

Matrix = NDArray[np.float64]


def factors(rng: np.random.Generator, n: int, d: int, k: int, noise: float) -> Matrix:
    return rng.standard_normal((n, k)) @ rng.standard_normal((k, d)) + noise * rng.standard_normal((n, d))


DATA = {
    "power law": lambda rng: power_law(rng, 600, 40, decay=1.0),
    "factors": lambda rng: factors(rng, 800, 30, 5, 0.5),
    "noise": lambda rng: rng.standard_normal((500, 20)),
    "long tails": lambda rng: rng.standard_t(2.5, (600, 30)),
    "counts": lambda rng: rng.poisson(np.exp(factors(rng, 700, 40, 4, 0.2) / 2)).astype(np.float64),
    "few rows": lambda rng: rng.standard_normal((12, 30)),
}


def fitted(X: Matrix, params: FitParameters) -> FittedRows:
    run = SerialRunner(ArrayBlocks(X, 64)).run_pass
    summary = read_core(run, X.shape[1], strategy="tsqr", center=True, scale=False, missing="error")
    return choose_rows(params, summary, run, encode_core(params, summary, passes=1, bytes_read=0))


def own_ratio(X: Matrix, found: FittedRows) -> float:
    """Loss with the encoder's own decoder over PCA's, on the data themselves."""
    centered = X - X.mean(axis=0)
    loss = np.sum((centered - centered @ found.fitted.H @ found.fitted.G) ** 2)
    return float(loss / np.sum(np.linalg.svd(centered, compute_uv=False)[found.fitted.H.shape[1] :] ** 2))


def spanned_by_its_rows(X: Matrix, found: FittedRows) -> bool:
    rows = (X - X.mean(axis=0))[found.rows]
    return bool(np.allclose(found.fitted.G @ np.linalg.pinv(rows) @ rows, found.fitted.G, atol=1e-7))


@pytest.mark.parametrize("eps", [0.2, 0.1, 0.05])
@pytest.mark.parametrize("kind", DATA)
def test_a_wanted_excess_is_kept_by_the_decoder_that_is_returned(kind: str, eps: float) -> None:
    X = DATA[kind](np.random.default_rng(0))
    for k in (2, 4):
        found = fitted(X, FitParameters(k, eps=eps, method="doubly-sparse"))
        certificate = found.fitted.certificate
        ratio = own_ratio(X, found)
        assert 1 - 1e-9 <= certificate.ratio * (1 - 1e-9) <= ratio <= (1 + eps) * (1 + 1e-9)
        assert certificate.decoder_ratio == pytest.approx(ratio, rel=1e-9)
        assert certificate.bound is not None
        assert ratio <= certificate.bound * (1 + 1e-9)
        assert not certificate.misses_eps
        assert spanned_by_its_rows(X, found)
        assert len(set(found.rows.tolist())) == found.rows.size
        assert set(found.fitted.selected) <= set(found.fitted.chosen)


def params_with_rows(k: int, n_rows: int, **more: Any) -> FitParameters:
    return FitParameters(k, method="doubly-sparse", n_rows=n_rows, **more)


def test_columns_are_added_where_no_more_rows_may_be() -> None:
    X = DATA["power law"](np.random.default_rng(1))
    more = fitted(X, params_with_rows(3, 8, eps=0.1))
    assert more.rows.size == 8
    assert own_ratio(X, more) <= 1.1
    free = fitted(X, FitParameters(3, eps=0.1, method="doubly-sparse"))
    assert free.rows.size > 8
    assert free.fitted.chosen.size < more.fitted.chosen.size
    least = encode_core(FitParameters(3, eps=0.1, method="doubly-sparse"), core(X), passes=1, bytes_read=0)
    assert set(least.chosen) < set(more.fitted.chosen)


def core(X: Matrix) -> Any:
    run = SerialRunner(ArrayBlocks(X, 64)).run_pass
    return read_core(run, X.shape[1], strategy="tsqr", center=True, scale=False, missing="error")


def test_rows_alone_are_added_where_they_are_enough_and_no_more_of_them() -> None:
    X = DATA["power law"](np.random.default_rng(1))
    params = FitParameters(3, eps=0.05, method="doubly-sparse")
    columns = encode_core(params, core(X), passes=1, bytes_read=0).chosen
    found = fitted(X, params)
    assert found.rows.size > 12
    assert list(found.fitted.chosen) == list(columns)
    fewer = fitted(X, params_with_rows(3, found.rows.size - 1, eps=0.05))
    assert fewer.fitted.chosen.size > columns.size


def test_a_share_of_little_is_kept_by_the_decoder_that_is_returned() -> None:
    X = DATA["noise"](np.random.default_rng(3))
    found = fitted(X, FitParameters(3, keep=0.9, method="doubly-sparse"))
    certificate = found.fitted.certificate
    centered = X - X.mean(axis=0)
    total, best = float(np.sum(centered**2)), float(np.sum(np.linalg.svd(centered, compute_uv=False)[3:] ** 2))
    assert total - own_ratio(X, found) * best >= 0.9 * (total - best) * (1 - 1e-9)
    assert certificate.target_met is True
    assert pool_size(FitParameters(3, keep=0.9, method="doubly-sparse"), 1000) == 1000, "what may be needed is planned"


def test_an_excess_that_few_rows_cannot_reach_is_told() -> None:
    X = DATA["noise"](np.random.default_rng(2))
    found = fitted(X, params_with_rows(3, 3, eps=0.001))
    certificate = found.fitted.certificate
    assert certificate.misses_eps
    assert own_ratio(X, found) > 1.001
    assert "missed: with its own decoder, made of rows of X, the encoder loses" in str(certificate)


@pytest.mark.parametrize("n_rows", [4, 8, 20])
def test_the_bound_of_the_lemma_holds_for_every_draw(n_rows: int) -> None:
    X = DATA["long tails"](np.random.default_rng(3))
    for seed in range(10):
        found = fitted(X, params_with_rows(3, n_rows, n_nonzero=6, seed=seed))
        assert found.fitted.certificate.bound is not None
        assert own_ratio(X, found) <= found.fitted.certificate.bound
        assert found.fitted.certificate.theorem.startswith("in expectation over the rows drawn")


def test_more_rows_are_promised_more() -> None:
    X = DATA["factors"](np.random.default_rng(4))
    bounds = [
        fitted(X, params_with_rows(3, n_rows, n_nonzero=6)).fitted.certificate.bound for n_rows in (6, 24, 96, 384)
    ]
    assert bounds == sorted(bounds, reverse=True)
    assert bounds[-1] < 1.1 * fitted(X, params_with_rows(3, 384, n_nonzero=6)).fitted.certificate.ratio


def test_one_row_has_no_bound() -> None:
    X = DATA["noise"](np.random.default_rng(5))
    certificate = fitted(X, params_with_rows(1, 1, n_nonzero=3)).fitted.certificate
    assert certificate.bound is None
    assert certificate.theorem.startswith("no bound")


def test_the_pool_grows_with_a_wanted_excess_up_to_the_number_of_columns() -> None:
    assert pool_size(FitParameters(5, 7, method="doubly-sparse"), 1000) == 200
    assert pool_size(FitParameters(5, eps=0.1, method="doubly-sparse"), 1000) == 200
    assert pool_size(FitParameters(5, eps=0.04, method="doubly-sparse"), 1000) == 500
    assert pool_size(FitParameters(5, eps=1e-9, method="doubly-sparse"), 1000) == 1000
    assert pool_size(params_with_rows(5, 30, eps=1e-9), 1000) == 300
