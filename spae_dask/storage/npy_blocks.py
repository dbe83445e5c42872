"""Row blocks of an ``.npy`` file, each through a memory map of its own.

Pages of a map that stays open count as memory of the process, so that its size would grow with what it has read.
"""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt

from spae_dask.blocks import uniform_bounds
from spae_dask.errors import InvalidInput, NotFound


@dataclass(frozen=True, eq=False)
class NpyBlocks:
    """A two-dimensional array in an ``.npy`` file.

    Parameters
    ----------
    path : str
        The file.
    target_nbytes : int
        Bytes of a block.
    """

    path: str
    target_nbytes: int = 8 << 20
    in_process: bool = False

    def _map(self) -> npt.NDArray[np.generic]:
        path = Path(self.path)
        if not path.exists():
            raise NotFound(f"there is no file {self.path}. Give the path of an existing .npy file.")
        try:
            array: npt.NDArray[np.generic] = np.load(path, mmap_mode="r", allow_pickle=False)
        except (ValueError, EOFError, OSError) as error:
            raise InvalidInput(
                f"{self.path} is not a readable .npy file of numbers ({error}). "
                "Save the matrix with numpy.save(path, array, allow_pickle=False)."
            ) from error
        return array

    @cached_property
    def _header(self) -> tuple[tuple[int, ...], np.dtype[np.generic]]:
        mapped = self._map()
        return mapped.shape, mapped.dtype

    @property
    def stored_shape(self) -> tuple[int, ...]:
        """Shape of the stored array, for checks before it is used."""
        return self._header[0]

    @property
    def shape(self) -> tuple[int, int]:
        """``(n, d)``."""
        n, d = self.stored_shape
        return int(n), int(d)

    @property
    def dtype(self) -> np.dtype[np.generic]:
        """Type of the entries."""
        return self._header[1]

    @property
    def rows_per_block(self) -> int:
        """Rows in a block."""
        n, d = self.shape
        return max(1, min(n, self.target_nbytes // max(1, d * self.dtype.itemsize)))

    @property
    def bounds(self) -> range | tuple[int, ...]:
        """Row bounds of the blocks."""
        return uniform_bounds(self.shape[0], self.rows_per_block)

    @property
    def read_nbytes(self) -> int:
        """The pages of the map that one block touches."""
        return self.rows_per_block * self.shape[1] * self.dtype.itemsize

    def read(self, i: int) -> npt.NDArray[np.generic]:
        """Rows of block ``i``, copied out of the map so that what a task holds is what the plan counted."""
        start = i * self.rows_per_block
        return np.array(self._map()[start : start + self.rows_per_block], order="C")

    def describe(self) -> str:
        """The path."""
        return self.path
