"""Checks of stored objects before they are read: codecs that run code, and impossible files.

Some local files cannot be what a Zarr store says they are: pipes, devices, and files far larger than what they hold.
Zarr reads each of them whole. A read of a pipe would wait without end. A device, or a file of holes that takes no room
in an archive, would fill the memory. So would a small chunk that unpacks to gigabytes:
:mod:`spae_dask.storage.bounded` refuses those.
"""

import math
import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import zarr
from zarr.abc.store import Store
from zarr.storage import LocalStore, ZipStore

from spae_dask.errors import InvalidInput, StorageError
from spae_dask.quantities import format_nbytes

METADATA = ("zarr.json", ".zarray", ".zgroup", ".zattrs", ".zmetadata")

LARGEST_METADATA = 1 << 28
"""Bytes: names of millions of columns fit."""

CHUNK = "entries of that chunk, in any encoding,"

EXTRA_SHARE = 0.25
EXTRA_NBYTES = 1 << 16
"""By which an encoded chunk may be larger than a decoded one: codecs store what they cannot compress, with headers."""

INNER_NBYTES = 128
"""Bytes of a shard for each of its chunks: the entry in the index, and headers of codecs."""


def refuse_odd_metadata(folder: Path) -> None:
    """Look at the metadata files of a local store before Zarr reads them.

    Raises
    ------
    StorageError
        If one of them is no plain file, or has more than `LARGEST_METADATA` bytes.
    """
    for name in METADATA:
        _refuse(folder / name, LARGEST_METADATA, "metadata")


def refuse_odd_chunks(array: "zarr.Array[Any]", store: Store, keys: Iterable[str]) -> None:
    """Look at some chunks of an array before they are read; only local folders and zip files are looked at.

    Parameters
    ----------
    array : zarr.Array
        Array of numbers.
    store : zarr.abc.store.Store
        Store that holds the array. For an array with counted chunks it is the store beneath.
    keys : iterable of str
        Keys of chunks, or of shards, below the array; they may be absent.

    Raises
    ------
    StorageError
        If one of them is no plain file, or has far more bytes than its entries.
    """
    if isinstance(store, LocalStore):
        most, folder = _largest_chunk(array), Path(store.root) / array.path
        for key in keys:
            _refuse(folder / key, most, CHUNK)
    if isinstance(store, ZipStore):
        most = _largest_chunk(array)
        for key in keys:
            with suppress(KeyError):  # the reader reports it
                entry = store._zf.getinfo(f"{array.path}/{key}".lstrip("/"))
                _refuse_large(store.path / entry.filename, entry.file_size, most, CHUNK)


def _largest_chunk(array: "zarr.Array[Any]") -> int:
    unit = math.prod(array.shards or array.chunks)
    n_chunks = unit // max(1, math.prod(array.chunks))
    return int(unit * array.dtype.itemsize * (1 + EXTRA_SHARE)) + n_chunks * INNER_NBYTES + EXTRA_NBYTES


def refuse_odd_archive(path: Path) -> None:
    """Look at the sizes of the metadata files in a zipped store before Zarr unpacks them.

    Raises
    ------
    StorageError
        If one of them has more than `LARGEST_METADATA` bytes.
    """
    with ZipFile(path) as archive:
        for each in archive.infolist():
            if each.filename.rpartition("/")[2] in METADATA:
                _refuse_large(path / each.filename, each.file_size, LARGEST_METADATA, "metadata")


def _refuse(path: Path, most: int, what: str) -> None:
    try:
        found = path.stat()
    except OSError:  # the reader reports it
        return
    if stat.S_ISDIR(found.st_mode):
        return
    if not stat.S_ISREG(found.st_mode):
        raise StorageError(f"{path} is a pipe, a socket or a device, not a file. Restore the store from a copy.")
    _refuse_large(path, found.st_size, most, what)


def _refuse_large(path: Path, nbytes: int, most: int, what: str) -> None:
    if nbytes > most:
        raise StorageError(
            f"{path} has {format_nbytes(nbytes)}, but {what} take at most {format_nbytes(most)}. It is "
            "damaged, or was made to fill the memory. Restore it from a copy, or do not use this store."
        )


CODECS = ("pickle",)
"""Ids of codecs that run code."""


def refuse_code(array: Any, name: str) -> None:
    """Look at the codecs of an array before anything of it is decoded.

    Parameters
    ----------
    array : zarr.Array or another
        Only those of Zarr have such codecs.
    name : str
        Name of the array in messages.

    Raises
    ------
    InvalidInput
        If one of them runs code.
    """
    metadata = getattr(array, "metadata", None)
    listed = (*(getattr(metadata, "filters", None) or ()), getattr(metadata, "compressor", None))
    for each in (*listed, *(getattr(metadata, "codecs", None) or ())):
        found = str(getattr(each, "codec_id", None) or getattr(each, "codec_name", ""))
        if found.rpartition(".")[2] in CODECS:
            raise InvalidInput(
                f"{name} uses the codec {found!r}, which runs code that comes with the data, so it is never "
                "decoded. Ask the writer of the store to keep numbers as numbers, and names as strings."
            )
