"""Local files that cannot be what a Zarr store says they are.

Such are pipes, devices, files far larger than what they hold, and chunks that unpack to far more than their entries.
Zarr reads each of them whole. A pipe would be waited for without end, and a device or a file of holes, which takes no
room in an archive, would fill the memory. So would a chunk of some kilobytes that unpacks to gigabytes: zstd, blosc and
lz4 write the unpacked size at the start, which is looked at before.
"""

import math
import stat
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import zarr
from dask.utils import format_bytes
from zarr.abc.store import Store
from zarr.storage import LocalStore

from spae_dask.errors import StorageError

METADATA = ("zarr.json", ".zarray", ".zgroup", ".zattrs", ".zmetadata")

LARGEST_METADATA = 1 << 28
"""Bytes: names of millions of columns fit."""

EXTRA_SHARE = 0.25
EXTRA_NBYTES = 1 << 16
"""By which an encoded chunk may be larger than a decoded one: codecs store what they cannot compress, with headers."""

INNER_NBYTES = 128
"""Of a shard, for each of its chunks: its place in the index, and headers of codecs."""


FILTERED = 16
"""Times as large as its entries a chunk may be between its codecs: filters may turn a byte into a complex number."""

HEADER_NBYTES = 18
"""In which the unpacked size is, if it is written."""


def refuse_odd_metadata(folder: Path) -> None:
    """Look at the metadata files of a local store before Zarr reads them.

    Raises
    ------
    StorageError
        If one of them is no plain file, or has more than `LARGEST_METADATA` bytes.
    """
    for name in METADATA:
        _refuse(folder / name, LARGEST_METADATA, "metadata have")


def refuse_odd_chunks(array: "zarr.Array[Any]", store: Store, keys: Iterable[str]) -> None:
    """Look at some chunks of an array before they are read; nothing is done for stores that are no local folders.

    Parameters
    ----------
    array : zarr.Array
        Of numbers.
    store : zarr.abc.store.Store
        Where it lies: of an array whose chunks were counted, the one beneath.
    keys : iterable of str
        Of chunks, or of shards, below the array; they may be absent.

    Raises
    ------
    StorageError
        If one of them is no plain file, has far more bytes than its entries, or says that it unpacks to far more.
    """
    if isinstance(store, LocalStore):
        most, folder = _largest_chunk(array), Path(store.root) / array.path
        codecs = _codec_names(array)
        unpacked = UNPACKED.get(codecs[-1]) if codecs else None
        for key in keys:
            _refuse(folder / key, most, "entries of that chunk have, encoded in any way,")
            if unpacked is not None:
                _refuse_unpacked(folder / key, unpacked, most * (1 if _PLAIN.issuperset(codecs[:-1]) else FILTERED))


_PLAIN = frozenset({"bytes", "transpose", "endian"})
"""Codecs that leave a chunk as large as it is."""


def _codec_names(array: "zarr.Array[Any]") -> list[str]:
    """Names of the codecs, in the order in which a chunk is encoded."""
    metadata: Any = array.metadata
    codecs = getattr(metadata, "codecs", None)
    if codecs is None:
        codecs = [each for each in (*(metadata.filters or ()), metadata.compressor) if each is not None]
    return [_codec_name(each).rpartition(".")[2] for each in codecs]


def _codec_name(codec: Any) -> str:
    return str(getattr(codec, "codec_id", None) or codec.to_dict().get("name", ""))


def _unpacked_by_zstd(header: bytes) -> int | None:
    """RFC 8878, section 3.1.1: flags, window, dictionary, and the content's size, unless it was not known."""
    if not header.startswith(b"\x28\xb5\x2f\xfd") or len(header) < HEADER_NBYTES:
        return None
    flags = header[4]
    alone = flags >> 5 & 1
    start = 5 + (1 - alone) + (0, 1, 2, 4)[flags & 3]
    length = (alone, 2, 4, 8)[flags >> 6]
    if length == 0:
        return None
    return int.from_bytes(header[start : start + length], "little") + (256 if length == 2 else 0)


UNPACKED: dict[str, Callable[[bytes], int | None]] = {
    "zstd": _unpacked_by_zstd,
    "blosc": lambda header: int.from_bytes(header[4:8], "little"),
    "lz4": lambda header: int.from_bytes(header[:4], "little"),  # as numcodecs writes it
}
"""By codec: the unpacked size that the start of a chunk names, or None."""


def _refuse_unpacked(path: Path, unpacked: Callable[[bytes], int | None], most: int) -> None:
    try:
        with path.open("rb") as file:
            header = file.read(HEADER_NBYTES)
    except OSError:  # to be told by whoever reads it
        return
    named = unpacked(header)
    if named is not None and named > most:
        raise StorageError(
            f"{path} says that it unpacks to {format_bytes(named)}, and its entries have {format_bytes(most)} at most. "
            "It was damaged, or made to fill the memory: restore it from a copy, or do not use this store."
        )


def _largest_chunk(array: "zarr.Array[Any]") -> int:
    unit = math.prod(array.shards or array.chunks)
    n_chunks = unit // max(1, math.prod(array.chunks))
    return int(unit * array.dtype.itemsize * (1 + EXTRA_SHARE)) + n_chunks * INNER_NBYTES + EXTRA_NBYTES


def _refuse(path: Path, most: int, what: str) -> None:
    try:
        found = path.stat()
    except OSError:  # to be told by whoever reads it
        return
    if stat.S_ISDIR(found.st_mode):
        return
    if not stat.S_ISREG(found.st_mode):
        raise StorageError(f"{path} is a pipe, a socket or a device, and no file. Restore the store from a copy.")
    if found.st_size > most:
        raise StorageError(
            f"{path} has {format_bytes(found.st_size)}, and {what} {format_bytes(most)} at most. It was damaged, or "
            "made to fill the memory: restore it from a copy, or do not use this store."
        )
