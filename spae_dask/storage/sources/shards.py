"""Inner chunks of shards: those that the index of a shard says are not stored.

A shard is one object, so a listing tells of it, not of the chunks within. Its index does, at its end or its beginning:
two 64-bit numbers for each inner chunk, both of them 2^64 - 1 for one that is not stored and reads as the fill value.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from zarr.abc.store import ByteRequest, RangeByteRequest, SuffixByteRequest
from zarr.codecs import BytesCodec, Crc32cCodec, ShardingCodec
from zarr.core.buffer import default_buffer_prototype
from zarr.core.common import concurrent_map
from zarr.core.config import config
from zarr.core.sync import sync

from spae_dask.storage.sources.checked_store import ZarrArray, grid_of, key_of, prefix_of, store_of

ENTRY_NBYTES, CHECKSUM_NBYTES = 16, 4

NOT_STORED = 2**64 - 1


@dataclass(frozen=True)
class InnerChunkCount:
    """Inner chunks within the shards that are stored.

    Attributes
    ----------
    n_expected, n_missing : int
        Inner chunks of those shards that hold a part of the array, and how many of them are not stored.
    first_missing : tuple of str
        The first few, by the keys of their shards and their places in them.
    """

    n_expected: int
    n_missing: int
    first_missing: tuple[str, ...]


def count_inner_chunks(array: ZarrArray, stored: npt.NDArray[np.int64], n_named: int) -> InnerChunkCount | None:
    """Count the inner chunks of an array's stored shards by one small read of each shard.

    Parameters
    ----------
    array : zarr.Array
        The array.
    stored : ndarray of int64
        Numbers of the stored shards, in row-major order.
    n_named : int
        Missing inner chunks to be named.

    Returns
    -------
    InnerChunkCount or None
        None if the array has no shards, or their index is encoded in an unusual way.
    """
    index = _index_of(array)
    if index is None:
        return None
    return sync(_counted(array, index, stored, n_named))


@dataclass(frozen=True)
class _Index:
    """Index of a shard: inner chunks along each dimension, and where its bytes are."""

    grid: tuple[int, ...]
    where: ByteRequest


def _index_of(array: ZarrArray) -> _Index | None:
    codecs: Sequence[Any] = getattr(array.metadata, "codecs", ())
    if array.shards is None or len(codecs) != 1 or not isinstance(codecs[0], ShardingCodec):
        return None
    sharding = codecs[0]
    grid = tuple(shard // chunk for shard, chunk in zip(array.shards, array.chunks, strict=True))
    nbytes = ENTRY_NBYTES * math.prod(grid)
    match sharding.index_codecs:
        case (BytesCodec(), Crc32cCodec()):
            nbytes += CHECKSUM_NBYTES
        case (BytesCodec(),):
            pass
        case _:
            return None
    at_end = str(getattr(sharding.index_location, "value", sharding.index_location)) == "end"
    return _Index(grid, SuffixByteRequest(nbytes) if at_end else RangeByteRequest(0, nbytes))


async def _counted(array: ZarrArray, index: _Index, stored: npt.NDArray[np.int64], n_named: int) -> InnerChunkCount:
    store, prefix, grid = store_of(array), prefix_of(array.path), grid_of(array)

    async def one(number: int) -> tuple[int, int, list[str]]:
        place = tuple(int(each) for each in np.unravel_index(number, grid))
        key = key_of(array, number)
        found = await store.get(f"{prefix}{key}", default_buffer_prototype(), index.where)
        content = b"" if found is None else found.to_bytes()
        entries = np.frombuffer(content[: ENTRY_NBYTES * math.prod(index.grid)], dtype="<u8")
        if entries.size < 2 * math.prod(index.grid):
            return 0, 0, []  # too short to be a shard: reading it says so
        # inner chunks that hold a part of the array: fewer in the last shards
        lengths = (
            min(inner, -(-(size - at * shard) // chunk))
            for inner, size, at, shard, chunk in zip(
                index.grid, array.shape, place, array.shards or (), array.chunks, strict=True
            )
        )
        inside = tuple(slice(0, length) for length in lengths)
        absent = (entries.reshape(*index.grid, 2) == NOT_STORED).all(axis=-1)[inside]
        named = [f"{key} inner {'/'.join(map(str, at))}" for at in np.argwhere(absent)[:n_named].tolist()]
        return absent.size, int(absent.sum()), named

    limit = int(config.get("async.concurrency") or 1)
    counts = await concurrent_map([(number,) for number in stored.tolist()], one, limit=limit)
    names = [name for _, _, named in counts for name in named]
    return InnerChunkCount(sum(c[0] for c in counts), sum(c[1] for c in counts), tuple(names[:n_named]))
