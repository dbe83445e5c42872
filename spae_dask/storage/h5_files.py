"""Matrices of HDF5 files, read where they are: of AnnData (``.h5ad``), of Cell Ranger, and single arrays."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt

from spae_dask.blocks import RowBlocks, uniform_bounds
from spae_dask.errors import InvalidInput, NotFound, StorageError
from spae_dask.plain_files import beside
from spae_dask.storage.cell_ranger import presented, warn_of_feature_types
from spae_dask.storage.groups import Member, choose_member, is_array, means_grid, open_sparse_group, refuse_grid
from spae_dask.storage.masks import Usual, refuse_mask
from spae_dask.storage.readable import check_blocks, check_two_dimensional, within_hdf5
from spae_dask.storage.sources.h5_arrays import H5Array, array_in_file
from spae_dask.storage.sources.runs import read_run
from spae_dask.storage.sources.zarr_blocks import MAX_BLOCK_NBYTES, TARGET_BLOCK_NBYTES


@contextmanager
def opened(path: str) -> Iterator[Any]:
    """The file, or the member that the path names in it, to look at its metadata.

    A file of Cell Ranger is presented in the layout of AnnData.

    Raises
    ------
    NotFound
        If there is no such file, or no such member in it.
    InvalidInput
        If it is something else than an HDF5 file.
    StorageError
        If it is cut off or damaged, may not be read, or another process is writing to it.
    """
    path, inside = within_hdf5(path) or (path, "")
    if not Path(path).exists():
        raise NotFound(f"there is no file {path}.{beside(path)} Give the path of an existing HDF5 file.")
    try:
        file = h5py.File(path, "r")
    except OSError as error:
        if Path(path).is_file() and not isinstance(error, PermissionError) and not h5py.is_hdf5(path):
            raise InvalidInput(
                f"{path} is not an HDF5 file ({error}). Give a file of AnnData, Cell Ranger or h5py."
            ) from error
        raise StorageError(
            f"{path} cannot be opened: {error}. It may be damaged, you may not read it, or another process "
            "may be writing to it. Restore it from a copy, check your permissions, or wait until it is "
            "written."
        ) from error
    try:
        with file:
            root = presented(file, path)
            member = root.get(inside) if inside else root
            if member is None:
                raise NotFound(f"{path} has no member {inside!r}; it has {', '.join(sorted(root)) or 'none'}.")
            yield member
    except (OSError, RuntimeError, KeyError) as error:
        if isinstance(error, InvalidInput | NotFound | StorageError):
            raise
        raise StorageError(
            f"the metadata of {path} cannot be read ({type(error).__name__}: {error}). The file was damaged: restore "
            "it from a copy, or write it again."
        ) from error


def open_h5(path: str, array: str | None, mask: str | None = None) -> RowBlocks:
    """A matrix of a file; metadata alone are read, and the names of its columns.

    Parameters
    ----------
    path : str
        The file, or a member of it, such as ``cells.h5mu/mod/rna``.
    array : str, optional
        Matrix to read, such as ``layers/counts``; by default ``X`` of AnnData, or the only matrix of another file.
    mask : str, optional
        As for ``open_matrix``.

    Raises
    ------
    NotFound
        If there is no such file, or no such matrix in it.
    InvalidInput
        If it is no HDF5 file, or the matrix is stored by columns.
    StorageError
        If the file is damaged, or may not be read.
    """
    with opened(path) as node:
        if array is None and (mask is None or isinstance(mask, Usual)):
            warn_of_feature_types(node, path)
        return blocks_of(_chosen(node, array, path, mask))


def is_grid(path: str, array: str | None) -> bool:
    """Return True if a whole file is a dataset of grids, as netCDF 4 writes it, and a grid of it is meant."""
    if (within_hdf5(path) or ("", ""))[1] != "" or not Path(path).is_file():
        return False
    with opened(path) as node:
        return not is_array(node) and means_grid(node, array)


def open_h5_object(
    node: Any, name: str, feature_names: tuple[str, ...] | None = None, mask: str | None = None
) -> RowBlocks:
    """A matrix behind an open ``h5py.Dataset`` or ``h5py.Group``.

    Raises
    ------
    StorageError
        If its file is closed.
    """
    if not node:
        raise StorageError(
            f"{name} cannot be read because its file is closed. Open it again, or give the path of the file."
        )
    member = _chosen(node if is_array(node) else presented(node, name), None, name, mask)
    return blocks_of(replace(member, feature_names=feature_names or member.feature_names))


def _chosen(node: Any, array: str | None, name: str, mask: str | None) -> Member:
    """The matrix meant by an array or a group of a file."""
    if not is_array(node):
        member = choose_member(node, array, name, mask)
        refuse_grid(member)
        return member
    if array is not None:
        raise InvalidInput(f"{name} is an array, so it has no member {array!r}. Leave out the name of the member.")
    refuse_mask(mask, name)
    return Member(node, name)


def blocks_of(member: Member) -> RowBlocks:
    """Row blocks of what was chosen."""
    if is_array(member.node):
        array = array_in_file(member.node)
        check_two_dimensional(array.ndim, array.shape, member.name)
        blocks = H5Blocks(array, member.feature_names)
        if 0 not in blocks.shape:  # or else it is refused as empty
            check_blocks(blocks.shape, blocks.rows_per_block, member.name)
        return member.chosen(blocks)
    return open_sparse_group(member, array_in_file)


@dataclass(frozen=True, eq=False)
class H5Blocks:
    """A two-dimensional array in an HDF5 file, read in row blocks aligned with its chunks.

    Parameters
    ----------
    array : H5Array
        The array (n, d).
    feature_names : tuple of str, optional
        Names of the columns.
    """

    array: H5Array
    feature_names: tuple[str, ...] | None = None
    in_process: bool = False

    @property
    def shape(self) -> tuple[int, int]:
        """``(n, d)``."""
        n, d = self.array.shape
        return n, d

    @property
    def dtype(self) -> np.dtype[np.generic]:
        """Type of the entries, in native byte order."""
        native: np.dtype[np.generic] = self.array.dtype.newbyteorder("=")
        return native

    @property
    def rows_per_block(self) -> int:
        """Whole rows of chunks up to the target; a part of one where a single row of chunks is too large."""
        n, chunk_rows = self.shape[0], min(self.array.chunks[0], self.shape[0])
        band = chunk_rows * self._row_nbytes
        if band <= MAX_BLOCK_NBYTES:
            return min(n, chunk_rows * max(1, TARGET_BLOCK_NBYTES // max(1, band)))
        return max(1, chunk_rows // -(-band // MAX_BLOCK_NBYTES))

    @property
    def decodes_per_chunk(self) -> int:
        """Number of times that a pass decodes each chunk: 1 unless a row of chunks is read in parts."""
        return -(-min(self.array.chunks[0], self.shape[0]) // self.rows_per_block)

    @property
    def read_nbytes(self) -> int:
        """One decoded chunk, beside its encoded form, and what HDF5 caches: chunks are decoded one after another."""
        return 3 * int(np.prod(self.array.chunks)) * self.array.dtype.itemsize

    @property
    def bounds(self) -> range | tuple[int, ...]:
        """Row bounds of the blocks."""
        return uniform_bounds(self.shape[0], self.rows_per_block)

    @property
    def _row_nbytes(self) -> int:
        return self.shape[1] * self.array.dtype.itemsize

    def read(self, i: int) -> npt.NDArray[np.generic]:
        """Rows of block ``i``.

        Raises
        ------
        StorageError
            If they cannot be read or decoded.
        """
        start = i * self.rows_per_block
        rows: npt.NDArray[Any] = read_run(self.array, start, min(start + self.rows_per_block, self.shape[0]))
        return rows.astype(self.dtype, copy=False)

    @property
    def files(self) -> tuple[str, ...]:
        """The file."""
        return (self.array.path,)

    def describe(self) -> str:
        """Return the place of the array."""
        return self.array.place
