"""Protocol of a place that keeps the states of a run. Pure: `storage.checkpoints` implements it."""

from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import BinaryIO, Protocol


class StateStore(Protocol):
    """Place for states: files in folders. A file is readable only when it is complete. Picklable."""

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
