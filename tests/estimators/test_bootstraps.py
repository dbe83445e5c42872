"""Bootstraps of the folds against fits of rows that are repeated as often as their fold was drawn."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from scipy import stats

from spae_dask import SparseEncoder, load_encoder, plan
from spae_dask.errors import InvalidInput
from spae_dask.estimators.saved import save_encoder
from spae_dask.strategies.bootstraps import drawn_counts
from spae_dask.strategies.folds import FoldedCore
from spae_dask.strategies.held_out import Bootstraps, HeldOut
from spae_dask.strategies.parameters import FitParameters
from spae_dask.strategies.sparse_encoder import FittedEncoder
from tests.estimators.sources import spread

Floats = npt.NDArray[np.float64]

N, D, K, R, FOLDS, B = 96, 8, 2, 3, 4, 12
X = spread(np.random.default_rng(3), N, D)
OF_ROW = np.arange(N) // 4 % FOLDS
"""Four groups of as many rows, so that group and fold have the same number."""


def fitted(**given: Any) -> SparseEncoder:
    parameters = {"n_nonzero": R, "method": "batch", "folds": FOLDS, "fold_groups": OF_ROW, "bootstraps": B} | given
    return SparseEncoder(K, **parameters).fit(X)


def drawn_of(encoder: SparseEncoder) -> Bootstraps:
    held_out = encoder.certificate_.held_out
    assert held_out is not None
    assert held_out.bootstraps is not None
    return held_out.bootstraps


@pytest.mark.parametrize(
    "how",
    [
        {"strategy": "gram"},
        {"strategy": "tsqr", "scale": True},
        {"strategy": "gram", "method": "iterative", "random_state": 5},
        {"n_nonzero": None, "keep": 0.6},
        {"n_nonzero": None, "n_features": 4, "exclude": [2], "method": "polished"},
        {"strategy": "gram", "covariates": np.random.default_rng(5).normal(size=N)},
    ],
    ids=lambda how: ", ".join(how),
)
def test_an_encoder_of_a_resample_is_that_of_repeated_rows(how: dict[str, Any]) -> None:
    encoder = fitted(**how)
    found = drawn_of(encoder)
    size = {"n_nonzero": encoder.certificate_.n_nonzero, "keep": None} if "keep" in how else {}
    alone = {"n_nonzero": R, "method": "batch", "effort": 0} | how | size
    uses = np.zeros(D)
    for counts, ratio in zip(drawn_counts(FOLDS, B, encoder.seed_), found.ratios, strict=True):
        times = counts[OF_ROW]
        given = alone | {name: np.repeat(alone[name], times) for name in ("covariates",) if name in alone}
        again = SparseEncoder(K, **given).fit(np.repeat(X, times, axis=0))
        assert ratio == pytest.approx(again.certificate_.ratio, rel=1e-8)
        uses[again.selected_features_] += 1
    np.testing.assert_array_equal(encoder.bootstrap_frequency_, uses / B)
    assert found.ratio == pytest.approx(SparseEncoder(K, **alone).fit(X).certificate_.ratio, rel=1e-8)


def test_folds_are_drawn_by_the_seed_and_as_many_as_there_are() -> None:
    counts = drawn_counts(5, 4000, 1)
    assert (counts.sum(axis=1) == 5).all()
    np.testing.assert_array_equal(counts, drawn_counts(5, 4000, 1))
    assert not np.array_equal(counts, drawn_counts(5, 4000, 2))
    # of the binomial distribution, to five standard errors
    for times, share in enumerate(stats.binom.pmf(range(3), 5, 0.2)):
        assert abs(np.mean(counts == times) - share) < 5 * np.sqrt(share / counts.size)


def test_an_encoder_of_equal_draws_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, resample = list[tuple[int, ...]](), FoldedCore.resample

    def counted(folded: FoldedCore, params: FitParameters, counts: Sequence[int]) -> FittedEncoder:
        asked.append(tuple(counts))
        return resample(folded, params, counts)

    monkeypatch.setattr(FoldedCore, "resample", counted)
    drawn = [tuple(each) for each in drawn_counts(FOLDS, 60, fitted(bootstraps=60).seed_).tolist()]
    assert len(set(drawn)) < len(drawn)
    assert sorted(asked) == sorted(set(drawn))


def test_nothing_else_changes() -> None:
    without, encoder = fitted(bootstraps=0), fitted()
    assert without.certificate_.held_out is not None
    assert without.certificate_.held_out.bootstraps is None
    assert "bootstraps" not in without.certificate_.as_dict()["held_out"]
    assert not hasattr(without, "bootstrap_frequency_")
    np.testing.assert_array_equal(encoder.components_, without.components_)
    told = encoder.certificate_.as_dict()["held_out"]
    drawn = told.pop("bootstraps")
    assert told == without.certificate_.as_dict()["held_out"]
    assert drawn["band"] == list(drawn_of(encoder).band)


def test_the_band_of_a_mean_covers_it_as_often_as_that_of_student() -> None:
    rng, k, covered, plain = np.random.default_rng(0), 5, 0, 0
    for _ in range(400):
        means = 10 + rng.normal(size=k)
        ratios = drawn_counts(k, 200, int(rng.integers(1 << 30))) @ means / k
        lower, upper = Bootstraps(k, float(means.mean()), tuple(ratios), (), ()).band
        covered += lower <= 10 <= upper
        plain += np.quantile(ratios, 0.025) <= 10 <= np.quantile(ratios, 0.975)
    assert 0.91 < covered / 400 < 0.98
    assert plain / 400 < 0.89


def test_no_ratio_of_a_band_is_below_1() -> None:
    assert Bootstraps(5, 1.001, (1.0, 1.001, 1.002), (), ()).band[0] == 1.0


def test_the_record_is_kept_and_told(tmp_path: Any) -> None:
    encoder = fitted()
    save_encoder(encoder, tmp_path / "e.zarr")
    loaded = load_encoder(tmp_path / "e.zarr")
    assert loaded.certificate_ == encoder.certificate_
    np.testing.assert_array_equal(loaded.bootstrap_frequency_, encoder.bootstrap_frequency_)
    found = drawn_of(loaded)
    assert HeldOut.from_dict(encoder.certificate_.as_dict()["held_out"]).bootstraps == found
    assert f"resamples          {found.band[0]:.6f} to {found.band[1]:.6f} x PCA's loss, 95 % by 12" in str(
        encoder.certificate_
    )
    for row in loaded.table().rows:
        assert row.in_resamples == encoder.bootstrap_frequency_[row.column]


def test_resamples_are_planned() -> None:
    options: dict[str, Any] = {"n_nonzero": R, "folds": FOLDS}
    alone, drawn = (plan(X, K, bootstraps=each, **options) for each in (0, 2000))
    assert drawn.finish_seconds > alone.finish_seconds
    assert "2,000 resamples" in str(drawn)
    assert "resamples" not in str(alone)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"folds": None, "fold_groups": None}, "bootstraps=12: this needs folds"),
        ({"bootstraps": -1}, "bootstraps=-1 is not allowed: give a whole number from 0"),
        ({"bootstraps": True}, "bootstraps=True is not allowed"),
    ],
    ids=str,
)
def test_resamples_without_sense_are_refused(given: dict[str, Any], told: str) -> None:
    with pytest.raises(InvalidInput, match=told):
        fitted(**given)
