"""The files of a checkpoint in an object store, reached as all other stores there: see `address` and `tries`."""

import io
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, BinaryIO, cast

from zarr.core.buffer import Buffer, default_buffer_prototype
from zarr.core.sync import sync

from spae_dask.errors import StorageError
from spae_dask.storage.checkpoints.local_states import KEPT
from spae_dask.storage.remote.byte_files import RemoteFile
from spae_dask.storage.remote.object_requests import PART_NBYTES, StoredFile
from spae_dask.storage.remote.remote_store import RemoteStore

REQUEST_NBYTES = 4 << 20
"""Bytes of one request to read."""

N_REQUESTS = 4
"""Requests to read that are made at once."""


@dataclass(frozen=True)
class ObjectStates:
    """Objects below an address. An object appears when all of it is there, and listings know it from then on.

    Parameters
    ----------
    store : RemoteStore
        Store below the address, open for writing. It pickles as the address alone.
    """

    store: RemoteStore

    def describe(self) -> str:
        """The URL."""
        return str(self.store)

    def make(self, folder: str) -> None:
        """Nothing: an object store has no folders."""

    def folders(self) -> list[str]:
        """First parts of the names of objects below others."""
        with _kept():
            return list(sync(self.store.names_below(""))[0])

    def files(self, folder: str) -> list[str]:
        """Names of the objects directly below a folder."""
        with _kept():
            return list(sync(self.store.names_below(folder))[1])

    def write(self, path: str, pieces: Iterable[bytes | memoryview]) -> None:
        """Put an object, in place of what is there; large ones in parts, without a copy of the whole."""
        whole = list(pieces)
        with _kept():
            if sum(map(len, whole)) > PART_NBYTES:
                sync(self.store.upload(path, whole))
            else:
                sync(self.store.set(path, _buffer(b"".join(whole))))

    def write_if_absent(self, path: str, content: bytes) -> None:
        """Put an object unless there is one; of several writers the service lets one be first."""
        with _kept():
            sync(self.store.set_if_not_exists(path, _buffer(content)))

    @contextmanager
    def open(self, path: str) -> Iterator[BinaryIO]:
        """Open an object to read."""
        with _kept():
            try:
                reader = _Reader(RemoteFile(self.store, path), int(sync(self.store.getsize(path))))
                yield cast(BinaryIO, io.BufferedReader(reader, REQUEST_NBYTES))
            except (FileNotFoundError, StorageError):
                raise
            except OSError as error:
                raise StorageError(f"{self.store}/{path} cannot be read: {error}.") from error

    def remove(self, path: str) -> None:
        """Remove an object, if it is there."""
        with _kept():
            sync(self.store.delete(path))

    def remove_folder(self, folder: str) -> None:
        """Nothing: an object store has no folders."""

    def all_files(self) -> list[StoredFile]:
        """Every object below the address."""
        with _kept():
            return list(sync(self.store.objects_below("")))

    def tidy(self) -> None:
        """Nothing: there are no partial objects."""


class _Reader(io.RawIOBase):
    """An object as a file, read by a few range requests at a time into memory that is there already."""

    def __init__(self, file: RemoteFile, nbytes: int) -> None:
        super().__init__()
        self._file = file
        self._nbytes = nbytes
        self._position = 0

    def readable(self) -> bool:
        return True

    def readinto(self, room: Any) -> int:
        start = self._position
        wanted = min(len(room), self._nbytes - start, N_REQUESTS * REQUEST_NBYTES)
        view = memoryview(room).cast("B")[:wanted]
        if wanted:
            self._file.fill([(start + at, view[at : at + REQUEST_NBYTES]) for at in range(0, wanted, REQUEST_NBYTES)])
        self._position += wanted
        return wanted


@contextmanager
def _kept() -> Iterator[None]:
    """Add the consequence for the checkpoint to errors of the store. A missing object stays a missing object."""
    try:
        yield
    except StorageError as error:
        if str(error).endswith(KEPT):
            raise
        raise StorageError(f"{error}{KEPT}") from error


def _buffer(content: bytes) -> Buffer:
    return default_buffer_prototype().buffer.from_bytes(content)
