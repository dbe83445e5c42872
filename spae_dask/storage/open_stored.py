"""Matrices that are stored: paths, URLs and Zarr objects become row blocks. Format libraries are imported when used."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spae_dask.blocks import RowBlocks
from spae_dask.errors import InvalidInput, NotFound, SpaeError, StorageError
from spae_dask.plain_files import beside, refuse_pipes
from spae_dask.storage.checks import refuse_code
from spae_dask.storage.masks import refuse_mask
from spae_dask.storage.readable import (
    COMPANIONS,
    HDF5,
    NETCDF,
    STORED,
    check_blocks,
    check_objects,
    check_two_dimensional,
    grid_files,
    many_files,
    refuse_unread,
    within_hdf5,
)
from spae_dask.storage.remote.address import Address
from spae_dask.storage.sources.store_at import store_at
from spae_dask.storage.tables.csv_rows import SUFFIXES

if TYPE_CHECKING:
    from spae_dask.storage.grids.xarray_blocks import GridCells
    from spae_dask.storage.groups import Member

ON_DISK = (*SUFFIXES, ".nc", *HDF5, *COMPANIONS)
"""Ends of names of files that are read from a disk, but not from URLs."""


def open_table_file(path: str, array: str | None, columns: Sequence[str] | None) -> RowBlocks:
    """A Parquet file or folder, or an Arrow file."""
    if array is not None:
        raise InvalidInput(
            f"array={array!r} names a member of a Zarr group, but {path} is a table. Choose its columns with "
            f"--columns {array} (columns=[{array!r}])."
        )
    try:
        from spae_dask.storage.tables.tabular_blocks import open_table
    except ModuleNotFoundError as error:
        raise InvalidInput(
            f"{path} needs a library that is not installed ({error}). Install it: `pip install 'spae-dask[tabular]'`."
        ) from error
    return open_table(path, columns)


@dataclass(frozen=True)
class InGrid:
    """Dimensions and weights that make rows and columns of a grid.

    Attributes
    ----------
    sample_dim : str or sequence of str, optional
        Dimension of the samples, or several.
    weights : str, optional
        ``coslat``, or a variable over the cells.
    like : GridCells, optional
        Cells of an encoder that will be applied, in place of all of these.
    """

    sample_dim: str | Sequence[str] | None = None
    weights: str | None = None
    like: "GridCells | None" = None

    def refuse(self, called: str) -> None:
        """Refuse both for data that are no grid.

        Raises
        ------
        InvalidInput
            If one is given.
        """
        if self.weights is not None or self.sample_dim is not None:
            given = f"weights={self.weights!r}" if self.weights is not None else f"sample_dim={self.sample_dim!r}"
            raise InvalidInput(
                f"{given} is for grids, such as a netCDF file or a Zarr dataset with named dimensions, and {called} is "
                "none. Leave it out, or give such a grid."
            )


def open_grid_at(
    path: str, array: str | None, mask: str | None, how: InGrid, *, decode: bool, store: Any = None
) -> RowBlocks:
    """A variable of a netCDF file or a Zarr dataset, by rows of samples; ``store`` is the opened one at a URL."""
    try:
        from spae_dask.storage.grids.xarray_files import open_grid, open_like_grid
    except ImportError as error:
        raise InvalidInput(
            f'{path} needs xarray, which is not installed. Run `pip install "spae-dask[xarray]"`.'
        ) from error
    if how.like is not None:
        return open_like_grid(path, how.like, variable=array, decode=decode, store=store)
    return open_grid(
        path, variable=array, sample_dim=how.sample_dim, mask=mask, weights=how.weights, decode=decode, store=store
    ).rows


def open_path(path: str, array: str | None, mask: str | None, how: InGrid, *, decode: bool) -> RowBlocks:
    """A local path, or a URL that fsspec opens."""
    path = path.removeprefix("file://")  # by its plain path, without a URL layer
    if path.endswith((".npy", *COMPANIONS)):
        how.refuse(path)
    if path.endswith(".npy"):
        from spae_dask.storage.sources.npy_blocks import NpyBlocks

        refuse_mask(mask, path)
        blocks = NpyBlocks(str(Path(path).resolve()))
        check_two_dimensional(len(blocks.stored_shape), blocks.stored_shape, path)
        return blocks
    if path.endswith(tuple(COMPANIONS)):
        from spae_dask.storage.genetics import open_genotypes

        refuse_mask(mask, path)
        return open_genotypes(path, array, decode=decode)
    if within_hdf5(path) is not None:
        return _open_h5(path, array, mask, how, decode=decode)
    if path.lower().endswith(NETCDF) or grid_files(path) is not None:
        refuse_pipes(path)
        return open_grid_at(str(Path(path).resolve()), array, mask, how, decode=decode)
    if not Path(path).is_dir():
        refuse_unread(path)
    return _open_zarr_path(path, array, mask, how, decode=decode)


def _open_h5(path: str, array: str | None, mask: str | None, how: InGrid, *, decode: bool) -> RowBlocks:
    if find_spec("h5py") is None:
        raise InvalidInput(f'{path} needs h5py, which is not installed. Run `pip install "spae-dask[anndata]"`.')
    from spae_dask.storage.h5_files import is_grid, open_h5

    if is_grid(path, array):
        return open_grid_at(str(Path(path).resolve()), array, mask, how, decode=decode)
    how.refuse(path)
    return open_h5(path, array, mask)


def open_address(address: Address, array: str | None, mask: str | None, how: InGrid, *, decode: bool) -> RowBlocks:
    """An address on an object store or a web server."""
    if address.key.endswith(".npy"):
        from spae_dask.storage.remote.byte_files import remote_file
        from spae_dask.storage.sources.npy_blocks import NpyBlocks

        refuse_mask(mask, address.url)
        blocks = NpyBlocks(address.url, remote_file(address))
        check_two_dimensional(len(blocks.stored_shape), blocks.stored_shape, address.url)
        return blocks
    refuse_unread(address.key)
    if address.key.endswith(ON_DISK):
        raise InvalidInput(
            f"{address} cannot be read directly, nor from a URL. Download it, and convert it once with `spae ingest`."
        )
    from spae_dask.storage.remote.remote_store import open_remote, reach
    from spae_dask.storage.writing.unfinished import absent

    store = open_remote(address)
    reach(store)
    node = _opened(store, address.url, lambda: absent(store, f"the URL of {STORED}"))
    member = _chosen(node, array, address.url, mask)
    if member.is_grid:
        return open_grid_at(address.url, array, mask, how, decode=decode, store=store)
    how.refuse(address.url)
    return _blocks_of(member, address.url, decode=decode)


def _open_zarr_path(path: str, array: str | None, mask: str | None, how: InGrid, *, decode: bool) -> RowBlocks:
    from spae_dask.storage.checks import refuse_odd_metadata

    where = path if "://" in path else str(Path(path).resolve())

    def absence() -> NotFound | InvalidInput:
        many = None if "://" in path else many_files(path)
        return many or NotFound(f"{path} is not a Zarr array or group. Give the path of {STORED}.")

    if "://" not in path:
        if not Path(where).exists():
            raise many_files(path) or NotFound(f"there is nothing at {path}.{beside(path)} Give the path of {STORED}.")
        refuse_odd_metadata(Path(where))
    node = _opened(where, path, absence)
    member = _chosen(node, array, path, mask)
    if member.is_grid:
        return open_grid_at(where, array, mask, how, decode=decode)
    how.refuse(path)
    return _blocks_of(member, path, decode=decode)


def _opened(where: Any, path: str, absence: Callable[[], NotFound | InvalidInput]) -> Any:
    import zarr

    try:
        return zarr.open(store_at(where), mode="r")
    except SpaeError:
        raise
    except FileNotFoundError as error:
        raise absence() from error
    except ImportError as error:
        raise InvalidInput(
            f"{path} needs a library that is not installed ({error}). Install the library that fsspec names for it."
        ) from error
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidInput(f"the Zarr metadata of {path} cannot be understood: {error}") from error
    except Exception as error:  # stores raise exceptions of any type: no connection, no permission
        raise StorageError(
            f"{path} cannot be opened: {type(error).__name__}: {error}. Check the address, the server, and "
            "your permissions."
        ) from error


def open_zarr_object(
    node: Any, array: str | None, name: str, mask: str | None = None, *, decode: bool = True
) -> RowBlocks:
    """A ``zarr.Array``, or the member ``array`` of a ``zarr.Group``; ``mask`` and ``decode`` as for ``open_matrix``."""
    from spae_dask.storage.groups import refuse_grid

    member = _chosen(node, array, name, mask)
    refuse_grid(member)
    return _blocks_of(member, name, decode=decode)


def _chosen(node: Any, array: str | None, name: str, mask: str | None) -> "Member":
    import zarr

    from spae_dask.storage.groups import Member, choose_member

    if isinstance(node, zarr.Group):
        with _metadata_of_members(name):
            member = choose_member(node, array, name, mask)
            return member if member.is_grid else replace(member, node=_as_stored(member.node))
    if array is not None:
        raise InvalidInput(f"{name} is an array, so it has no member {array!r}. Leave out the name of the member.")
    refuse_mask(mask, name)
    return Member(node, name)


def _blocks_of(member: "Member", name: str, *, decode: bool) -> RowBlocks:
    """Row blocks of what was chosen of a group or an array of that name."""
    import zarr

    from spae_dask.storage.bounded import bounded
    from spae_dask.storage.groups import is_calls, open_sparse_group
    from spae_dask.storage.sources.checked_store import grid_of
    from spae_dask.storage.sources.declared import coding_of, declared_conversion
    from spae_dask.storage.sources.dosages import CALLED, Dosages
    from spae_dask.storage.sources.sentinel import SentinelBlocks
    from spae_dask.storage.sources.zarr_blocks import ZarrBlocks

    if isinstance(member.node, zarr.Group):
        with _metadata_of_members(name):
            return open_sparse_group(member)
    refuse_code(member.node, member.name)
    member = replace(member, node=bounded(member.node))
    matrix = Dosages(member.node) if is_calls(member.node) else member.node
    check_two_dimensional(matrix.ndim, matrix.shape, member.name)
    if not isinstance(member.node.metadata.attributes, dict):
        raise InvalidInput(
            f"the Zarr metadata of {member.name} cannot be understood: its attributes are a "
            f"{type(member.node.metadata.attributes).__name__}, not an object. Restore them, or write the "
            "store again."
        )
    if isinstance(matrix, Dosages):
        conversion, coding = CALLED if decode else None, tuple(CALLED.attributes or ())
    else:
        conversion, coding = declared_conversion(matrix, member.name) if decode else None, coding_of(matrix)
    passed_over = () if decode else coding
    entry_nbytes = None if conversion is None else conversion.dtype.itemsize
    blocks = ZarrBlocks(matrix, names=member.feature_names, entry_nbytes=entry_nbytes, passed_over=passed_over)
    if 0 not in blocks.shape:  # or else it is refused as empty
        check_blocks(blocks.shape, blocks.rows_per_block, member.name)
        check_objects(grid_of(member.node), member.name)
    return member.chosen(blocks if conversion is None else SentinelBlocks(blocks, conversion))


def _as_stored(node: Any) -> Any:
    """A member of a group by its own metadata: the group's consolidated copy of them may be of an earlier time."""
    import zarr

    try:
        if isinstance(node, zarr.Group):
            return zarr.open_group(node.store_path, mode="r", use_consolidated=False)
        return zarr.open_array(node.store_path, mode="r")
    except FileNotFoundError:  # only the copy exists
        return node


@contextmanager
def _metadata_of_members(name: str) -> Iterator[None]:
    """The metadata of a group's members are read only when they are looked for, and can be wrong in any way."""
    try:
        yield
    except SpaeError:
        raise
    except OSError as error:
        raise StorageError(
            f"a member of {name} cannot be opened: {type(error).__name__}: {error}. Check that it exists, and "
            "check your permissions. Or restore it from a copy."
        ) from error
    except Exception as error:
        raise InvalidInput(
            f"the Zarr metadata of a member of {name} cannot be understood ({type(error).__name__}: {error}). "
            "Restore it from a copy, or write the store again."
        ) from error
