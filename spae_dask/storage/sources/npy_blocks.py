"""Row blocks of an ``.npy`` file, by plain reads.

Not through a memory map: its pages count as memory of the process, whose size would grow with what it has read.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from io import BytesIO
from pathlib import Path

import numpy as np
import numpy.typing as npt

from spae_dask.blocks import uniform_bounds
from spae_dask.errors import InvalidInput, NotFound, StorageError
from spae_dask.plain_files import beside
from spae_dask.storage.remote.byte_files import LocalFile, RemoteFile
from spae_dask.storage.remote.faults import read_failed

HEADER_NBYTES = 64 << 10
"""Read of a remote file before its header is known; numpy's own limit of a header is a sixth of that."""


@dataclass(frozen=True)
class _Header:
    """Header of the file: shape and type, and position and order of the entries."""

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
        The file, or its URL.
    remote : RemoteFile, optional
        The file behind a URL.
    target_nbytes : int
        Bytes of a block.
    """

    path: str
    remote: RemoteFile | None = None
    target_nbytes: int = 8 << 20
    read_nbytes: int = 0
    in_process: bool = False

    @cached_property
    def _header(self) -> _Header:
        if self.remote is not None:
            return _header_of(self.remote)
        path = Path(self.path)
        if not path.exists():
            raise NotFound(f"there is no file {self.path}.{beside(self.path)} Give the path of an existing .npy file.")
        try:
            mapped = np.load(path, mmap_mode="r", allow_pickle=False)
        except Exception as error:  # headers are Python literals, which can fail in many ways
            raise _not_npy(self.path, error) from error
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
            If the file has gone or is shorter than its header says; TransientStorageError if another try may succeed.
        """
        (n, d), itemsize = self.shape, self.dtype.itemsize
        start = i * self.rows_per_block
        rows = np.empty(
            (min(self.rows_per_block, n - start), d), self.dtype, order="F" if self._header.column_major else "C"
        )
        # contiguous parts of the file fill contiguous parts of the block: all of it, or a piece of each column
        pieces = [(j * n + start, rows[:, j]) for j in range(d)] if self._header.column_major else [(start * d, rows)]
        try:
            (self.remote or LocalFile(self.path)).fill(
                [
                    (self._header.offset + first_entry * itemsize, piece.reshape(-1).view(np.uint8).data)
                    for first_entry, piece in pieces
                ]
            )
        except StorageError:
            raise
        except OSError as error:
            raise read_failed(
                f"rows {start} to {start + len(rows) - 1} of {self.path} cannot be read: {error}.",
                "The file was complete when it was opened.",
                error,
            ) from error
        return rows

    @property
    def files(self) -> tuple[str, ...]:
        """The file, if it is on a disk."""
        return (self.path,) if self.remote is None else ()

    def describe(self) -> str:
        """The path."""
        return self.path


def _header_of(file: RemoteFile) -> _Header:
    nbytes = file.nbytes()
    start = bytearray(min(nbytes, HEADER_NBYTES))
    try:
        if start:  # no server answers a request for no bytes
            file.fill([(0, memoryview(start))])
        text = BytesIO(start)
        version = np.lib.format.read_magic(text)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, column_major, dtype = read(text)
    except StorageError:
        raise
    except (ValueError, EOFError, OSError) as error:
        raise _not_npy(file.name, error) from error
    wanted = text.tell() + math.prod(shape) * dtype.itemsize
    if dtype.hasobject or nbytes < wanted:
        why = (
            "it contains Python objects"
            if dtype.hasobject
            else f"it has {nbytes} bytes, but its header calls for {wanted}"
        )
        raise _not_npy(file.name, why)
    return _Header(shape, dtype, text.tell(), column_major and len(shape) > 1)


def _not_npy(name: str, why: object) -> InvalidInput:
    return InvalidInput(
        f"{name} is not a readable .npy file of numbers ({why}). "
        "Save the matrix with numpy.save(path, array, allow_pickle=False)."
    )
