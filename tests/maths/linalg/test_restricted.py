"""Cores cut to some columns explain what the whole core explains with those columns."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from spae_dask.maths.linalg.candidates import restricted_core, rows_triangle
from tests.oracles import encoder_loss


@given(seed=st.integers(0, 10**6), m=st.integers(1, 6), d=st.integers(2, 40), c=st.integers(1, 5))
def test_an_encoder_on_the_columns_loses_the_same_on_both(seed, m, d, c):
    rng = np.random.default_rng(seed)
    core = rng.standard_normal((m, d))
    columns = rng.choice(d, min(c, d), replace=False)
    restricted = restricted_core(core, columns)
    assert restricted.shape[1] <= max(d, columns.size + m)
    assert np.array_equal(restricted[:, : columns.size], core[:, columns])
    h = rng.standard_normal((columns.size, 2))
    H, H_restricted = np.zeros((d, 2)), np.zeros((restricted.shape[1], 2))
    H[columns] = H_restricted[: columns.size] = h
    assert np.isclose(encoder_loss(core, H), encoder_loss(restricted, H_restricted), atol=1e-9 * np.sum(core**2))


def test_the_triangle_is_that_of_all_panels_and_leads_with_that_of_the_leading_rows(monkeypatch):
    monkeypatch.setattr("spae_dask.maths.linalg.candidates.PANEL_COLUMNS", 7)
    rng = np.random.default_rng(0)
    upper, lower = rng.standard_normal((3, 50)), rng.standard_normal((2, 50))
    left_out = np.array([0, 13, 14, 49])
    R = rows_triangle([upper, lower], left_out)
    A = np.delete(np.vstack([upper, lower]), left_out, axis=1)
    assert np.allclose(R.T @ R, A @ A.T)
    assert np.allclose(R[:3, :3].T @ R[:3, :3], A[:3] @ A[:3].T)
    assert np.array_equal(R, np.triu(R))
