"""Correlation and covariance matrices as files hold them, and those that come with the package."""

import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from spae_dask.datasets import load_pitprops
from spae_dask.errors import InvalidInput, MemoryBudgetExceeded
from spae_dask.estimators.runtime import resources_for
from spae_dask.quantities import format_nbytes
from spae_dask.storage.masks import ALL
from spae_dask.storage.open import open_matrix
from spae_dask.strategies.base import finish_nbytes

Floats = npt.NDArray[np.float64]

BUILT_IN: Mapping[str, Callable[[], tuple[Floats, tuple[str, ...]]]] = MappingProxyType({"pitprops": load_pitprops})
"""Matrices by the names pipelines give them."""


def load_covariance(
    source: str, *, array: str | None = None, decode: bool = True, memory: str | None = None
) -> tuple[Floats, tuple[str, ...] | None]:
    """Read a correlation or covariance matrix.

    Parameters
    ----------
    source : str
        A name in :data:`BUILT_IN`; an ``.npz`` file of one array, either square or the upper triangle by rows; or
        anything square that :func:`spae_dask.open_matrix` opens.
    array : str, optional
        Member to read, if it is a Zarr group.
    decode : bool, default True
        As for :func:`spae_dask.open_matrix`.
    memory : str, optional
        Bytes this process may use.

    Returns
    -------
    matrix : ndarray (d, d)
        Matrix as stored. Its users check that it is symmetric and positive semidefinite.
    names : tuple of str or None
        Names of the columns, if they are known.

    Raises
    ------
    InvalidInput, StorageError
        If it is not a square matrix of real numbers, or cannot be read.
    MemoryBudgetExceeded
        If work on it would not fit in the memory.
    """
    if source in BUILT_IN:
        return BUILT_IN[source]()
    if source.endswith(".npz"):
        return _unpacked(source), None
    blocks = open_matrix(source, array=array, mask=ALL, decode=decode)
    n, d = blocks.shape
    if n != d:
        raise InvalidInput(
            f"{source} is {n} x {d}, but a correlation or covariance matrix is square. For rows of samples "
            "write x_is = 'data'."
        )
    limit = resources_for(None, memory).memory_limit
    if finish_nbytes(d) > limit:
        raise MemoryBudgetExceeded(
            f"comparing methods on a {d} x {d} matrix takes {format_nbytes(finish_nbytes(d))} in this "
            f"process, whose limit is {format_nbytes(limit)}. Nothing was read."
        )
    rows = [np.asarray(blocks.read(i), dtype=np.float64) for i in range(len(blocks.bounds) - 1)]
    return np.vstack(rows), getattr(blocks, "feature_names", None)


def _unpacked(source: str) -> Floats:
    try:
        with Path(source).open("rb") as file, np.load(file, allow_pickle=False) as stored:
            if len(stored.files) != 1:
                raise InvalidInput(f"{source} contains {len(stored.files)} arrays. Give a file with one.")
            found = np.asarray(stored[stored.files[0]], dtype=np.float64)
    except (zipfile.BadZipFile, ValueError, EOFError) as error:
        if isinstance(error, InvalidInput):
            raise
        raise InvalidInput(f"{source} is not an .npz file of numbers: {error}.") from error
    if found.ndim != 1:
        return found
    d = int((np.sqrt(8 * found.size + 1) - 1) / 2)
    if d * (d + 1) // 2 != found.size or d == 0:
        raise InvalidInput(
            f"{source} contains {found.size} numbers, which is not the size of the upper triangle of a square matrix."
        )
    matrix = np.zeros((d, d))
    matrix[np.triu_indices(d)] = found
    unpacked: Floats = matrix + np.triu(matrix, 1).T
    return unpacked
