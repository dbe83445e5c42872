"""Zarr arrays that refuse a chunk which unpacks to more than its entries take, before the memory is spent.

A few kilobytes may unpack to gigabytes. The check is where Zarr unpacks: in the codecs of the array that is read. So it
holds for every store, for inner chunks of shards, and for Zarr formats 2 and 3 alike. Each codec that can make much of
little is bounded in its own way:

- gzip, zlib, bz2 and lzma unpack piece by piece, and stop at the bound;
- blosc and lz4 write the unpacked size at the start, and make room for that and no more;
- zstd may write it; if not, its blocks have at most 128 KiB each, and are counted. A chunk of many small blocks is
  unpacked into the room of its entries.

Other codecs change the size by a small factor at most, or are not known here (pcodec, zfpy) and not bounded.
"""

import asyncio
import bz2
import lzma
import math
import zlib
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any

import numcodecs
import numpy as np
import zarr
from zarr.abc.codec import BytesBytesCodec, Codec
from zarr.codecs import ShardingCodec
from zarr.codecs._v2 import V2Codec
from zarr.core.array_spec import ArraySpec
from zarr.core.buffer import Buffer
from zarr.core.codec_pipeline import BatchedCodecPipeline
from zarr.core.metadata import ArrayV2Metadata

from spae_dask.quantities import format_nbytes
from spae_dask.storage.checks import EXTRA_SHARE, INNER_NBYTES

LEAST_NBYTES = 1 << 18
"""Bytes that any chunk may unpack to: two blocks of zstd, and headers of codecs."""

FILTERED = 16
"""Times as large as its entries a chunk of format 2 may be between its codecs: filters change the type of entries."""

TEXT_NBYTES = 4096
"""Bytes of an entry that is a text of any length, on average in a chunk."""

ZSTD_BLOCK_NBYTES = 1 << 17
"""Largest size of a zstd block (RFC 8878, section 3.1.1.2)."""


class UnpacksToMore(ValueError):
    """A chunk unpacks to far more bytes than its entries have."""

    def __init__(self, found: int | None, most: int) -> None:
        size = "more" if found is None else format_nbytes(found)
        super().__init__(
            f"it decodes to {size}, but its entries take at most {format_nbytes(most)} in any encoding. It is "
            "damaged, or was made to fill the memory"
        )


def bounded(array: Any) -> Any:
    """The same array, whose chunks are unpacked within bounds; what is no array of Zarr is returned as it is."""
    if not isinstance(array, zarr.Array):
        return array
    metadata = array.metadata
    codecs = [_of_format_2(metadata)] if isinstance(metadata, ArrayV2Metadata) else _of_format_3(metadata.codecs)
    same = copy(array._async_array)  # as in `with_checked_store`
    object.__setattr__(same, "codec_pipeline", BatchedCodecPipeline.from_codecs(codecs))
    return zarr.Array(same)


@dataclass(frozen=True)
class BoundedNumcodec:
    """A codec of numcodecs that decodes no more than some bytes.

    Parameters
    ----------
    codec : numcodecs codec
        The codec.
    nbytes : int
        Bytes of the entries of a chunk.
    most : int
        Bytes to decode at most.
    """

    codec: Any
    nbytes: int
    most: int

    @property
    def codec_id(self) -> str:
        """The codec's own."""
        return str(self.codec.codec_id)

    def decode(self, chunk: Any, out: Any = None) -> Any:
        """Decoded bytes, or ``UnpacksToMore``."""
        unpack = UNPACK.get(self.codec_id)
        if unpack is None:
            return self.codec.decode(chunk, out)
        packed = np.frombuffer(chunk, dtype=np.uint8).data
        unpacked = unpack(packed, self.nbytes, self.most, self.codec.get_config())
        return self.codec.decode(chunk, out) if unpacked is None else unpacked


