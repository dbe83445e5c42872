"""A store by zarr-python and numpy alone: read and dropped, or read for the exact loss of an encoder.

Nothing here knows the package that is measured; its results are checked against this.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
import zarr

from benchmarks.problems import THREADS

Floats = npt.NDArray[np.float64]

PANEL_NBYTES = 64 << 20
"""Bytes of float64 rows that a residual is made of."""


def read_and_drop(path: Path, bounds: Sequence[int], threads: int = THREADS) -> int:
    """Read every row block once with zarr-python; gives back the decoded bytes."""
    read, _ = _reader(path)

    def nbytes(rows: tuple[int, int]) -> int:
        return sum(array.nbytes for array in read(*rows))

    with ThreadPoolExecutor(threads) as pool:
        return sum(pool.map(nbytes, pairwise(bounds)))


def exact_loss(path: Path, bounds: Sequence[int], H: Floats, G: Floats, mean: Floats) -> float:
    """``||X - X H G||^2`` of the store about its own column means, summed row block by row block in float64.

    The residual is linear in X, so whatever ``mean`` is subtracted, its own mean shows what that was off by.

    Parameters
    ----------
    path : Path
        A Zarr array, or a CSR group.
    bounds : sequence of int
        Row bounds of the blocks.
    H : ndarray (d, k)
        Encoder.
    G : ndarray (k, d)
        Decoder.
    mean : ndarray (d,)
        Subtracted from the rows first.
    """
    read, shape = _reader(path)
    used = np.flatnonzero(H.any(axis=1))
    step = max(1, PANEL_NBYTES // (8 * shape[1]))

    def residual(rows: tuple[int, int]) -> tuple[float, Floats]:
        squares, sums = [], np.zeros(shape[1])
        for panel in _dense_panels(read(*rows), shape[1], step):
            panel -= mean
            panel -= (panel[:, used] @ H[used]) @ G
            squares.append(float(np.einsum("ij,ij->", panel, panel)))
            sums += panel.sum(axis=0)
        return math.fsum(squares), sums

    squares, sums = [], np.zeros(shape[1])
    with ThreadPoolExecutor(THREADS) as pool:
        for square, part in pool.map(residual, pairwise(bounds)):
            squares.append(square)
            sums += part
    return math.fsum(squares) - float(sums @ sums) / shape[0]


def _reader(path: Path) -> tuple[Callable[[int, int], tuple[npt.NDArray[Any], ...]], tuple[int, int]]:
    """What reads rows ``start`` to ``stop - 1``: the rows, or values, columns and row pointers; and the shape."""
    node = zarr.open(path, mode="r")
    if isinstance(node, zarr.Array):
        return lambda start, stop: (np.asarray(node[start:stop]),), node.shape
    pointers = np.asarray(node["indptr"][:])

    def read(start: int, stop: int) -> tuple[npt.NDArray[Any], ...]:
        first, last = pointers[start], pointers[stop]
        return node["data"][first:last], node["indices"][first:last], pointers[start : stop + 1] - first

    return read, tuple(node.attrs["shape"])


def _dense_panels(arrays: tuple[npt.NDArray[Any], ...], n_features: int, step: int) -> Iterator[Floats]:
    """Rows in float64, at most ``step`` at a time."""
    if len(arrays) == 1:
        rows: Any = arrays[0]
    else:
        rows = sp.csr_array(arrays, shape=(len(arrays[2]) - 1, n_features))
    for start in range(0, rows.shape[0], step):
        panel = rows[start : start + step]
        yield (panel.toarray() if sp.issparse(panel) else panel).astype(np.float64)
