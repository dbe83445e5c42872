"""Chunks that unpack to far more than their entries are refused before the memory is spent, in each codec and store."""

import bz2
import json
import lzma
import subprocess
import sys
import threading
import warnings
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numcodecs
import numpy as np
import pytest
import zarr
import zarr.codecs.numcodecs as numcodecs_3
from zarr.codecs import BloscCodec, BytesCodec, GzipCodec, ShardingCodec, ZstdCodec
from zarr.core.buffer import default_buffer_prototype
from zarr.core.sync import sync

from spae_dask import open_matrix
from spae_dask.errors import StorageError
from spae_dask.storage.bounded import UnpacksToMore, bounded, zstd_size
from tests.estimators.sources import batch_encoder

SHAPE = (1 << 17, 2)
"""Of a chunk of 1 MiB, so that a bomb is no larger a file than an honest chunk may be."""

BOMB_NBYTES = 128 << 20

ROOM_NBYTES = 48 << 20
"""By which the memory of a process may grow while it refuses bombs: decoding one takes more than twice as much."""

FRAME = b"\x28\xb5\x2f\xfd"


def piecewise(compressor: Any) -> bytes:
    """Zeros, compressed a MiB at a time."""
    pieces = [compressor.compress(bytes(1 << 20)) for _ in range(BOMB_NBYTES >> 20)]
    return b"".join([*pieces, compressor.flush()])


def blocks_of_zstd(n_blocks: int, kind: int, size: int, content: bytes, *, named: bytes = b"") -> bytes:
    """A frame of equal blocks, which names its unpacked size or not."""
    block = (kind << 1 | size << 3).to_bytes(3, "little") + content
    last = (1 | kind << 1 | size << 3).to_bytes(3, "little") + content
    flags = 0x80 if named else 0
    return FRAME + bytes([flags, 0x58]) + named + block * (n_blocks - 1) + last


def zstd_bomb(*, named: bool) -> bytes:
    """Blocks that repeat a byte 128 Ki times; 8 KiB of them."""
    size = BOMB_NBYTES.to_bytes(4, "little") if named else b""
    return blocks_of_zstd(BOMB_NBYTES >> 17, 1, 1 << 17, b"\0", named=size)


def renamed(packed: bytes, start: int) -> bytes:
    """A chunk that names another size."""
    return packed[:start] + BOMB_NBYTES.to_bytes(4, "little") + packed[start + 4 :]


def in_format_3(name: str, **settings: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return getattr(numcodecs_3, name)(**settings)


BOMBS: dict[str, tuple[Callable[[], Any], Callable[[], Any], Callable[[], bytes]]] = {
    "gzip": (GzipCodec, numcodecs.GZip, lambda: piecewise(zlib.compressobj(wbits=31))),
    "zlib": (lambda: in_format_3("Zlib"), numcodecs.Zlib, lambda: piecewise(zlib.compressobj())),
    "bz2": (lambda: in_format_3("BZ2"), numcodecs.BZ2, lambda: piecewise(bz2.BZ2Compressor())),
    "lzma": (lambda: in_format_3("LZMA"), numcodecs.LZMA, lambda: piecewise(lzma.LZMACompressor(preset=0))),
    "zstd": (ZstdCodec, numcodecs.Zstd, lambda: zstd_bomb(named=False)),
    "zstd, named": (ZstdCodec, numcodecs.Zstd, lambda: zstd_bomb(named=True)),
    "zstd of numcodecs": (lambda: in_format_3("Zstd"), numcodecs.Zstd, lambda: zstd_bomb(named=False)),
    "blosc": (BloscCodec, numcodecs.Blosc, lambda: renamed(numcodecs.Blosc().encode(bytes(1 << 20)), 4)),
    "lz4": (lambda: in_format_3("LZ4"), numcodecs.LZ4, lambda: renamed(numcodecs.LZ4().encode(bytes(1 << 20)), 0)),
}

SAME = {"zarr_format": 3, "compressors": None, "filters": None}


def make(path: Path, kind: str, codec: str) -> "zarr.Array[Any]":
    """An array of a single chunk, or of two inner chunks in a shard."""
    of_3, of_2, _ = BOMBS[codec]
    options: dict[str, Any] = {"compressors": of_2(), "zarr_format": 2} if kind == "format 2" else {}
    if kind == "plain":
        options = {"compressors": of_3(), "zarr_format": 3}
    if kind == "shard":
        inner = ShardingCodec(chunk_shape=SHAPE, codecs=[BytesCodec(), of_3()], index_codecs=[BytesCodec()])
        options = {**SAME, "serializer": inner}
    rows = SHAPE[0] * (2 if kind == "shard" else 1)
    return zarr.create_array(path, shape=(rows, SHAPE[1]), chunks=(rows, SHAPE[1]), dtype="f4", **options)


def arm(path: Path, kind: str, bomb: bytes) -> None:
    """Put a bomb where the chunk is."""
    target = path / ("0.0" if kind == "format 2" else "c/0/0")
    target.parent.mkdir(parents=True, exist_ok=True)
    index = np.array([0, len(bomb), 0, len(bomb)], dtype="<u8").tobytes()
    target.write_bytes(bomb + index if kind == "shard" else bomb)


KINDS = ("plain", "shard", "format 2")


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """A web server of the folder."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: Any) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=folder)) as made:
        thread = threading.Thread(target=made.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{made.server_port}"
        made.shutdown()
        thread.join()


READS = """
import json, resource, sys, warnings
import zarr.codecs.numcodecs
from spae_dask import open_matrix
from spae_dask.errors import StorageError
warnings.simplefilter("ignore")
honest, bombs = json.load(sys.stdin)
for place in honest:
    open_matrix(place).read(0)
told = []
for codec, places in bombs.items():
    before, said = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, {}
    for place in places:
        try:
            open_matrix(place).read(0)
        except StorageError as error:
            said[place] = str(error)
        else:
            said[place] = "it was read"
    told.append([codec, said, 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)])
