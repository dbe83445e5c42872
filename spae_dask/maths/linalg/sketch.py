"""Rows of random sketch matrices, regenerated from a seed and a row range.

A row sketch is W = S X with S (s, n) random. Column i of S, which multiplies row i of X, depends on the seed and on i
alone: whoever reads row i, in whatever block, draws the same numbers. The generator is counter based (Philox, Salmon et
al. 2011), so that any range of rows is reached at once, and every row takes a fixed number of draws.
"""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

DRAWS_PER_STEP = 4
"""64-bit numbers Philox makes at each value of its counter."""

EXPONENTIAL_STREAM = 1 << 32
"""Stream of exponential draws, beyond those sketches use."""

SIGN_STREAM = 1 << 33
"""First of the streams of row signs: one for each stream of a sketch."""

Draw = Callable[[int, int, int, int, int], "Floats"]
"""``(seed, stream, first_row, n_rows, size)`` to rows of S."""


def _raw(seed: int, stream: int, first_row: int, n_rows: int, draws_per_row: int) -> npt.NDArray[np.uint64]:
    """Raw 64-bit draws (n_rows, draws_per_row) of the rows; ``draws_per_row`` is a multiple of 4."""
    generator = np.random.Philox(key=np.array([seed, stream], dtype=np.uint64))
    generator.advance(first_row * (draws_per_row // DRAWS_PER_STEP))
    raw: npt.NDArray[np.uint64] = generator.random_raw(n_rows * draws_per_row)
    return raw.reshape(n_rows, draws_per_row)


def gaussian_rows(seed: int, stream: int, first_row: int, n_rows: int, size: int) -> Floats:
    """Columns ``first_row`` to ``first_row + n_rows - 1`` of a Gaussian S, as rows.

    Parameters
    ----------
    seed : int
        Of the run.
    stream : int
        Different sketches of a run use different streams.
    first_row, n_rows : int
        Range of rows of X.
    size : int
        s, rows of S.

    Returns
    -------
    ndarray (n_rows, s)
        Independent normal entries of variance 1/s (Box & Muller 1958, which takes a fixed number of draws).
    """
    pairs = -(-size // 2)
    draws = -(-2 * pairs // DRAWS_PER_STEP) * DRAWS_PER_STEP
    raw = _raw(seed, stream, first_row, n_rows, draws)[:, : 2 * pairs]
    # 53 random bits, in (0, 1]: the logarithm is finite
    uniform = ((raw >> np.uint64(11)) + np.uint64(1)) * 2.0**-53
    radius = np.sqrt(-2.0 / size * np.log(uniform[:, :pairs]))
    angle = 2.0 * np.pi * uniform[:, pairs:]
    return np.concatenate([radius * np.cos(angle), radius * np.sin(angle)], axis=1)[:, :size]


def sign_rows(seed: int, stream: int, first_row: int, n_rows: int, size: int) -> Floats:
    """Like :func:`gaussian_rows`, with entries ``+-1/sqrt(s)``: sub-Gaussian, one random bit each.

    Returns
    -------
    ndarray (n_rows, s)
    """
    words = -(-size // (64 * DRAWS_PER_STEP)) * DRAWS_PER_STEP
    raw = _raw(seed, stream, first_row, n_rows, words)
    bits = np.unpackbits(raw.astype("<u8").view(np.uint8).reshape(n_rows, 8 * words), axis=1, count=size)
    signs: Floats = (2.0 * bits - 1.0) / np.sqrt(size)
    return signs


def row_signs(seed: int, stream: int, first_row: int, n_rows: int) -> Floats:
    """Random signs (n_rows,), one a row of X, independent of the sketch of the same stream."""
    raw = _raw(seed, SIGN_STREAM + stream, first_row, n_rows, DRAWS_PER_STEP)[:, 0]
    signs: Floats = 1.0 - 2.0 * (raw & np.uint64(1)).astype(np.float64)
    return signs


def group_bounds(first_row: int, n_rows: int, group: int) -> npt.NDArray[np.intp]:
    """Bounds, among ``n_rows`` rows, of groups that the number of a row in the matrix decides.

    The first and the last group may lie partly among other rows.
    """
    inner = np.arange(group - first_row % group, n_rows, group)
    return np.concatenate([[0], inner, [n_rows]]).astype(np.intp)


def grouped_rows(draw: Draw, seed: int, stream: int, first_row: int, n_rows: int, size: int, group: int) -> Floats:
    """Like ``draw``, with ``group`` consecutive rows of X sharing a row of S up to their signs.

    Returns
    -------
    ndarray (n_rows, s)
        ``sign_i G[i // group]`` with G drawn by ``draw`` and keyed by the number of the group. ``E[S'S] = I`` still,
        because the signs are independent.
    """
    groups = np.arange(first_row, first_row + n_rows) // group
    first_group = first_row // group
    G = draw(seed, stream, first_group, -(-(first_row + n_rows) // group) - first_group, size)
    rows: Floats = row_signs(seed, stream, first_row, n_rows)[:, None] * G[groups - first_group]
    return rows


def exponential_draws(seed: int, first_row: int, n_rows: int) -> Floats:
    """Standard exponential numbers (n_rows,), one a row of X, keyed like the sketches but apart from all of them."""
    raw = _raw(seed, EXPONENTIAL_STREAM, first_row, n_rows, DRAWS_PER_STEP)[:, 0]
    draws: Floats = -np.log(((raw >> np.uint64(11)) + np.uint64(1)) * 2.0**-53)
    return draws
