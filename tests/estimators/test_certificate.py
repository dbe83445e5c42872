"""Everything a fit states about its loss, against a dense SVD of the data."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spae_dask import SparseEncoder, evaluate
from tests import oracles
from tests.estimators.sources import batch_encoder, spread, zarr_array
from tests.reference_data import colon, eisen, lymphoma, pitprops, pitprops_factor

REL = 1e-9

CASES = {
    "pitprops": (pitprops, 2, 5, False),
    "pitprops factor": (pitprops_factor, 3, 6, False),
    "colon": (colon, 2, 10, False),
    "lymphoma": (lymphoma, 3, 8, False),
    "eisen": (eisen, 4, 12, True),
    "rows with a mean": (lambda: spread(np.random.default_rng(1), 400, 30), 3, 7, True),
    "wide": (lambda: spread(np.random.default_rng(2), 20, 50), 3, 7, True),
}


@pytest.fixture(scope="module", params=["gram", "tsqr"])
def strategy(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module", params=CASES)
def fitted(request: pytest.FixtureRequest, strategy: str) -> tuple[SparseEncoder, Any, Any]:
    """Encoder, data as given, and data centered as the fit was told."""
    make, k, r, center = CASES[request.param]
    X = make()
    encoder = batch_encoder(k, n_nonzero=r, center=center, selection="greedy", strategy=strategy).fit(X)
    return encoder, X, X - X.mean(axis=0) if center else X


def test_losses_are_those_of_a_dense_svd(fitted: tuple[SparseEncoder, Any, Any]) -> None:
    encoder, _, X = fitted
    certificate, H, k = encoder.certificate_, encoder.components_.T, encoder.n_components
    loss, best = oracles.encoder_loss(X, H), oracles.pca_loss(X, k)
    assert certificate.loss == pytest.approx(loss, rel=REL)
    assert certificate.pca_loss == pytest.approx(best, rel=REL)
    assert certificate.total == pytest.approx(float(np.sum(X**2)), rel=REL)
    assert certificate.ratio == pytest.approx(loss / best, rel=REL)
    assert certificate.explained == pytest.approx(1 - loss / np.sum(X**2), rel=REL)
    inside = float(np.sum((X @ H @ np.linalg.pinv(H)) ** 2))
    assert certificate.symmetric_explained == pytest.approx(inside, rel=REL)
    assert certificate.symmetric_ratio == pytest.approx(inside / (np.sum(X**2) - best), rel=REL)
    assert certificate.pca_loss_kind == "exact"


def test_loss_is_that_of_the_best_rank_k_approximation_from_the_columns(
    fitted: tuple[SparseEncoder, Any, Any],
) -> None:
    encoder, _, X = fitted
    best = oracles.columns_loss(X, encoder.selected_features_, encoder.n_components)
    assert encoder.certificate_.loss == pytest.approx(best, rel=REL)


def test_ratio_is_at_least_one_and_within_the_theorem(fitted: tuple[SparseEncoder, Any, Any]) -> None:
    encoder, X, _ = fitted
    assert encoder.certificate_.ratio >= 1
    params = encoder.get_params() | {"selection": "dual-set"}
    promised = batch_encoder(**params).fit(X).certificate_
    assert promised.bound is not None
    assert 1 <= promised.ratio <= promised.bound
    assert "dual-set" in promised.theorem


def test_encoder_has_orthonormal_columns_of_exactly_r_nonzeros(fitted: tuple[SparseEncoder, Any, Any]) -> None:
    encoder, _, _ = fitted
    k, r = encoder.n_components, encoder.n_nonzero
    np.testing.assert_allclose(encoder.components_ @ encoder.components_.T, np.eye(k), atol=1e-12)
    assert np.count_nonzero(encoder.components_, axis=1).tolist() == [r] * k
    assert encoder.certificate_.n_nonzero == encoder.certificate_.combined_nonzero == r
    assert np.flatnonzero(encoder.components_.any(axis=0)).tolist() == encoder.selected_features_.tolist()


def test_decoder_attains_the_loss(fitted: tuple[SparseEncoder, Any, Any]) -> None:
    encoder, _, X = fitted
    residual = X - X @ encoder.components_.T @ encoder.decoder_
    assert float(np.sum(residual**2)) == pytest.approx(encoder.certificate_.loss, rel=REL)


def test_explained_ratios_are_sequential_and_sum_to_what_is_explained(
    fitted: tuple[SparseEncoder, Any, Any],
) -> None:
    encoder, _, X = fitted
    losses = [oracles.encoder_loss(X, encoder.components_[:j].T) for j in range(1, encoder.n_components + 1)]
    shares = -np.diff([np.sum(X**2), *losses]) / np.sum(X**2)
    np.testing.assert_allclose(encoder.explained_variance_ratio_, shares, rtol=1e-7, atol=1e-12)
    assert encoder.explained_variance_ratio_.sum() == pytest.approx(encoder.certificate_.explained, rel=REL)


def test_singular_values_are_those_of_the_data(fitted: tuple[SparseEncoder, Any, Any]) -> None:
    encoder, _, X = fitted
    sigma = np.linalg.svd(X, compute_uv=False)
    head = encoder.singular_values_[: encoder.n_components + 1]
    np.testing.assert_allclose(head, sigma[: encoder.n_components + 1], rtol=REL)


def test_evaluating_on_the_data_of_the_fit_agrees_with_the_certificate(
    fitted: tuple[SparseEncoder, Any, Any], strategy: str
) -> None:
    encoder, X, _ = fitted
    again = evaluate(X, encoder, strategy=strategy)
    assert again.loss == pytest.approx(encoder.certificate_.loss, rel=REL)
    assert again.decoder_loss == pytest.approx(encoder.certificate_.loss, rel=REL)
    assert again.pca_loss == pytest.approx(encoder.certificate_.pca_loss, rel=REL)
    assert again.ratio == pytest.approx(encoder.certificate_.ratio, rel=REL)
    assert again.bound is None
    assert again.passes == 1
    assert again.bytes_read == X.nbytes


def test_score_on_the_data_of_the_fit_is_what_is_explained(fitted: tuple[SparseEncoder, Any, Any]) -> None:
    encoder, X, _ = fitted
    assert encoder.score(X) == pytest.approx(encoder.certificate_.explained, rel=REL)


def test_inverse_transform_of_the_codes_leaves_the_loss(fitted: tuple[SparseEncoder, Any, Any]) -> None:
    encoder, X, _ = fitted
    back = encoder.inverse_transform(encoder.transform(X))
    assert float(np.sum((X - back) ** 2)) == pytest.approx(encoder.certificate_.loss, rel=REL)


@pytest.mark.parametrize("scale", [False, True])
def test_scaled_columns_are_certified_as_scaled(scale: bool, tmp_path: Path) -> None:
    X = spread(np.random.default_rng(3), 500, 20)
    zarr_array(tmp_path / "x.zarr", X, (100, 20))
    encoder = batch_encoder(3, n_nonzero=6, scale=scale).fit(tmp_path / "x.zarr")
    seen = (X - X.mean(axis=0)) / (X.std(axis=0, ddof=1) if scale else 1)
    loss, best = oracles.encoder_loss(seen, encoder.components_.T), oracles.pca_loss(seen, 3)
    assert encoder.certificate_.loss == pytest.approx(loss, rel=REL)
    assert encoder.certificate_.pca_loss == pytest.approx(best, rel=REL)
    np.testing.assert_allclose(encoder.transform(X), seen @ encoder.components_.T, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("strategy", ["gram", "tsqr"])
@pytest.mark.parametrize("scale", [False, True])
def test_evaluation_of_held_out_rows_is_that_of_a_dense_svd_about_the_encoders_mean(strategy: str, scale: bool) -> None:
    X = spread(np.random.default_rng(4), 300, 25)
    encoder = batch_encoder(2, n_nonzero=5, scale=scale).fit(X[:150])
    held_out = (X[150:] - encoder.mean_) / encoder.scale_
    H, G = encoder.components_.T, encoder.decoder_
    found = evaluate(X[150:], encoder, strategy=strategy)
    assert found.loss == pytest.approx(oracles.encoder_loss(held_out, H), rel=REL)
    assert found.decoder_loss == pytest.approx(float(np.sum((held_out - held_out @ H @ G) ** 2)), rel=REL)
    assert found.pca_loss == pytest.approx(oracles.pca_loss(held_out, 2), rel=REL)
    assert found.total == pytest.approx(float(np.sum(held_out**2)), rel=REL)
    assert found.decoder_loss >= found.loss >= found.pca_loss
    assert encoder.score(X[150:]) == pytest.approx(1 - found.decoder_loss / found.total, rel=REL)


def test_gram_and_tsqr_agree() -> None:
    X = spread(np.random.default_rng(5), 2000, 30)
    gram, tsqr = (batch_encoder(3, n_nonzero=6, strategy=name).fit(X) for name in ("gram", "tsqr"))
    assert gram.selected_features_.tolist() == tsqr.selected_features_.tolist()
    np.testing.assert_allclose(gram.components_, tsqr.components_, atol=1e-9)
    assert gram.certificate_.loss == pytest.approx(tsqr.certificate_.loss, rel=REL)


def test_a_certificate_leads_with_what_the_encoder_and_pca_explain_and_what_is_left_to_gain() -> None:
    noise = np.random.default_rng(8).standard_normal((200, 12))
    encoder = batch_encoder(2, n_nonzero=8).fit(noise)
    centered = noise - noise.mean(axis=0)
    sigma = np.linalg.svd(centered, compute_uv=False) ** 2
    codes = np.linalg.qr(centered @ encoder.components_.T)[0]
    by_pca, by_codes = sigma[:2].sum() / sigma.sum(), np.sum((codes.T @ centered) ** 2) / sigma.sum()
    found = encoder.certificate_
    record = found.as_dict()
    assert list(record)[:4] == ["explained", "pca_explained", "ratio", "explained_gap"]
    assert record["explained"] == pytest.approx(by_codes, rel=REL)
    assert record["pca_explained"] == pytest.approx(by_pca, rel=REL)
    assert record["explained_gap"] == pytest.approx(by_pca - by_codes, rel=REL)
    assert record["explained_of_pca"] == pytest.approx(by_codes / by_pca, rel=REL)
    first = str(found).splitlines()[0].split()
    assert first == ["explained", f"{by_codes:.4%}", "of", "the", "total,", "PCA", f"{by_pca:.4%}", "(exact)"]
    assert f"left to gain       {by_pca - by_codes:.4%} of the total" in str(found)
    assert "symmetric variance" not in str(found)
    assert type(found).from_dict(record) == found


def test_what_is_left_to_gain_has_a_bound_where_losses_are_not_exact() -> None:
    rows = spread(np.random.default_rng(9), 300, 40)
    encoder = batch_encoder(2, n_nonzero=6, strategy="stream", sketch_rows=8).fit(rows)
    centered = rows - rows.mean(axis=0)
    sigma = np.linalg.svd(centered, compute_uv=False) ** 2
    codes = np.linalg.qr(centered @ encoder.components_.T)[0]
    gap = (sigma[:2].sum() - np.sum((codes.T @ centered) ** 2)) / sigma.sum()
    text = str(encoder.certificate_)
    assert "(by the loss of PCA: estimate)" in text.splitlines()[0]
    (line,) = (line for line in text.splitlines() if line.strip().startswith("at most"))
    assert gap <= float(line.split()[2].rstrip("%,")) / 100 + 1e-6
    assert line.endswith("certain")


@pytest.mark.parametrize("kind", ["exact", "lower bound", "stream", "wide stream"])
@pytest.mark.parametrize("r", [2, 6, 40])
def test_no_choice_of_features_gains_more_than_is_said(kind: str, r: int) -> None:
    rows = spread(np.random.default_rng(9), 300, 40)
    given = {
        "exact": {"strategy": "gram"},
        "lower bound": {"strategy": "sketch", "certified": True},
        "stream": {"strategy": "stream", "sketch_rows": 100},
        "wide stream": {"strategy": "stream", "sketch_rows": 8},
    }[kind]
    found = SparseEncoder(2, n_nonzero=r, effort=0, **given).fit(rows)
    centered = rows - rows.mean(axis=0)
    loss = np.sum((centered - centered @ found.components_.T @ found.decoder_) ** 2)
    most = 1 - np.sum(np.linalg.svd(centered, compute_uv=False)[2:] ** 2) / loss

    certificate = found.certificate_
    assert certificate.gain_at_most is not None
    assert certificate.gain_at_most >= most - 1e-9
    if kind == "exact":
        assert certificate.gain_at_most == pytest.approx(max(most, 0.0), abs=1e-8)
    said = re.search(r"(\S.*) could lower the loss by more than (\S+) %\.", str(certificate))
    assert said is not None
    assert certificate.gain_at_most <= float(said[2]) / 100 <= 1.1 * certificate.gain_at_most + 1.1e-6
    assert (
        said[1]
        == f"{'No' if kind == 'exact' else 'By the lower bound on PCA' + chr(39) + 's loss, no'} choice of features"
    )
    assert certificate.as_dict()["gain_at_most"] == certificate.gain_at_most


def test_where_pca_loses_nothing_no_more_is_said() -> None:
    whole = SparseEncoder(3, n_nonzero=3).fit(spread(np.random.default_rng(1), 50, 3)).certificate_
    partly = (
        SparseEncoder(3, n_nonzero=1).fit(np.random.default_rng(1).standard_normal((50, 3)) @ np.eye(3, 9)).certificate_
    )
    worse = batch_encoder(3, n_nonzero=3).fit(
        np.random.default_rng(2).standard_normal((50, 3)) @ np.random.default_rng(3).standard_normal((3, 9))
    )
    for each in (whole, partly, worse.certificate_):
        assert each.gain_at_most is None
        assert "could lower" not in str(each)


def test_certificate_and_plan_print_as_tables_and_become_dictionaries() -> None:
    encoder = batch_encoder(2, n_nonzero=4).fit(spread(np.random.default_rng(6), 100, 8))
    text = str(encoder.certificate_)
    for word in ("explained", "ratio", "left to gain", "PCA's loss", "nonzeros", "1 pass"):
        assert word in text
    assert "theory" in encoder.certificate_.text(verbose=True)
    assert encoder.certificate_.as_dict()["ratio"] == encoder.certificate_.ratio
    assert "strategy  tsqr" in str(encoder.plan_)
    assert encoder.plan_.as_dict()["bytes_read"] == encoder.certificate_.bytes_read == 100 * 8 * 8


@pytest.mark.parametrize("strategy", ["gram", "tsqr", "sketch", "stream", "sample", "paper"])
def test_numbers_of_a_certificate_are_pythons_own(strategy):
    X = np.random.default_rng(0).normal(size=(300, 20)).astype("f4")
    fitted = batch_encoder(2, n_nonzero=3, strategy=strategy).fit(X)
    for certificate in (fitted.certificate_, evaluate(X, fitted)):
        numpys = {name for name, value in vars(certificate).items() if isinstance(value, np.generic)}
        assert numpys == set()
