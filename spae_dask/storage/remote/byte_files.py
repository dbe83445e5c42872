"""Parts of a file, on a disk or behind a URL, read into memory that is already there."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from io import SEEK_CUR, SEEK_END, SEEK_SET, RawIOBase
from typing import Any

from zarr.abc.store import RangeByteRequest
from zarr.core.buffer import default_buffer_prototype
from zarr.core.common import concurrent_map
from zarr.core.config import config
from zarr.core.sync import sync

from spae_dask.errors import NotFound, StorageError
from spae_dask.storage.remote.address import Address
from spae_dask.storage.remote.remote_store import RemoteStore, open_remote

Piece = tuple[int, memoryview]
"""Start of a piece in the file, and the buffer to fill."""


@dataclass(frozen=True)
class LocalFile:
    """A file on a disk."""

    name: str

    def fill(self, pieces: Sequence[Piece]) -> None:
        """Read by plain reads."""
        with open(self.name, "rb", buffering=0) as file:
            for start, room in pieces:
                file.seek(start)
                left = room
                while left:
                    n = file.readinto(left)
                    if not n:
                        raise OSError("the file ends early")
                    left = left[n:]


@dataclass(frozen=True)
class RemoteFile:
    """A file behind a URL, by range requests, several at once.

    Parameters
    ----------
    folder : RemoteStore
        Store of the folder above the file.
    base : str
        Its name there.
    """

    folder: RemoteStore
    base: str

    @property
    def name(self) -> str:
        """The URL."""
        return f"{self.folder}/{self.base}"

    def nbytes(self) -> int:
        """Bytes of the file.

        Raises
        ------
        NotFound
            If there is none.
        StorageError
            If the server does not say.
        """
        try:
            return int(sync(self.folder.getsize(self.base)))
        except FileNotFoundError as error:
            raise NotFound(f"there is no file {self.name}. Give the URL of an existing .npy file.") from error
        except TypeError as error:  # a web server that gives no length
            raise StorageError(f"{self.name}: the server does not report its length. Download it first.") from error

    def fill(self, pieces: Sequence[Piece]) -> None:
        """Read by range requests; the length shows if a server ignored the range."""
        sync(self._fill(pieces))

    async def _fill(self, pieces: Sequence[Piece]) -> None:
        await concurrent_map(list(pieces), self._fill_one, limit=int(config.get("async.concurrency") or 1))

    async def _fill_one(self, start: int, room: memoryview) -> None:
        part = RangeByteRequest(start, start + len(room))
        found = await self.folder.get(self.base, default_buffer_prototype(), part)
        if found is None:
            raise FileNotFoundError("the file no longer exists")
        got = found.to_bytes()
        if len(got) != len(room):
            why = "the file ends early" if len(got) < len(room) else "the server ignores range requests"
            raise OSError(f"{len(got)} bytes arrived, but {len(room)} were requested: {why}")
        room[:] = got


class RemoteReader(RawIOBase):
    """A file behind a URL for libraries that read and seek, by range requests.

    Parameters
    ----------
    file : RemoteFile
        The file.
    """

    def __init__(self, file: RemoteFile) -> None:
        super().__init__()
        self._file = file
        self._nbytes = file.nbytes()
        self._at = 0

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def tell(self) -> int:
        """Place of the next byte."""
        return self._at

    def seek(self, offset: int, whence: int = SEEK_SET) -> int:
        """Go to a place, counted from the start, from here, or from the end."""
        self._at = max(0, offset + {SEEK_SET: 0, SEEK_CUR: self._at, SEEK_END: self._nbytes}[whence])
        return self._at

    def readinto(self, buffer: Any) -> int:
        """Read as many bytes as there is room for, or are left."""
        room = memoryview(buffer).cast("B")[: max(0, self._nbytes - self._at)]
        if room:
            self._file.fill([(self._at, room)])
            self._at += len(room)
        return len(room)


def remote_file(address: Address) -> RemoteFile:
    """A file at an address."""
    folder, _, base = address.key.rpartition("/")
    above = replace(address, url=address.url[: -len(base)].rstrip("/"), key=folder)
    return RemoteFile(open_remote(above), base)
