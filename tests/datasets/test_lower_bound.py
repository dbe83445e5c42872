"""The closed forms of the hardest matrix, against dense projections on every choice of its columns."""

from itertools import combinations

import numpy as np
import pytest

from spae_dask.datasets import lower_bound_matrix
from spae_dask.datasets.lower_bound import even_choice_ratio, lower_bound_loss
from tests import oracles


@pytest.mark.parametrize("alpha", [0.01, 0.3, 1.0, 4.0])
def test_losses_of_all_choices_are_the_closed_form_and_the_even_choice_is_the_least(alpha: float) -> None:
    k, b = 2, 4
    X = lower_bound_matrix(k, b, alpha)
    pca = oracles.pca_loss(X, k)
    assert X.shape == (k * (b + 1), k * b)
    assert pca == pytest.approx(k * (b - 1) * alpha**2, rel=1e-10)
    for r in range(k, k * b + 1):
        ratios = []
        for columns in combinations(range(k * b), r):
            counts = np.bincount(np.array(columns) // b, minlength=k)
            ratios.append(oracles.columns_loss(X, columns, k) / pca)
            if counts.min() > 0:
                assert ratios[-1] == pytest.approx(lower_bound_loss(counts, b, alpha) / pca, rel=1e-9)
        assert min(ratios) == pytest.approx(even_choice_ratio(k, b, alpha, r), rel=1e-9)


@pytest.mark.parametrize(("k", "r"), [(1, 3), (3, 9), (4, 20)])
def test_the_ratio_tends_to_one_plus_k_over_r_from_below(k: int, r: int) -> None:
    ratios = [even_choice_ratio(k, b, 1 / b, r) for b in (20, 200, 20_000)]
    assert ratios == sorted(ratios)
    assert ratios[-1] < 1 + k / r
    assert ratios[-1] == pytest.approx(1 + k / r, abs=1e-3)
