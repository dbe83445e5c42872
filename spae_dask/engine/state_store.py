"""What a run that keeps its states asks of the place where they are. Pure: `storage.checkpoints` has such places."""

from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import BinaryIO, Protocol


class StateStore(Protocol):
    """Where states are kept: files in folders, each written whole or not at all. Picklable."""

    def make(self, folder: str) -> None:
        """Make sure that a folder is there."""
        ...

    def folders(self) -> list[str]:
        """All folders."""
        ...

    def files(self, folder: str) -> list[str]:
        """Names of the files in a folder."""
        ...

    def write(self, path: str, pieces: Iterable[bytes | memoryview]) -> None:
        """Write ``FOLDER/NAME``, in place of what is there.

        Raises
        ------
        StorageError
            If it cannot be written, or the folder is not there.
        """
        ...

    def open(self, path: str) -> AbstractContextManager[BinaryIO]:
        """Open a file to read.

        Raises
        ------
        FileNotFoundError
            If it is not there.
        StorageError
            If it cannot be read.
        """
        ...

    def remove(self, path: str) -> None:
        """Remove a file, if it is there."""
        ...

    def describe(self) -> str:
        """Path or URL."""
        ...
