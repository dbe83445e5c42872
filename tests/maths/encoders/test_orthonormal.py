"""Orthonormal encoders."""

import numpy as np
import pytest

from spae_dask.maths.encoders.orthonormal import orthonormalize


def test_columns_that_share_no_row_keep_their_rows():
    rng = np.random.default_rng(0)
    core, H = rng.normal(size=(30, 40)), np.zeros((40, 4))
    rows = rng.permutation(40)[:20].reshape(4, 5)
    for column, support in enumerate(rows):
        H[support, column] = rng.normal(size=5)
    Q, _ = orthonormalize(core, H)
    assert pytest.approx(np.eye(4), abs=1e-14) == Q.T @ Q
    assert sorted(map(tuple, (np.flatnonzero(column).tolist() for column in Q.T))) == sorted(
        tuple(sorted(support)) for support in rows.tolist()
    )
    assert pytest.approx(H) == Q @ (Q.T @ H)
