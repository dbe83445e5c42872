"""The anytime fit: what it reads, when it stops, and how often its interval holds."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from spae_dask.blocks import ArrayBlocks
from spae_dask.errors import NonFiniteInput
from spae_dask.passes.chosen import choose_blocks
from spae_dask.passes.serial import SerialRunner
from spae_dask.passes.threads import one_blas_thread
from spae_dask.strategies import sample
from spae_dask.strategies.core import read_core
from spae_dask.strategies.evaluation import Autoencoder, evaluate_encoder
from spae_dask.strategies.parameters import FitParameters
from spae_dask.strategies.sample import (
    SampledFit,
    block_order,
    fit_sample,
    may_stop,
    round_ends,
    signs_of_unlike_blocks,
)
from spae_dask.strategies.sample_estimate import MOST_UNITS, Estimate
from spae_dask.strategies.sparse_encoder import encode_core

D = 8
NEVER = 1e-12
"""A tolerance at which only the whole data are enough."""


@dataclass(eq=False)
class Reader:
    """Reads chosen blocks by the plain loop and remembers which."""

    X: NDArray[Any]
    rows_per_block: int
    rounds: list[list[int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.source = ArrayBlocks(self.X, self.rows_per_block)

    def __call__(self, numbers: Any, recipe: Any, name: str) -> Any:
        self.rounds.append([int(number) for number in numbers])
        return SerialRunner(choose_blocks(self.source, numbers)).run_pass(recipe, name)

    @property
    def read(self) -> list[int]:
        return [number for numbers in self.rounds for number in numbers]

    def fit(self, params: FitParameters, strategy: str = "tsqr", estimates: list[Estimate] | None = None) -> SampledFit:
        bounds = np.asarray(self.source.bounds, dtype=np.int64)
        told = [] if estimates is None else estimates
        return fit_sample(params, self, bounds, self.X.shape[1], strategy=strategy, report=told.append)


def rows_of(rng: np.random.Generator, n_blocks: int, rows: int, *, alike: float = 0.0) -> NDArray[np.float64]:
    """Rows of four factors, of whose variance the blocks have the share ``alike`` in common."""
    factors = np.sqrt(alike) * rng.standard_normal((n_blocks, 1, 4))
    factors = factors + np.sqrt(1 - alike) * rng.standard_normal((n_blocks, rows, 4))
    loadings = np.random.default_rng(17).standard_normal((4, D)) * np.array([2.0, 1.5, 1.0, 0.7])[:, None]
    noise = 0.5 * rng.standard_normal((n_blocks, rows, D))
    return (factors @ loadings + noise).reshape(-1, D) + 3.0


def params_of(tolerance: float, **more: Any) -> FitParameters:
    return FitParameters(2, 3, **({"method": "batch", "strategy": "sample", "tolerance": tolerance} | more))


def exact_ratio(X: NDArray[Any], found: SampledFit) -> float:
    fitted = found.fitted
    autoencoder = Autoencoder(fitted.H, fitted.G, fitted.mean, fitted.scale)
    return evaluate_encoder(SerialRunner(ArrayBlocks(X, len(X))).run_pass, autoencoder, strategy="tsqr").ratio


def holds(X: NDArray[Any], found: SampledFit) -> bool:
    certificate = found.fitted.certificate
    assert certificate.ratio_lower is not None
    assert certificate.ratio_upper is not None
    assert certificate.ratio_lower <= certificate.ratio <= certificate.ratio_upper
    return certificate.ratio_lower <= exact_ratio(X, found) <= certificate.ratio_upper


@pytest.mark.parametrize(
    ("alike", "n_blocks", "rows", "tolerance"), [(0.0, 200, 20, 0.05), (0.7, 400, 10, 0.2)], ids=["shuffled", "alike"]
)
@pytest.mark.parametrize("n_fits", [40, pytest.param(200, marks=pytest.mark.slow)])
def test_the_interval_of_the_fit_that_stopped_holds_in_at_least_nine_cases_of_ten(
    alike: float, n_blocks: int, rows: int, tolerance: float, n_fits: int
) -> None:
    stopped, held = 0, 0
    with one_blas_thread():
        for seed in range(n_fits):
            X = rows_of(np.random.default_rng(seed), n_blocks, rows, alike=alike)
            found = Reader(X, rows).fit(params_of(tolerance, seed=seed), "gram")
            if found.summary is None:
                stopped += 1
                held += holds(X, found)
    assert stopped >= 0.75 * n_fits
    # held by 95 in 100, fewer than 90 in 100 of 150 fits would be seen once in 270 times
    assert held >= 0.9 * stopped


def with_odd_blocks(rng: np.random.Generator, n_odd: int) -> NDArray[np.float64]:
    """120 blocks of 20 rows, some of which have other loadings and four times the size."""
    X = rows_of(rng, 120, 20).reshape(120, 20, D)
    odd = rng.choice(120, n_odd, replace=False)
    X[odd] = 4.0 * rng.standard_normal((n_odd, 20, 4)) @ rng.standard_normal((4, D)) + 3.0
    return X.reshape(-1, D)


def test_eight_odd_blocks_of_120_are_told_and_the_interval_holds_in_at_least_nine_cases_of_ten() -> None:
    stopped, held, told = 0, 0, 0
    with one_blas_thread():
        for seed in range(40):
            X = with_odd_blocks(np.random.default_rng(seed), 8)
            found = Reader(X, 20).fit(params_of(0.3, seed=seed), "gram")
            told += bool(signs_of_unlike_blocks(found.unlike))
            if found.summary is None:
                stopped += 1
                held += holds(X, found)
    assert stopped >= 10
    assert held >= 0.9 * stopped
    assert told >= 36


def test_alike_blocks_are_hardly_ever_called_unlike_and_long_tailed_rows_nearly_always_are() -> None:
    alike, long_tailed = 0, 0
    with one_blas_thread():
        for seed in range(40):
            rng = np.random.default_rng(seed)
            X = rows_of(rng, 100, 20)
            alike += bool(signs_of_unlike_blocks(Reader(X, 20).fit(params_of(0.1, seed=seed), "gram").unlike))
            X = X * np.exp(rng.standard_normal((len(X), 1)))
            long_tailed += bool(signs_of_unlike_blocks(Reader(X, 20).fit(params_of(0.1, seed=seed), "gram").unlike))
    assert alike <= 2
    assert long_tailed >= 38


@pytest.mark.parametrize("scale", [False, True])
def test_shuffled_rows_are_not_read_to_the_end_and_little_is_lost(scale: bool) -> None:
    X = rows_of(np.random.default_rng(1), 1000, 40)
    reader, estimates = Reader(X, 40), []
    found = reader.fit(params_of(0.03, scale=scale), estimates=estimates)
    certificate = found.fitted.certificate
    full = encode_core(params_of(0.03), core(X, scale=scale), passes=1, bytes_read=0)
    assert len(reader.read) == len(set(reader.read)) < 400
    assert found.summary is None
    assert holds(X, found)
    assert exact_ratio(X, found) <= full.certificate.ratio + 0.03
    assert (certificate.loss_kind, certificate.pca_loss_kind) == ("estimate", "estimate")
    assert certificate.fraction_read == len(reader.read) / 1000 == found.fitted.n_samples / len(X)
    assert certificate.left_to_gain == estimates[-1].left_to_gain <= 0.03
    assert all(each.left_to_gain > 0.03 for each in estimates[:-1])
    total = np.sum(((X - found.fitted.mean) / found.fitted.scale) ** 2)
    np.testing.assert_allclose(certificate.total, total, rtol=0.05)
    np.testing.assert_allclose(found.fitted.explained_ratio.sum(), 1 - certificate.loss / certificate.total, rtol=1e-9)


def core(X: NDArray[Any], *, scale: bool = False, strategy: str = "tsqr", missing: str = "error") -> Any:
    run = SerialRunner(ArrayBlocks(X, 64)).run_pass
    return read_core(run, X.shape[1], strategy=strategy, center=True, scale=scale, missing=missing)


def test_rows_sorted_by_a_factor_are_read_to_the_end_and_found_unlike() -> None:
    X = rows_of(np.random.default_rng(2), 128, 40)
    X = X[np.argsort(X[:, 0])]
    reader, estimates = Reader(X, 40), []
    found = reader.fit(params_of(0.03), estimates=estimates)
    assert len(reader.read) == 128
    assert found.fitted.certificate.loss_kind == "exact"
    assert found.unlike.between > 0.5
    assert len(estimates) == 3
    shuffled = Reader(np.random.default_rng(3).permutation(X), 40)
    alike = shuffled.fit(params_of(0.2))
    assert len(shuffled.read) < 128
    assert alike.unlike.between < 0.03


@pytest.mark.parametrize("strategy", ["gram", "tsqr"])
@pytest.mark.parametrize("more", [{}, {"scale": True}, {"center": False}, {"missing": "zero"}], ids=str)
def test_a_fit_that_never_stops_is_that_of_a_full_read(strategy: str, more: dict[str, Any]) -> None:
    X = rows_of(np.random.default_rng(4), 100, 7)
    if "missing" in more:
        X[::13, 2] = np.nan
    reader, params = Reader(X, 7), params_of(NEVER, **more)
    found = reader.fit(params, strategy)
    full = read_core(
        SerialRunner(ArrayBlocks(X, 7)).run_pass,
        D,
        strategy=strategy,
        center=params.center,
        scale=params.scale,
        missing=params.missing,
    )
    wanted = encode_core(params, full, passes=1, bytes_read=0)
    assert len(reader.rounds) == 5
    assert sorted(reader.read) == list(range(100))
    np.testing.assert_allclose(found.fitted.H, wanted.H, rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(found.fitted.G, wanted.G, rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(found.fitted.mean, wanted.mean, rtol=1e-12)
    np.testing.assert_allclose(found.fitted.spectrum, wanted.spectrum, rtol=1e-9)
    certificate = found.fitted.certificate
    np.testing.assert_allclose(certificate.loss, wanted.certificate.loss, rtol=1e-10)
    assert (certificate.loss_kind, certificate.pca_loss_kind) == ("exact", "exact")
    assert certificate.ratio_upper is certificate.confidence is certificate.left_to_gain is None
    assert certificate.fraction_read == 1.0


def test_rounds_double_and_visit_blocks_in_the_order_of_the_seed() -> None:
    X = rows_of(np.random.default_rng(5), 100, 5)
    first, again, other = Reader(X, 5), Reader(X, 5), Reader(X, 5)
    for reader, seed in ((first, 7), (again, 7), (other, 8)):
        reader.fit(params_of(NEVER, seed=seed))
    assert [len(numbers) for numbers in first.rounds] == [8, 8, 16, 32, 36]
    assert first.read == again.read == list(block_order(7, 100))
    assert first.read != other.read


@pytest.mark.parametrize("n_blocks", [1, 2, 3, 16, 64])
def test_too_few_blocks_to_compare_are_read_in_one_round(n_blocks: int) -> None:
    X = rows_of(np.random.default_rng(6), n_blocks, 9)
    reader, estimates = Reader(X, 9), []
    found = reader.fit(params_of(1000.0), estimates=estimates)
    assert len(reader.rounds) == 1
    assert sorted(reader.read) == list(range(n_blocks))
    assert estimates == []
    assert found.fitted.certificate.loss_kind == "exact"


def test_a_first_round_holds_a_share_of_the_blocks_and_some_rows_a_feature() -> None:
    ones = np.ones(10_000, dtype=np.int64)
    assert round_ends(ones, 10)[:3] == [100, 200, 400]
    assert round_ends(ones, 300)[:3] == [600, 1200, 2400]
    assert round_ends(ones[:80], 1) == [8, 16, 32, 64, 80]
    assert round_ends(ones[:64], 1) == [64]


def test_no_round_is_the_last_before_enough_blocks_have_been_measured() -> None:
    assert may_stop([8, 16, 32, 64, 80]) == [64]
    assert may_stop([10, 20, 40, 80, 160, 320, 640, 1000]) == [80, 160, 320, 640]
    assert may_stop([100, 200, 400, 800, 10_000]) == [800]
    assert may_stop([8, 16, 32, 64]) == []
    # of 120 blocks, 8 of a kind: none is among 44 with a probability of less than 5 %
    assert stats.hypergeom(120, 8, 44).pmf(0) < 0.05
    assert stats.hypergeom(10_000, 10_000 // 15, 44).pmf(0) < 0.05


def test_more_blocks_than_units_are_measured_several_in_one() -> None:
    n_blocks = 40 * MOST_UNITS
    X = np.random.default_rng(9).standard_normal((n_blocks, 3)) * np.array([3.0, 2.0, 1.0])
    bounds = np.arange(n_blocks + 1)
    widths = []

    def read(numbers: Any, recipe: Any, name: str) -> Any:
        if "losses" in recipe.parts:
            widths.append(recipe.parts["losses"].n_units)
        return SerialRunner(ArrayBlocks(X[numbers], 4096)).run_pass(recipe, name)

    found = fit_sample(FitParameters(1, 1, method="batch", tolerance=0.003), read, bounds, 3, strategy="gram")
    assert widths[0] == 410
    assert widths[-1] == MOST_UNITS
    assert found.summary is None
    assert holds(X, found)


def test_an_entry_that_is_refused_is_named_by_its_row_in_the_source() -> None:
    X = rows_of(np.random.default_rng(10), 40, 5)
    X[133, 6] = np.nan
    with pytest.raises(NonFiniteInput, match="row 133, column 6"):
        Reader(X, 5).fit(params_of(NEVER))


def test_data_on_which_pca_loses_nothing_are_settled_at_once_if_the_encoder_loses_nothing() -> None:
    rng = np.random.default_rng(11)
    X = np.zeros((4000, 4))
    X[:, 1:3] = rng.standard_normal((4000, 2))
    reader = Reader(X, 10)
    certificate = reader.fit(FitParameters(2, 2, method="batch", tolerance=0.01)).fitted.certificate
    assert len(reader.read) == 64
    assert (certificate.ratio_lower, certificate.ratio, certificate.ratio_upper) == (1.0, 1.0, 1.0)


def test_data_of_no_variation_are_settled_at_once() -> None:
    reader = Reader(np.full((400, 3), 7.0), 10)
    certificate = reader.fit(FitParameters(1, 2, method="batch", tolerance=0.01)).fitted.certificate
    assert certificate.loss == 0.0
    assert certificate.ratio == 1.0


@pytest.mark.parametrize("size", [1e-120, 1e120])
def test_the_magnitude_of_the_data_does_not_matter(size: float) -> None:
    X = rows_of(np.random.default_rng(12), 200, 10)
    plain, huge = Reader(X, 10), Reader(size * X, 10)
    a, b = (reader.fit(params_of(0.1)).fitted.certificate for reader in (plain, huge))
    assert plain.read == huge.read
    np.testing.assert_allclose([a.ratio_lower, a.ratio_upper], [b.ratio_lower, b.ratio_upper], rtol=1e-6)


def test_the_certificate_says_in_words_what_was_not_read() -> None:
    X = rows_of(np.random.default_rng(13), 1000, 20)
    text = str(Reader(X, 20).fit(params_of(0.05)).fitted.certificate)
    assert text.count("95% confidence, if all row blocks have the same distribution") == 3
    assert "certain" not in text
    assert "% of the rows" in text
    assert "reading all rows could reduce the ratio by at most" in text


def test_no_second_encoder_is_made_where_the_first_is_certain_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    monkeypatch.setattr(sample, "encode_core", lambda *a, **more: made.append(a) or encode_core(*a, **more))
    X = rows_of(np.random.default_rng(14), 1000, 20)
    reader = Reader(X, 20)
    certificate = reader.fit(params_of(100.0)).fitted.certificate
    assert len(made) == len(reader.rounds) - 1
    assert certificate.left_to_gain == certificate.ratio_upper - 1
