"""The published example: the PitProps correlation matrix itself is X, as in the paper's experiments."""

import numpy as np
import pytest

from spae_dask import ColumnSelector
from tests.estimators.sources import batch_encoder
from tests.reference_data import pitprops, pitprops_columns, pitprops_exact_losses

EXACT = {(k, r): value for (k, r), value in pitprops_exact_losses().items() if k <= 2 and k <= r <= 8}


@pytest.mark.parametrize(("k", "r"), sorted(EXACT))
@pytest.mark.parametrize("strategy", ["gram", "tsqr"])
def test_exchange_finds_the_best_of_all_supports(k: int, r: int, strategy: str) -> None:
    ratio, support = EXACT[k, r]
    encoder = batch_encoder(n_components=k, n_nonzero=r, selection="exchange", center=False, strategy=strategy)
    encoder.fit(pitprops())
    assert encoder.certificate_.ratio == pytest.approx(ratio, rel=1e-9)
    assert encoder.selected_features_.tolist() == sorted(pitprops_columns(support))


def test_the_enumeration_covers_what_is_claimed() -> None:
    assert set(EXACT) == {(k, r) for k in (1, 2) for r in range(k, 9)}


def test_column_selector_chooses_the_columns_of_the_encoder() -> None:
    selector = ColumnSelector(5, n_components=2, selection="exchange", center=False).fit(pitprops())
    ratio, support = EXACT[2, 5]
    assert sorted(selector.selected_idx_.tolist()) == sorted(pitprops_columns(support))
    assert selector.certificate_.ratio == pytest.approx(ratio, rel=1e-9)


@pytest.mark.parametrize("eps", [0.3, 0.1, 0.03, 0.01])
def test_wanted_excess_gives_the_smallest_r_of_the_enumeration(eps: float) -> None:
    encoder = batch_encoder(n_components=2, eps=eps, selection="exchange", center=False).fit(pitprops())
    smallest = min(r for (k, r), (ratio, _) in EXACT.items() if k == 2 and ratio <= 1 + eps)
    assert encoder.certificate_.n_nonzero == smallest
    assert encoder.certificate_.eps == eps
    assert np.count_nonzero(encoder.components_, axis=1).tolist() == [smallest, smallest]
