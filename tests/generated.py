"""Hypothesis strategies shared by the tests of all rooms: ways to cut rows, matrices, types of entries."""

import numpy as np
import scipy.sparse as sp
from hypothesis import strategies as st
from numpy.typing import NDArray

FLOAT_DTYPES = ("float16", "float32", "float64", ">f4")
INTEGER_DTYPES = ("bool", "int8", "uint8", "uint16", "int64", ">i2")
DTYPES = FLOAT_DTYPES + INTEGER_DTYPES


@st.composite
def partitions(draw: st.DrawFn, n_rows: int, max_parts: int = 6) -> tuple[int, ...]:
    """Row bounds ``0 <= ... <= n_rows``: parts of any length, empty ones and single rows among them."""
    cuts = draw(st.lists(st.integers(0, n_rows), max_size=max_parts - 1))
    return (0, *sorted(cuts), n_rows)


@st.composite
def block_bounds(draw: st.DrawFn, max_blocks: int = 40, max_rows: int = 1000) -> tuple[int, ...]:
    """Bounds as a source has them, ``0 = bounds[0] < bounds[1] < ...``: no block is empty, many are one row."""
    sizes = st.one_of(st.just(1), st.integers(1, max_rows))
    return (0, *(int(end) for end in np.cumsum(draw(st.lists(sizes, min_size=1, max_size=max_blocks)))))


@st.composite
def matrices(
    draw: st.DrawFn, min_rows: int = 1, max_rows: int = 40, max_columns: int = 6, dtypes: tuple[str, ...] = DTYPES
) -> NDArray[np.generic]:
    """A small matrix of any type, its columns on different levels; entries are random, but shrink to few and small.

    Only the shape, the type and the seed are drawn entry by entry: laws are broken by shapes, not by digits.
    """
    n, d = draw(st.integers(min_rows, max_rows)), draw(st.integers(1, max_columns))
    dtype = np.dtype(draw(st.sampled_from(dtypes)))
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    values = rng.standard_normal((n, d)) + rng.integers(-3, 4, d)
    if dtype.kind == "b":
        return values > 0
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        return np.clip(np.rint(20 * values), info.min, info.max).astype(dtype)
    return values.astype(dtype)


@st.composite
def csr_matrices(draw: st.DrawFn, max_rows: int = 40, max_columns: int = 6) -> sp.csr_array:
    """CSR rows, some of them empty; columns that are nearly empty, and such as are nearly full."""
    dense = draw(matrices(max_rows=max_rows, max_columns=max_columns, dtypes=("float32", "float64", "int8")))
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    filled = rng.random(dense.shape) < rng.choice([0.05, 0.4, 0.95], dense.shape[1])
    return sp.csr_array(np.where(filled, dense, dense.dtype.type(0)))
