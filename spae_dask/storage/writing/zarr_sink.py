"""A Zarr array that is written in whole row chunks by many tasks."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import zarr
from zarr.abc.store import Store
from zarr.codecs import BloscCodec

MIN_UNIT_NBYTES = 1 << 20
MAX_UNIT_NBYTES = 64 << 20
WANTED_UNITS = 2000
"""Objects an output is split into, as far as their size allows: enough to write in parallel, few enough for quotas."""


def unit_rows_for(n_rows: int, row_nbytes: int, rows_per_block: int) -> int:
    """Rows of a chunk of the output: a whole number of the source's blocks where that stays small.

    Parameters
    ----------
    n_rows, row_nbytes : int
        Rows, and bytes of a row, of the output.
    rows_per_block : int
        Rows of the source's blocks.
    """
    nbytes = min(max(n_rows * row_nbytes // WANTED_UNITS, MIN_UNIT_NBYTES), MAX_UNIT_NBYTES)
    rows = max(1, nbytes // row_nbytes)
    if rows_per_block * row_nbytes <= MAX_UNIT_NBYTES:
        rows = max(1, rows // rows_per_block) * rows_per_block
    return min(rows, n_rows)


@dataclass(frozen=True)
class ZarrSink:
    """An existing Zarr array to write rows into.

    Parameters
    ----------
    store : str or Store
        Absolute path of the array, or its store; it pickles.
    unit_rows : int
        Rows of its chunks.
    n_columns : int
        Its columns.
    dtype : numpy.dtype
        Its type.
    """

    store: str | Store
    unit_rows: int
    n_columns: int
    dtype: np.dtype[Any]

    def _open(self) -> Any:
        return zarr.open_array(self.store, mode="r+")

    def write(self, first_row: int, rows: npt.NDArray[Any]) -> None:
        """Store one whole chunk."""
        array = self._open()
        # an all-zero chunk is stored like any other, so that a missing chunk always means a lost one; the array's own
        # with_config does the same from Zarr 3.1.6 on
        array = zarr.Array(zarr.AsyncArray(array.metadata, array.store_path, {"write_empty_chunks": True}))
        array[first_row : first_row + rows.shape[0]] = rows

    def read(self, first_row: int, last_row: int) -> npt.NDArray[Any]:
        """Read rows back."""
        return np.asarray(self._open()[first_row:last_row])


def create_sink(
    store: str | Store, shape: tuple[int, int], dtype: np.dtype[Any], unit_rows: int, attributes: Mapping[str, Any]
) -> ZarrSink:
    """Create an empty Zarr v3 array (n, k) in row chunks of ``unit_rows``."""
    zarr.create_array(
        store,
        shape=shape,
        chunks=(unit_rows, shape[1]),
        dtype=dtype,
        compressors=BloscCodec(cname="lz4", shuffle="shuffle"),
        dimension_names=("sample", "component"),
        attributes=dict(attributes),
    )
    return ZarrSink(store, unit_rows, shape[1], np.dtype(dtype))
