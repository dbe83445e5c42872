"""Metrics of any encoder against the plainest dense routes: projections, least squares, numpy's own correlations."""

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import spae_dask
from spae_dask.errors import InvalidInput, NonFiniteInput
from spae_dask.strategies.metrics import EncoderMetrics, encoder_metrics
from tests import oracles
from tests.matrices import FloatArray, awkward, factor_model, low_rank
from tests.reference_data import pitprops, pitprops_factor, pitprops_paper_encoder

D = 9
CONTENT = ("random", "sparse", "zero", "twin", "huge", "tiny", "mixed")


def centered(rng: np.random.Generator, n: int) -> FloatArray:
    X = factor_model(rng, n, D, 3, 0.4)
    return X - X.mean(axis=0)


@st.composite
def encoders(draw: st.DrawFn) -> FloatArray:
    """One to five columns: generic, sparse, zero, copies of the one before, of any length, mixtures of all before."""
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    columns: list[FloatArray] = []
    for kind in draw(st.lists(st.sampled_from(CONTENT), min_size=1, max_size=5)):
        h = rng.standard_normal(D)
        if kind == "sparse":
            h *= rng.random(D) < 0.3
        elif kind == "zero":
            h *= 0.0
        elif kind == "twin" and columns:
            h = -2.0 * columns[-1]
        elif kind in ("huge", "tiny"):
            h *= 1e30 if kind == "huge" else 1e-30
        elif kind == "mixed" and columns:
            h = np.sum([rng.standard_normal() * c / (np.linalg.norm(c) or 1.0) for c in columns], axis=0)
        columns.append(h)
    return np.column_stack(columns)


def unit(H: FloatArray) -> FloatArray:
    lengths = np.linalg.norm(H, axis=0)
    return H / np.where(lengths > 0, lengths, 1.0)


@given(st.integers(0, 2**16), st.sampled_from([6, 12, 60]), encoders())
def test_losses_and_variances_are_those_of_dense_projections(seed: int, n: int, H: FloatArray) -> None:
    X = centered(np.random.default_rng(seed), n)
    total, k = float(np.sum(X**2)), H.shape[1]
    near = {"rel": 1e-8, "abs": 1e-10 * total}
    found = encoder_metrics(X, H)
    losses = [oracles.encoder_loss(X, H[:, :j]) for j in range(1, k + 1)]
    best = oracles.pca_loss(X, k)
    assert found.total == pytest.approx(total)
    assert found.loss == pytest.approx(losses[-1], **near)
    assert found.prefix_losses == pytest.approx(losses, **near)
    assert found.pca_loss == pytest.approx(best, **near)
    assert found.loss_share == pytest.approx(losses[-1] / total, rel=1e-8, abs=1e-10)
    if best > 1e-9 * total:
        assert found.information_loss == pytest.approx(losses[-1] / best, rel=1e-6)
        assert found.information_loss >= 1.0
    # X H H^+ is X projected, row by row, on the span of H
    symmetric = float(np.sum(oracles.projected(X.T, unit(H)) ** 2)) if H.any() else 0.0
    assert found.symmetric_explained == pytest.approx(symmetric, **near)
    assert found.symmetric_ratio == pytest.approx(symmetric / (total - best), rel=1e-8, abs=1e-10)
    assert found.symmetric_share == pytest.approx(symmetric / total, rel=1e-8, abs=1e-10)
    assert found.loss <= total - symmetric + 1e-9 * total


@given(st.integers(0, 2**16), encoders())
def test_correlations_are_numpys_and_zero_codes_correlate_with_nothing(seed: int, H: FloatArray) -> None:
    X = centered(np.random.default_rng(seed), 60)
    found = encoder_metrics(X, H)
    live = unit(H).any(axis=0)
    expected = np.zeros((H.shape[1],) * 2)
    if live.any():
        expected[np.ix_(live, live)] = np.corrcoef(X @ unit(H)[:, live], rowvar=False)
    np.testing.assert_allclose(found.score_correlation, expected, atol=1e-9)
    off = np.abs(expected[~np.eye(len(expected), dtype=bool)])
    assert found.largest_correlation == pytest.approx(off.max(initial=0.0), abs=1e-9)


@given(st.integers(0, 2**16), encoders())
def test_adjusted_variances_are_what_least_squares_on_the_codes_before_leaves(seed: int, H: FloatArray) -> None:
    X = centered(np.random.default_rng(seed), 60)
    Z = X @ unit(H)
    left = [Z[:, j] - oracles.projected(Z[:, [j]], Z[:, :j])[:, 0] if j else Z[:, 0] for j in range(Z.shape[1])]
    expected = [float(z @ z) for z in left]
    found = encoder_metrics(X, H)
    assert found.adjusted_variance == pytest.approx(expected, rel=1e-6, abs=1e-9 * found.total)
    assert found.adjusted_share == pytest.approx(sum(expected) / found.total, rel=1e-6, abs=1e-9)


@given(encoders())
def test_nonzeros_and_orthonormality_are_those_of_the_encoder_as_given(H: FloatArray) -> None:
    found = encoder_metrics(centered(np.random.default_rng(0), 12), H)
    assert list(found.n_nonzero) == [int((column != 0).sum()) for column in H.T]
    assert found.mean_nonzero == pytest.approx(np.mean(found.n_nonzero))
    assert found.combined_nonzero == len({i for i, _ in np.argwhere(H)})
    assert found.orthonormality_defect == pytest.approx(np.linalg.norm(H.T @ H - np.eye(H.shape[1])))


