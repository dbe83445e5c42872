"""Row blocks of an ``.npy`` file, by plain reads.

Not through a memory map: its pages count as memory of the process, whose size would grow with what it has read.
"""

from dataclasses import dataclass
from functools import cached_property
from io import RawIOBase
from pathlib import Path

import numpy as np
import numpy.typing as npt

from spae_dask.blocks import uniform_bounds
from spae_dask.errors import InvalidInput, NotFound
from spae_dask.storage.faults import read_failed


@dataclass(frozen=True)
class _Header:
    """What the file says of itself: shape and type, and where and in which order the entries are."""

    shape: tuple[int, ...]
    dtype: np.dtype[np.generic]
    offset: int
    column_major: bool


@dataclass(frozen=True, eq=False)
class NpyBlocks:
    """A two-dimensional array in an ``.npy`` file, row-major or column-major.

    Parameters
    ----------
    path : str
        The file.
    target_nbytes : int
        Bytes of a block.
    """

    path: str
    target_nbytes: int = 8 << 20
    read_nbytes: int = 0
    in_process: bool = False

    @cached_property
    def _header(self) -> _Header:
        path = Path(self.path)
        if not path.exists():
            raise NotFound(f"there is no file {self.path}. Give the path of an existing .npy file.")
        try:
            mapped = np.load(path, mmap_mode="r", allow_pickle=False)
        except Exception as error:  # headers are Python literals, and fail as such in many ways
            raise InvalidInput(
                f"{self.path} is not a readable .npy file of numbers ({error}). "
                "Save the matrix with numpy.save(path, array, allow_pickle=False)."
            ) from error
        return _Header(mapped.shape, mapped.dtype, mapped.offset, not mapped.flags.c_contiguous)

    @property
    def stored_shape(self) -> tuple[int, ...]:
        """Shape of the stored array, for checks before it is used."""
        return self._header.shape

    @property
    def shape(self) -> tuple[int, int]:
        """``(n, d)``."""
        n, d = self.stored_shape
        return int(n), int(d)

    @property
    def dtype(self) -> np.dtype[np.generic]:
        """Type of the entries."""
        return self._header.dtype

    @property
    def rows_per_block(self) -> int:
        """Rows in a block."""
        n, d = self.shape
        return max(1, min(n, self.target_nbytes // max(1, d * self.dtype.itemsize)))

    @property
    def bounds(self) -> range | tuple[int, ...]:
        """Row bounds of the blocks."""
        return uniform_bounds(self.shape[0], self.rows_per_block)

    def read(self, i: int) -> npt.NDArray[np.generic]:
        """Rows of block ``i``, in the order of the file.

        Raises
        ------
        StorageError
            If the file has gone or is shorter than its header says; StorageFaltered if another try may succeed.
        """
        (n, d), itemsize = self.shape, self.dtype.itemsize
        start = i * self.rows_per_block
        rows = np.empty(
            (min(self.rows_per_block, n - start), d), self.dtype, order="F" if self._header.column_major else "C"
        )
        # stretches of the file that become stretches of the block: all of it, or a piece of each column
        pieces = [(j * n + start, rows[:, j]) for j in range(d)] if self._header.column_major else [(start * d, rows)]
        try:
            with open(self.path, "rb", buffering=0) as file:
                for first_entry, piece in pieces:
                    file.seek(self._header.offset + first_entry * itemsize)
                    _fill(file, piece.reshape(-1).view(np.uint8).data)
        except OSError as error:
            raise read_failed(
                f"rows {start} to {start + len(rows) - 1} of {self.path} cannot be read: {error}.",
                "The file was there and whole when it was opened.",
                error,
            ) from error
        return rows

    def describe(self) -> str:
        """The path."""
        return self.path


def _fill(file: RawIOBase, room: memoryview) -> None:
    while room:
        n = file.readinto(room)
        if not n:
            raise OSError("the file ends early")
        room = room[n:]