@dataclass(frozen=True)
class BoundedCodec(BytesBytesCodec):
    """A codec of Zarr format 3, from bytes to bytes, that decodes no more than the entries of a chunk take.

    Parameters
    ----------
    codec : BytesBytesCodec
        The codec.
    inner_length : int
        Entries of an inner chunk, if whole shards are encoded; else 0.
    """

    codec: BytesBytesCodec
    inner_length: int = 0
    is_fixed_size: bool = field(default=False, init=False)

    def to_dict(self) -> dict[str, Any]:
        """Metadata of the codec."""
        return self.codec.to_dict()

    def evolve_from_array_spec(self, array_spec: ArraySpec) -> "BoundedCodec":
        """The same for the codec that fits an array."""
        return replace(self, codec=self.codec.evolve_from_array_spec(array_spec))

    def resolve_metadata(self, chunk_spec: ArraySpec) -> ArraySpec:
        """The codec's own."""
        return self.codec.resolve_metadata(chunk_spec)

    def compute_encoded_size(self, input_byte_length: int, chunk_spec: ArraySpec) -> int:
        """The codec's own."""
        return self.codec.compute_encoded_size(input_byte_length, chunk_spec)

    async def _decode_single(self, chunk_bytes: Buffer, chunk_spec: ArraySpec) -> Buffer:
        described: dict[str, Any] = self.codec.to_dict()
        unpack = UNPACK.get(str(described["name"]).removeprefix("numcodecs."))
        if unpack is not None:
            length = math.prod(chunk_spec.shape)
            nbytes = length * _entry_nbytes(chunk_spec.dtype.to_native_dtype())
            most = _most(nbytes, length // self.inner_length if self.inner_length else 1)
            packed = chunk_bytes.as_numpy_array().data.cast("B")
            settings = described.get("configuration") or {}
            unpacked = await asyncio.to_thread(unpack, packed, nbytes, most, settings)
            if unpacked is not None:
                return chunk_spec.prototype.buffer.from_bytes(unpacked)
        return await self.codec._decode_single(chunk_bytes, chunk_spec)

    async def _encode_single(self, chunk_bytes: Buffer, chunk_spec: ArraySpec) -> Buffer | None:
        return await self.codec._encode_single(chunk_bytes, chunk_spec)


def _of_format_2(metadata: ArrayV2Metadata) -> Codec:
    nbytes = math.prod(metadata.chunks) * _entry_nbytes(metadata.dtype.to_native_dtype())
    most = _most(nbytes, 1) * (FILTERED if metadata.filters else 1)
    filters = [BoundedNumcodec(each, nbytes, most) for each in metadata.filters or ()]
    compressor = None if metadata.compressor is None else BoundedNumcodec(metadata.compressor, nbytes, most)
    return V2Codec(filters=tuple(filters) or None, compressor=compressor)  # type: ignore[arg-type]  # it decodes only


def _of_format_3(codecs: Any) -> list[Codec]:
    inner_length, found = 0, list[Codec]()
    for codec in codecs:
        if isinstance(codec, ShardingCodec):
            inner_length = math.prod(codec.chunk_shape)
            found.append(replace(codec, codecs=tuple(_of_format_3(codec.codecs))))
        elif isinstance(codec, BytesBytesCodec):
            found.append(BoundedCodec(codec, inner_length))
        else:
            found.append(codec)
    return found


def _entry_nbytes(dtype: np.dtype[Any]) -> int:
    return TEXT_NBYTES if dtype.kind in "OT" else dtype.itemsize


def _most(nbytes: int, n_chunks: int) -> int:
    return int(nbytes * (1 + EXTRA_SHARE)) + n_chunks * INNER_NBYTES + LEAST_NBYTES


Unpack = Callable[[memoryview, int, int, dict[str, Any]], bytes | None]
"""From packed bytes, bytes of the entries, the bound and the codec's settings, the unpacked bytes; or None if the codec
itself can do it within the bound."""


def _unpack_gzip(packed: memoryview, _: int, most: int, settings: dict[str, Any]) -> bytes:
    del settings
    return _streams(packed, most, lambda: zlib.decompressobj(wbits=16 + zlib.MAX_WBITS))


def _unpack_zlib(packed: memoryview, _: int, most: int, settings: dict[str, Any]) -> bytes:
    del settings
    return _streams(packed, most, zlib.decompressobj)


def _unpack_bz2(packed: memoryview, _: int, most: int, settings: dict[str, Any]) -> bytes:
    del settings
    return _streams(packed, most, bz2.BZ2Decompressor)


def _unpack_lzma(packed: memoryview, _: int, most: int, settings: dict[str, Any]) -> bytes:
    kind = settings.get("format", lzma.FORMAT_XZ)
    filters = settings.get("filters") if kind == lzma.FORMAT_RAW else None
    return _streams(packed, most, lambda: lzma.LZMADecompressor(kind, filters=filters))


def _streams(packed: memoryview, most: int, start: Callable[[], Any]) -> bytes:
    """Unpack one stream after another, until the bound is passed."""
    pieces, room, rest = list[bytes](), most + 1, bytes(packed)
    while rest.strip(b"\0") or not pieces:
        stream = start()
        pieces.append(stream.decompress(rest, room))
        room -= len(pieces[-1])
        if room <= 0:
            raise UnpacksToMore(None, most)
        if not stream.eof:
            raise EOFError("the chunk ends before its stream does")
        rest = stream.unused_data
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _unpack_zstd(packed: memoryview, nbytes: int, most: int, _: dict[str, Any]) -> bytes | None:
    named, blocks = zstd_size(packed)
    if named is not None:
        if named > most:
            raise UnpacksToMore(named, most)
        return None
    if blocks <= most:
        return None
    room = np.empty(nbytes, dtype=np.uint8)
    try:
        numcodecs.Zstd().decode(packed, out=room)
    except RuntimeError as error:
        raise UnpacksToMore(None, most) from error
    return room.tobytes()


def zstd_size(packed: memoryview) -> tuple[int | None, int]:
    """Unpacked size that the first frame names, and the most that the blocks of all frames can unpack to.

    RFC 8878, section 3.1.1: flags, window, dictionary, and the content's size, unless it was not known; then blocks.
    """
    named, total, at = None, 0, 0
    while len(packed) - at >= 6:
        magic = int.from_bytes(packed[at : at + 4], "little")
        if magic & 0xFFFFFFF0 == 0x184D2A50:  # a frame that is passed over
            at += 8 + int.from_bytes(packed[at + 4 : at + 8], "little")
            continue
        if magic != 0xFD2FB528:
            break
        flags, first = packed[at + 4], at == 0
        alone = flags >> 5 & 1
        at += 5 + (1 - alone) + (0, 1, 2, 4)[flags & 3]
        length = (alone, 2, 4, 8)[flags >> 6]
        if first and length:
            named = int.from_bytes(packed[at : at + length], "little") + (256 if length == 2 else 0)
            return named, named  # the codec makes room for that
        at += length
        last = False
        while not last and len(packed) - at >= 3:
            header = int.from_bytes(packed[at : at + 3], "little")
            last, kind, size = bool(header & 1), header >> 1 & 3, header >> 3
            total += ZSTD_BLOCK_NBYTES if kind == 2 else size
            at += 3 + (1 if kind == 1 else size)
        at += 4 if flags & 4 else 0
    return named, total


def _named_by(start: int) -> Unpack:
    """Look at four bytes, in which a codec finds the size that it unpacks to."""

    def unpack(packed: memoryview, _: int, most: int, settings: dict[str, Any]) -> None:
        del settings
        named = int.from_bytes(packed[start : start + 4], "little")
        if named > most:
            raise UnpacksToMore(named, most)

    return unpack


UNPACK: dict[str, Unpack] = {
    "gzip": _unpack_gzip,
    "zlib": _unpack_zlib,
    "bz2": _unpack_bz2,
    "lzma": _unpack_lzma,
    "zstd": _unpack_zstd,
    "blosc": _named_by(4),
    "lz4": _named_by(0),
}
"""By the name of a codec."""
