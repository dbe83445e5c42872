"""No certificate is false: its claims hold in 80-bit arithmetic, whatever the data, the strategy and the precision."""

import re
import warnings
from typing import Any

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
@settings(max_examples=60, deadline=None)
def test_every_claim_holds(plant: str, strategy: str, seed: int) -> None:
    claims_hold(plant, strategy, seed)


@pytest.mark.slow
@pytest.mark.timeout(7200)
@strains
@settings(max_examples=5000, deadline=None)
def test_every_claim_of_thousands_holds(plant: str, strategy: str, seed: int) -> None:
    claims_hold(plant, strategy, seed)
