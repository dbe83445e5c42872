"""Files of a table on disk or behind a URL: which they are, opened where they are read, and cut into row blocks."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from dask.utils import natural_sort_key
from zarr.core.sync import sync

from spae_dask.errors import InvalidInput, NotFound, StorageError
from spae_dask.plain_files import beside, refuse_pipes
from spae_dask.storage.remote.address import WRITABLE, Address, is_remote, parse_address
from spae_dask.storage.remote.byte_files import RemoteReader, remote_file
from spae_dask.storage.remote.remote_store import open_remote

PARQUET = (".parquet", ".parq", ".pq")
ARROW = (".arrow", ".feather", ".ipc")
"""Ends of file names."""

ZARR = ("zarr.json", ".zgroup", ".zarray", ".zmetadata")
"""Files that make a folder a Zarr store."""


def is_table(path: str) -> bool:
    """Return True if a path is that of a table: by its name, or as a folder that is no Zarr store.

    Such a folder holds Parquet files, or folders of them called ``key=value``; no deeper ones are looked into.
    """
    if path.lower().rstrip("/").endswith((*PARQUET, *ARROW)):
        return True
    folder = Path(path)
    if "://" in path or not folder.is_dir() or any((folder / name).exists() for name in ZARR):
        return False
    return any(each.name.lower().endswith(PARQUET) or ("=" in each.name and each.is_dir()) for each in folder.iterdir())


def table_files(path: str) -> tuple[str, ...]:
    """Files of a table, in the order of their paths, where numbers count as dask has it; a single file is its own.

    ``part.2`` comes before ``part.10``: so dask reads the folders that it writes.

    Raises
    ------
    NotFound
        If there is nothing, or no file in the folder.
    StorageError
        If the place cannot be listed.
    """
    if "://" in path:
        return _remote_files(path)
    root = Path(path).resolve()
    if not root.exists():
        raise NotFound(
            f"there is nothing at {path}.{beside(path)} Give the path of a Parquet file, of a folder of them, or of an "
            "Arrow file."
        )
    if not root.is_dir():
        return (str(root),)
    found = tuple(sorted(map(str, _parquet_files(root)), key=natural_sort_key))
    if not found:
        raise NotFound(
            f"{path} is a folder without files that end in {', '.join(PARQUET)}. Give a folder with such files."
        )
    return found


def _parquet_files(root: Path) -> Iterator[Path]:
    for folder, folders, names in os.walk(root):
        # by convention, names that begin so are metadata or unfinished files
        folders[:] = [name for name in folders if not name.startswith(("_", "."))]
        for name in names:
            if name.lower().endswith(PARQUET) and not name.startswith(("_", ".")):
                yield Path(folder, name)


def _remote_files(path: str) -> tuple[str, ...]:
    address = _object_address(path)
    names = _by_fsspec(path) if address is None else _objects(address)
    if not names:
        raise NotFound(f"there is no Parquet or Arrow file at {path}. Check the address.")
    return names


def _object_address(path: str) -> Address | None:
    """The address of a URL of an object store; None for other URLs, which fsspec reads."""
    address = parse_address(path) if is_remote(path) else None
    return address if address is not None and address.scheme in WRITABLE else None


def _objects(address: Address) -> tuple[str, ...]:
    file = remote_file(address)
    if sync(file.folder.exists(file.base)):
        return (address.url,)
    below = (each.path for each in sync(open_remote(address).objects_below("")) if _wanted(each.path))
    return tuple(f"{address.url}/{path}" for path in sorted(below, key=natural_sort_key))


def _by_fsspec(path: str) -> tuple[str, ...]:
    import fsspec

    try:
        system, inside = fsspec.core.url_to_fs(path)
        if system.isfile(inside):
            return (path,)
        wanted = (each for each in system.find(inside) if _wanted(each.removeprefix(inside)))
        found = sorted(wanted, key=natural_sort_key)
        return tuple(str(system.unstrip_protocol(each)) for each in found)
    except ImportError as error:
        raise InvalidInput(f"{path} needs a library that is not installed ({error}).") from error
    except Exception as error:  # file systems raise exceptions of any type: no connection, no permission
        raise StorageError(
            f"{path} cannot be listed: {type(error).__name__}: {error}. Check the address and your permissions."
        ) from error


def _wanted(below: str) -> bool:
    parts = below.lower().strip("/").split("/")
    return parts[-1].endswith(PARQUET) and not any(part.startswith(("_", ".")) for part in parts)


@contextmanager
def opened(file: str) -> Iterator[Any]:
    """A file, open for reading in bytes."""
    if "://" not in file:
        refuse_pipes(file)
        with open(file, "rb", buffering=0) as source:
            yield source
    elif (address := _object_address(file)) is not None:
        with RemoteReader(remote_file(address)) as source:
            yield source
    else:
        import fsspec

        with fsspec.open(file, "rb") as source:
            yield source


@dataclass(frozen=True)
class FileParts:
    """Metadata of a table file, known before its rows are read.

    Attributes
    ----------
    file : str
        Path or URL.
    rows : tuple of int
        Number of rows of each row group or record batch.
    types : dict of numpy.dtype
        Types of the chosen columns, by name.
    nulls : bool
        True if columns of other types than floats have nulls, or may have them.
    part_nbytes : int
        Bytes held for the largest part while it is decoded, at most.
    """

    file: str
    rows: tuple[int, ...]
    types: dict[str, np.dtype[Any]]
    nulls: bool
    part_nbytes: int


@dataclass(frozen=True)
class Piece:
    """A row block: whole parts of one file, or some rows of a part.

    Attributes
    ----------
    file : str
        Path or URL.
    first, last : int
        The parts ``first`` to ``last - 1``.
    skip, rows : int
        Rows to leave out at their beginning, and to take.
    """

    file: str
    first: int
    last: int
    skip: int
    rows: int


def cut(files: Sequence[FileParts], row_nbytes: int, target_nbytes: int, most_nbytes: int) -> Iterator[Piece]:
    """Row blocks of a table: small parts gathered up to ``target_nbytes``, one larger than ``most_nbytes`` cut."""
    target, most = max(1, target_nbytes // row_nbytes), max(1, most_nbytes // row_nbytes)
    for each in files:
        first = held = 0
        for number, rows in enumerate(each.rows):
            if held and held + rows > target:
                yield Piece(each.file, first, number, 0, held)
                first, held = number, 0
            if rows > most:
                n_cuts = -(-rows // most)
                length = -(-rows // n_cuts)
                for skip in range(0, rows, length):
                    yield Piece(each.file, number, number + 1, skip, min(length, rows - skip))
                first = number + 1
            else:
                held += rows
        if held:
            yield Piece(each.file, first, len(each.rows), 0, held)