def test_pca_itself_is_perfect_in_every_measure() -> None:
    X = centered(np.random.default_rng(1), 60)
    found = encoder_metrics(X, np.linalg.svd(X)[2][:3].T)
    assert found.information_loss == pytest.approx(1.0)
    assert found.symmetric_ratio == pytest.approx(1.0)
    assert found.adjusted_share == pytest.approx(1 - found.loss_share)
    assert found.orthonormality_defect < 1e-12
    assert found.largest_correlation < 1e-10
    assert found.prefix_losses == pytest.approx([oracles.pca_loss(X, j) for j in (1, 2, 3)])


@pytest.mark.parametrize("method", ["batch", "iterative", "tpower", "gpower_l0", "gpower_l1"])
def test_the_papers_printed_encoders_are_measured_in_both_modes(method: str) -> None:
    H = pitprops_paper_encoder(method)
    for X in (pitprops(), pitprops_factor()):
        found = encoder_metrics(X, H)
        codes = X @ H
        cosine = abs(codes[:, 0] @ codes[:, 1]) / np.prod(np.linalg.norm(codes, axis=0))
        assert found.information_loss == pytest.approx(oracles.encoder_loss(X, H) / oracles.pca_loss(X, 2))
        assert found.n_nonzero == tuple(np.count_nonzero(H, axis=0))
        assert found.largest_correlation == pytest.approx(cosine)


def test_a_core_gives_the_metrics_of_its_matrix() -> None:
    X = centered(np.random.default_rng(2), 60)
    H = np.random.default_rng(3).standard_normal((D, 3))
    whole, on_core = encoder_metrics(X, H).as_dict(), encoder_metrics(np.linalg.qr(X)[1], H).as_dict()
    for name, value in whole.items():
        np.testing.assert_allclose(on_core[name], value, rtol=1e-9, atol=1e-12, err_msg=name)


@pytest.mark.parametrize("name", sorted(awkward(np.random.default_rng(0))))
def test_awkward_matrices_give_numbers(name: str) -> None:
    X = awkward(np.random.default_rng(0))[name]
    found = encoder_metrics(X, np.eye(X.shape[1], 2) if X.shape[1] > 1 else np.ones((1, 2)))
    shares = (found.loss_share, found.symmetric_share, found.adjusted_share, found.largest_correlation)
    assert all(-1e-12 <= share <= 1 + 1e-9 for share in shares)
    assert found.information_loss >= 1
    assert str(found)


def test_a_code_that_is_the_difference_of_two_twins_is_zero() -> None:
    X = centered(np.random.default_rng(4), 60)
    X[:, 1] = 3.0 * X[:, 0]
    H = np.zeros((D, 2))
    H[:2, 0], H[2, 1] = [3.0, -1.0], 1.0
    found = encoder_metrics(X, H)
    assert found.score_correlation == ((0.0, 0.0), (0.0, 1.0))
    assert found.adjusted_variance[0] == 0.0


def test_an_encoder_that_loses_where_pca_does_not_is_infinitely_worse() -> None:
    found = encoder_metrics(low_rank(np.random.default_rng(5), 30, 6, 2), np.eye(6)[:, [0, 0]])
    assert math.isinf(found.information_loss)


def test_it_prints_as_a_table_of_components_and_becomes_json() -> None:
    found = encoder_metrics(centered(np.random.default_rng(6), 60), np.eye(D, 2))
    assert found.details() in str(found)
    assert "score correlation" in str(found)
    assert [line.split()[0] for line in str(found).splitlines()[-2:]] == ["1", "2"]
    restored = json.loads(json.dumps(found.as_dict()))
    assert list(restored)[:3] == ["explained", "pca_explained", "ratio"]
    assert restored.keys() == EncoderMetrics.__dataclass_fields__.keys() | {"explained", "pca_explained", "ratio"}
    assert restored["ratio"] == restored["information_loss"]
    assert restored["score_correlation"] == [list(row) for row in found.score_correlation]


@pytest.mark.parametrize("shape", [(D,), (D, 0), (3, D), (D - 1, 2)])
def test_an_encoder_of_another_shape_is_refused_with_the_shape_it_should_have(shape: tuple[int, ...]) -> None:
    with pytest.raises(InvalidInput, match=r"Give H of shape \(9, k\)"):
        encoder_metrics(np.ones((4, D)), np.ones(shape))


def test_entries_that_are_not_finite_are_refused() -> None:
    H = np.ones((D, 2))
    H[3, 1] = np.nan
    with pytest.raises(NonFiniteInput, match="H contains NaN or infinite entries, the first in column 1"):
        encoder_metrics(np.ones((4, D)), H)
    with pytest.raises(NonFiniteInput, match="core holds NaN"):
        encoder_metrics(np.full((4, D), np.inf), np.ones((D, 2)))


def test_entries_whose_squares_overflow_are_refused_and_those_that_nearly_do_are_measured() -> None:
    X, H = centered(np.random.default_rng(7), 30), np.eye(D, 2)
    with pytest.raises(InvalidInput, match="squares of the entries of the core overflow"):
        encoder_metrics(X * 1e160, H)
    plain, huge = encoder_metrics(X, H), encoder_metrics(X * 2.0**480, H)
    assert huge.adjusted_variance == tuple(np.ldexp(plain.adjusted_variance, 960))
    for name in ("information_loss", "loss_share", "symmetric_ratio", "score_correlation"):
        np.testing.assert_allclose(getattr(huge, name), getattr(plain, name), rtol=1e-12)


def test_it_is_a_public_name() -> None:
    assert spae_dask.encoder_metrics is encoder_metrics
    assert "encoder_metrics" in dir(spae_dask)
