"""Matrices of HDF5 files, read where they are: of AnnData (``.h5ad``), of Cell Ranger, and single arrays."""

from dataclasses import replace
from typing import Any

import h5py

from spae_dask.blocks import RowBlocks
from spae_dask.errors import StorageError
from spae_dask.storage.cell_ranger import presented, warn_of_feature_types
from spae_dask.storage.groups import Member, choose_member, is_array, open_sparse_group
from spae_dask.storage.masks import UsualMask, refuse_mask
from spae_dask.storage.readable import check_blocks, check_two_dimensional
from spae_dask.storage.sources.h5_arrays import array_in_file, opened
from spae_dask.storage.sources.h5_blocks import H5Blocks


def open_h5(path: str, array: str | None, mask: str | None = None) -> RowBlocks:
    """A matrix of a file; metadata alone are read, and the names of its columns.

    Parameters
    ----------
    path : str
        The file.
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
    with opened(path) as file:
        if array is None and (mask is None or isinstance(mask, UsualMask)):
            warn_of_feature_types(file, path)
        return blocks_of(choose_member(file, array, path, mask))


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
    if isinstance(node, h5py.Group):
        member = choose_member(presented(node, name), None, name, mask)
        return blocks_of(replace(member, feature_names=feature_names or member.feature_names))
    refuse_mask(mask, name)
    return blocks_of(Member(node, name, feature_names))


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
