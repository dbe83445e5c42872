"""Paths from one read of narrow data, and from two of wide data."""

import numpy as np
import pytest

from spae_dask import SparseEncoder
from spae_dask.errors import InvalidInput
from spae_dask.estimators.paths import fit_path
from spae_dask.storage.open import open_matrix
from tests.matrices import factor_model
from tests.oracles import pca_loss


def prefer_sketches(monkeypatch):
    monkeypatch.setattr("spae_dask.strategies.table.EXACT_WORTH", 0)
    monkeypatch.setattr("spae_dask.strategies.table.WORTH_WAITING", -1e9)


@pytest.mark.parametrize(("wide", "passes"), [(False, 1), (True, 2)])
def test_every_k_and_r_from_as_few_reads_as_can_be(monkeypatch, wide, passes):
    if wide:
        prefer_sketches(monkeypatch)
    X = factor_model(np.random.default_rng(0), 300, 40, 4, 0.5)
    rows = []

    def watch(event):
        rows.append(getattr(event, "n_rows", 0) if type(event).__name__ == "RowsDone" else 0)

    found = fit_path(open_matrix(X), [1, 3], [2, 5], method="polished", progress=watch)
    assert sum(rows) == passes * 300
    ratios = {(point.n_components, point.n_nonzero): point.ratio for point in found.points}
    assert list(ratios) == [(1, 2), (1, 5), (3, 2), (3, 5)]
    assert ratios[1, 5] <= ratios[1, 2]
    assert ratios[3, 5] <= ratios[3, 2]
    best = pca_loss(X - X.mean(axis=0), 3)
    assert found.points[-1].pca_loss == pytest.approx(best, rel=1e-2)
    assert found.points[-1].loss <= 1.2 * best


def test_methods_that_cannot_keep_to_candidates_say_so(monkeypatch):
    prefer_sketches(monkeypatch)
    X = factor_model(np.random.default_rng(0), 100, 20, 2, 0.5)
    with pytest.raises(InvalidInput, match="candidate columns"):
        fit_path(open_matrix(X), [2], [3], method="batch")


def test_the_effort_of_a_path_is_that_of_a_fit():
    X = np.random.default_rng(0).normal(size=(60, 30))
    found = {effort: fit_path(open_matrix(X), [3], [2, 4], method="polished", effort=effort) for effort in (0, 1)}
    for effort, path in found.items():
        wanted = SparseEncoder(3, n_nonzero=4, effort=effort, strategy="tsqr").fit(X).sparsity_path([3], [2, 4])
        assert [each.loss for each in path.points] == [each.loss for each in wanted.points]
    assert found[0].points[-1].loss > found[1].points[-1].loss