print(json.dumps(told))
"""


@pytest.fixture(scope="module")
def refusals(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[dict[str, str], int]]:
    """Errors of a process that reads the bombs of all codecs, and by how much each codec made its memory grow."""
    folder = tmp_path_factory.mktemp("bombs")
    warnings.simplefilter("ignore")
    bombs: dict[str, list[str]] = {}
    with served(folder) as server:
        for number, codec in enumerate(BOMBS):
            bomb = BOMBS[codec][2]()
            assert len(bomb) < 1 << 20
            make(folder / f"{number}-honest", "plain", codec)[...] = 1
            names = [f"{number}-{kind.replace(' ', '-')}" for kind in KINDS]
            for name, kind in zip(names, KINDS, strict=True):
                make(folder / name, kind, codec)
                arm(folder / name, kind, bomb)
            bombs[codec] = [f"{base}/{name}" for name in names for base in (str(folder), server)]
        honest = [f"{base}/{number}-honest" for number in range(len(BOMBS)) for base in (str(folder), server)]
        command, given = [sys.executable, "-c", READS], json.dumps([honest, bombs])
        ended = subprocess.run(command, input=given, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    return {codec: (said, grown) for codec, said, grown in json.loads(ended.stdout)}


@pytest.mark.parametrize("codec", BOMBS)
def test_a_bomb_is_refused_within_the_memory_of_an_honest_chunk(
    refusals: dict[str, tuple[dict[str, str], int]], codec: str
) -> None:
    said, grown = refusals[codec]
    assert len(said) == 2 * len(KINDS)
    for place, text in said.items():
        key = "'0.0'" if "format-2" in place else "'c/0/0'"
        assert f"chunk {key} of {place}" in text
        assert "it decodes to " in text
        assert "at most 1.5 MiB" in text
    assert grown < ROOM_NBYTES


def test_a_fit_of_an_array_with_a_bomb_ends_with_an_error_that_names_the_chunk(tmp_path: Path) -> None:
    make(tmp_path / "x", "plain", "zstd")[...] = np.random.default_rng(0).normal(size=SHAPE)
    arm(tmp_path / "x", "plain", zstd_bomb(named=False))
    with pytest.raises(StorageError, match=r"chunk 'c/0/0' of .* cannot be read: UnpacksToMore: it"):
        batch_encoder(n_components=1, n_nonzero=1).fit(tmp_path / "x")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("codec", BOMBS)
def test_honest_chunks_are_read_as_before(tmp_path: Path, kind: str, codec: str) -> None:
    warnings.simplefilter("ignore")
    array = make(tmp_path / "x", kind, codec)
    array[...] = values = np.random.default_rng(1).integers(0, 3, size=array.shape).astype("f4")
    np.testing.assert_array_equal(np.concatenate(list(blocks(tmp_path / "x"))), values)


def blocks(path: Path) -> Iterator[np.ndarray[Any, Any]]:
    source = open_matrix(path)
    yield from (source.read(i) for i in range(len(source.bounds) - 1))


@pytest.mark.parametrize("packed", [bz2.compress, lzma.compress, partial(zlib.compress, wbits=31)])
def test_a_chunk_of_several_streams_is_whole(tmp_path: Path, packed: Callable[[bytes], bytes]) -> None:
    codec = {bz2.compress: "bz2", lzma.compress: "lzma"}.get(packed, "gzip")
    make(tmp_path / "x", "format 2", codec)
    values = np.random.default_rng(2).integers(0, 3, size=SHAPE).astype("f4")
    half = values.nbytes // 2
    arm(tmp_path / "x", "format 2", packed(values.tobytes()[:half]) + packed(values.tobytes()[half:]))
    np.testing.assert_array_equal(open_matrix(tmp_path / "x").read(0), values)
    arm(tmp_path / "x", "format 2", packed(values.tobytes())[:-20])
    with pytest.raises(StorageError, match="cannot be read"):
        open_matrix(tmp_path / "x").read(0)


@pytest.mark.parametrize("kind", KINDS)
def test_a_chunk_of_many_small_blocks_of_zstd_is_honest(tmp_path: Path, kind: str) -> None:
    """Each block may unpack to 128 KiB by its header, and a writer that flushes often makes blocks of few bytes."""
    array = make(tmp_path / "x", kind, "zstd")
    content = np.arange(SHAPE[0] * SHAPE[1], dtype="<f4").tobytes()
    pieces = [content[start : start + 2048] for start in range(0, len(content), 2048)]
    # a raw block, then a compressed one of nothing: literals of length 0, and no sequences
    empty = (2 << 1 | 2 << 3).to_bytes(3, "little") + b"\0\0"
    frame = FRAME + bytes([0, 0x58])
    for number, piece in enumerate(pieces):
        last = number == len(pieces) - 1
        frame += (last | len(piece) << 3).to_bytes(3, "little") + piece + (b"" if last else empty)
    assert numcodecs.Zstd().decode(frame) == content
    named, most = zstd_size(memoryview(frame))
    assert named is None
    assert most > 60 * len(content)
    arm(tmp_path / "x", kind, frame)
    expected = np.frombuffer(content, "<f4").reshape(SHAPE)
    np.testing.assert_array_equal(next(blocks(tmp_path / "x"))[: SHAPE[0]], expected)
    assert array.shape[1] == 2


@pytest.mark.parametrize("n", [0, 1, 255, 256, 300, 65_791, 65_792, 1 << 20])
def test_the_size_in_a_frame_of_zstd_is_what_it_unpacks_to(n: int) -> None:
    assert zstd_size(memoryview(numcodecs.Zstd().encode(bytes(n)))) == (n, n)


@pytest.mark.parametrize("n_frames", [1, 3])
def test_blocks_of_all_frames_of_zstd_are_counted(n_frames: int) -> None:
    frame = blocks_of_zstd(5, 1, 1000, b"x")
    passed_over = (0x184D2A50).to_bytes(4, "little") + (7).to_bytes(4, "little") + bytes(7)
    chunk = passed_over + frame * n_frames
    assert zstd_size(memoryview(chunk)) == (None, 5000 * n_frames)


def test_names_of_columns_are_bounded_too() -> None:
    store = zarr.storage.MemoryStore()
    array = zarr.create_array(store, shape=(2,), chunks=(2,), dtype=str, compressors=GzipCodec())
    array[:] = ["a", "bb" * 3000]
    assert bounded(array)[:].tolist() == ["a", "bb" * 3000]
    bomb = zlib.compress(bytes(1 << 24), wbits=31)
    sync(store.set("c/0", default_buffer_prototype().buffer.from_bytes(bomb)))
    with pytest.raises(UnpacksToMore):
        bounded(array)[:]
