"""No certificate is false: its claims hold in 80-bit arithmetic, whatever the data, the strategy and the precision."""

import re
import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from spae_dask import SparseEncoder
from spae_dask.errors import InvalidInput, SpaeWarning
from tests.certified import PLANTS, STRATEGIES, Truth, claims, strain

REFUSED = re.compile("overflow float64|vanish in float64")
"""Values whose squares float64 cannot hold are refused in words."""

strains = given(plant=st.sampled_from(list(PLANTS)), strategy=st.sampled_from(STRATEGIES), seed=st.integers(0, 2**32))


def claims_hold(plant: str, strategy: str, seed: int) -> None:
    case = strain(plant, strategy, seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SpaeWarning)
        try:
            encoder: Any = SparseEncoder(**case.parameters).fit(case.X)
        except InvalidInput as error:
            if not REFUSED.search(str(error)):
                raise
            return
    wrong = [claim for claim in claims(Truth(case.dense, encoder), encoder.certificate_) if not claim.holds]
    assert not wrong, (wrong, case.parameters, case.dense.dtype, encoder.certificate_)


@strains
@example("near sums", "sketch", 9702)  # a support whose columns depend on each other in the rounding of products
@example("near copies", "sketch", 148256283)  # a code of two copies whose difference the basis of candidates leaves out
@settings(max_examples=60, deadline=None)
def test_every_claim_holds(plant: str, strategy: str, seed: int) -> None:
    claims_hold(plant, strategy, seed)


@pytest.mark.slow
@pytest.mark.timeout(7200)
@strains
@settings(max_examples=5000, deadline=None)
def test_every_claim_of_thousands_holds(plant: str, strategy: str, seed: int) -> None:
    claims_hold(plant, strategy, seed)


@pytest.mark.parametrize("apart", [1e-4, 1e-5, 3e-6, 1e-6, 3e-7, 1e-7, 1e-8])
@pytest.mark.parametrize("strategy", ["gram", "tsqr", "sketch", "paper"])
def test_a_decoder_is_the_best_of_its_encoder_however_near_copies_are(strategy: str, apart: float) -> None:
    rng = np.random.default_rng(3)
    X = rng.standard_normal((96, 3)) @ rng.standard_normal((3, 10)) + 0.3 * rng.standard_normal((96, 10))
    X[:, 1] = X[:, 0] + apart * rng.standard_normal(96)
    X[:, 7] = X[:, 4] + X[:, 5] + apart * rng.standard_normal(96)
    method = "batch" if strategy == "paper" else "polished"
    encoder: Any = SparseEncoder(2, n_nonzero=2, strategy=strategy, method=method, scale=strategy != "paper").fit(X)

    rows = (X - X.mean(axis=0)) / encoder.scale_
    codes = rows @ encoder.components_.T
    best = np.sum((rows - codes @ np.linalg.lstsq(codes, rows, rcond=None)[0]) ** 2)
    assert encoder.certificate_.loss == pytest.approx(best, rel=0.01)
