"""Row blocks of an ``.npy`` file, through a memory map that is opened where it is read."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

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
    read_nbytes: int = 0
    in_process: bool = False

    @cached_property
    def _mapped(self) -> npt.NDArray[np.generic]:
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

    def __getstate__(self) -> dict[str, Any]:
        """Without the open map: another process opens its own."""
        return {name: value for name, value in self.__dict__.items() if name != "_mapped"}

    @property
    def ndim(self) -> int:
        """Dimensions of the stored array, for checks before it is used."""
        return self._mapped.ndim

    @property
    def shape(self) -> tuple[int, int]:
        """``(n, d)``."""
        n, d = self._mapped.shape
        return int(n), int(d)

    @property
    def dtype(self) -> np.dtype[np.generic]:
        """Type of the entries."""
        return self._mapped.dtype

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
        """Rows of block ``i``, copied out of the map so that what a task holds is what the plan counted."""
        start = i * self.rows_per_block
        return np.array(self._mapped[start : start + self.rows_per_block], order="C")

    def describe(self) -> str:
        """The path."""
        return self.path
