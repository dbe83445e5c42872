"""What is no finite number is refused with its place."""

import numpy as np
import pytest

from spae_dask.errors import NonFiniteInput
from tests.matrices import factor_model
from tests.strategies.passes import core_of

X = factor_model(np.random.default_rng(0), 90, 7, 2, 0.3) + 3.0


@pytest.mark.parametrize("strategy", ["gram", "tsqr"])
@pytest.mark.parametrize("row", [0, 50])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_no_number_is_refused_without_a_warning_wherever_it_is(strategy: str, row: int, bad: float) -> None:
    rows = X.copy()
    rows[row, 3] = bad
    with pytest.raises(NonFiniteInput, match=f"row {row}, column 3"):
        core_of(rows, strategy=strategy)
