"""Batches of supports among the columns of a pool."""

import numpy as np

from spae_dask.maths.encoders.pool import Pool
from spae_dask.maths.linalg.scaling import unit_columns


def pool_of_columns(columns):
    unit = unit_columns(columns)[0]
    p, weights = unit.shape[1], np.arange(unit.shape[0], 0, -1.0)
    return Pool(
        columns=np.arange(p),
        plain=unit.T @ unit,
        weighted=unit.T @ (weights[:, None] * unit),
        dependent=np.full(p, 1e-6),
        total=float(np.sum(weights)),
        free=np.zeros(p, dtype=bool),
    )


def test_a_support_that_depends_on_itself_gains_nothing_and_leaves_the_others_of_its_batch_alone():
    rng = np.random.default_rng(0)
    columns = rng.standard_normal((8, 6))
    columns[:, 5] = columns[:, 0] + 1e-12 * rng.standard_normal(8)
    pool = pool_of_columns(columns)
    plain = pool.plain.copy()
    plain[0, 5] = plain[5, 0] = 1.0 + 1e-15  # as differences of products may give it
    pool = Pool(pool.columns, plain, pool.weighted, pool.dependent, pool.total, pool.free)

    batch = pool.supports([[0, 1, 5], [0, 1, 2], [2, 3, 4]], 3)
    solved = pool.solved(batch)

    np.testing.assert_allclose(pool.gains(batch), solved.gains, rtol=1e-13)
    assert solved.gains[0] == 0.0
    for i in (1, 2):
        Q = np.linalg.qr(columns[:, batch.rows()[i]])[0]
        top = np.linalg.eigvalsh(Q.T @ (np.arange(8, 0, -1.0)[:, None] * Q))[-1]
        np.testing.assert_allclose(solved.gains[i], top, rtol=1e-12)


def test_an_exchange_leaves_a_support_that_depends_on_itself():
    columns = np.random.default_rng(1).standard_normal((8, 6))
    columns[:, 5] = columns[:, 0]
    pool = pool_of_columns(columns)
    pool.plain[0, 5] = pool.plain[5, 0] = 1.0 + 1e-15

    supports, gains = pool.exchanged(pool.supports([[0, 5], [1, 2]], 2))

    assert gains[1] > 0.0
    assert np.all(np.isfinite(gains))
    assert all(len(row) == 2 for row in supports.rows())
