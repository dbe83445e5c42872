"""What a certificate says, in words and numbers."""

import json
import math
from dataclasses import FrozenInstanceError, replace

import numpy as np
import pytest

from spae_dask.strategies.certificate import Certificate
from spae_dask.strategies.certify import certify
from tests import oracles
from tests.matrices import factor_model, low_rank
from tests.strategies.passes import core_of

X = factor_model(np.random.default_rng(0), 60, 10, 3, 0.4)


def certified(H: np.ndarray, rows: np.ndarray = X) -> Certificate:
    return certify(core_of(rows), H, bound=None, theorem="none", passes=1, bytes_read=8 * rows.size)


@pytest.mark.parametrize("kind", ["random", "dependent", "zero column", "one feature", "unscaled"])
def test_any_encoder_can_be_certified(kind: str) -> None:
    H = np.random.default_rng(1).standard_normal((10, 3))
    if kind == "dependent":
        H[:, 2] = H[:, 0] - H[:, 1]
    if kind == "zero column":
        H[:, 1] = 0.0
    if kind == "one feature":
        H[1:] = 0.0
    if kind == "unscaled":
        H *= [1e8, 1.0, 1e-8]
    found = certified(H)
    centered = X - X.mean(axis=0)
    assert found.loss == pytest.approx(oracles.encoder_loss(centered, H), rel=1e-9)
    assert found.ratio == pytest.approx(found.loss / oracles.pca_loss(centered, 3), rel=1e-9)
    assert found.n_components == 3
    assert found.n_nonzero == int(np.count_nonzero(H, axis=0).max())
    assert 0 < found.symmetric_explained <= found.total - found.loss + 1e-9 * found.total
    assert found.symmetric_ratio <= 1


def test_an_encoder_that_loses_where_pca_does_not_is_infinitely_worse() -> None:
    rows = low_rank(np.random.default_rng(2), 30, 6, 2)
    H = np.zeros((6, 2))
    H[0, 0] = 1.0
    found = certified(H, rows)
    assert found.pca_loss == 0
    assert math.isinf(found.ratio)
    assert "PCA loses nothing" in str(found)


def test_nothing_explained_of_nothing_is_perfect() -> None:
    found = certified(np.eye(3, 2), np.full((5, 3), 2.0))
    assert (found.ratio, found.explained, found.total) == (1.0, 0.0, 0.0)
    assert str(found)


def test_it_prints_its_bound_or_why_there_is_none() -> None:
    H = np.eye(10, 2)
    summary = core_of(X)
    text = certify(summary, H, bound=2.5, theorem="Theorem 7", passes=3, bytes_read=12345).text(verbose=True)
    assert "at most 2.5 x PCA's: Theorem 7" in text
    assert "3 passes, 12.1 KiB" in text
    assert "theory             none" in certified(H).text(verbose=True)


def test_it_is_frozen_and_becomes_json() -> None:
    found = certified(np.eye(10, 2))
    with pytest.raises(FrozenInstanceError):
        found.loss = 0.0  # type: ignore[misc]
    assert Certificate.from_dict(json.loads(json.dumps(found.as_dict()))) == found


def test_intervals_that_are_points_are_printed_as_numbers() -> None:
    found = certified(np.eye(10, 2))
    point = replace(found, pca_loss_kind="estimate", pca_loss_lower=found.pca_loss, pca_loss_upper=found.pca_loss)
    assert f"certain: PCA loses {found.pca_loss:.6g}, so the ratio is {found.ratio:.6f}\n" in str(point)
    wide = replace(point, pca_loss_lower=0.9 * found.pca_loss)
    assert f"certain: PCA loses {0.9 * found.pca_loss:.6g} to {found.pca_loss:.6g}, so the ratio is" in str(wide)
    assert "certified=True may narrow this" in str(wide)
