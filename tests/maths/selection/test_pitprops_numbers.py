"""Information loss on PitProps, k = 2, against an independent first implementation of the same methods."""

import numpy as np
import pytest

from spae_dask.maths.linalg.loss import columns_loss
from spae_dask.maths.selection import SELECTIONS
from tests import oracles
from tests.reference_data import pitprops, pitprops_factor


@pytest.mark.parametrize(
    ("name", "r", "as_data", "as_covariance"),
    [
        ("exchange", 3, 1.0668, 1.0860),
        ("exchange", 4, 1.0226, 1.0538),
        ("exchange", 5, 1.0118, 1.0356),
        ("greedy", 3, 1.1011, 1.1058),
        ("greedy", 4, 1.0399, 1.0579),
        ("greedy", 5, 1.0208, 1.0397),
        ("dual-set", 5, 1.0308, 1.0520),
        ("full-greedy", 5, 1.0374, 1.0650),
    ],
)
def test_information_loss(name, r, as_data, as_covariance):
    for X, expected in ((pitprops(), as_data), (pitprops_factor(), as_covariance)):
        selected = SELECTIONS[name](X, 2, r, np.random.default_rng(0))
        ratio = columns_loss(X, selected, 2).loss / oracles.pca_loss(X, 2)
        assert round(ratio, 4) == expected
