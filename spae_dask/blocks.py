"""Row blocks: how every source of data looks to the engine.

A source is a matrix X of ``n`` rows and ``d`` columns that is read in contiguous row blocks. The engine knows nothing
else about it. A source that can be read in another process is small when pickled and opens its store where it is read.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from spae_dask.errors import InvalidInput

Block: TypeAlias = npt.NDArray[np.generic] | sp.csr_array


@runtime_checkable
class RowBlocks(Protocol):
    """A matrix that is read in row blocks.

    Attributes
    ----------
    shape : tuple of int
        ``(n, d)``.
    dtype : numpy.dtype
        Type of the entries as read.
    bounds : sequence of int
        Row bounds of the blocks, ``0 = bounds[0] < ... < bounds[-1] = n``; block ``i`` holds the rows
        ``bounds[i]`` to ``bounds[i + 1] - 1``.
    read_nbytes : int
        Bytes held beside the block itself while one block is being read, such as a decoded chunk.
    in_process : bool
        True if the data live in this process's memory only, so that no other process can read them.
    feature_names : tuple of str, optional
        Names of the columns, of sources that know them.
    stored : StoredEntries, optional
        Sizes of the stored entries of CSR blocks. Sources of dense rows may leave it out (see ``stored_entries``).
    of_columns : callable, optional
        Function from columns to row blocks of those columns alone, if that reads less than all (see ``columns_alone``).
    column_groups : tuple of ndarray of int, optional
        Groups of columns to read one after another, if a pass over whole rows would decode chunks several times
        (see ``column_groups``).
    in_smaller_blocks : callable, optional
        Function from a number of chunks to the same rows in blocks of no more (see ``in_smaller_blocks``).
    asked : dict, optional
        Choices made when the data were opened, such as a mask (see ``asked_of``).
    """

    @property
    def shape(self) -> tuple[int, int]: ...

    @property
    def dtype(self) -> np.dtype[np.generic]: ...

    @property
    def bounds(self) -> Sequence[int]: ...

    @property
    def read_nbytes(self) -> int: ...

    @property
    def in_process(self) -> bool: ...

    def read(self, i: int) -> Block:
        """Block ``i``: an array ``(rows, d)`` or CSR rows."""
        ...

    def describe(self) -> str:
        """Name of the source for messages, such as its path."""
        ...


@dataclass(frozen=True, eq=False)
class StoredEntries:
    """Stored entries of the CSR blocks of a source, as far as they are known before the blocks are read.

    Attributes
    ----------
    offsets : sequence of int
        Bytes (values, column numbers and row pointers) of all blocks before each bound of the source.
    density : float
        Share of the n x d entries that are stored.
    """

    offsets: Sequence[int]
    density: float


def stored_entries(source: RowBlocks) -> StoredEntries | None:
    """Return the known sizes of the stored entries of a source of CSR rows, or None if its rows are dense."""
    stored: StoredEntries | None = getattr(source, "stored", None)
    return stored


def in_canonical_form(block: sp.csr_array) -> sp.csr_array:
    """CSR rows with sorted columns, each at most once; a copy if they were not so.

    Entries given twice are summed, integers in 64 bits: scipy sums in their own type, in which uint8 wraps at 256.
    """
    if block.has_canonical_format:
        return block
    ordered = block.sorted_indices()
    # a new array, because scipy remembers that the unsorted one was not canonical
    ordered = sp.csr_array((ordered.data, ordered.indices, ordered.indptr), shape=ordered.shape)
    if ordered.has_canonical_format:
        return ordered
    if ordered.dtype.kind in "iu":
        ordered = ordered.astype(_sum_dtype(ordered.dtype))
    ordered.sum_duplicates()
    return ordered


def as_csr(matrix: Any) -> sp.csr_array:
    """CSR array of any sparse matrix; if the conversion sums entries given twice, it sums integers in 64 bits."""
    if matrix.format != "coo" or matrix.dtype.kind not in "iu":
        return sp.csr_array(matrix)
    rows = sp.csr_array(matrix.astype(_sum_dtype(matrix.dtype)))
    return rows if rows.nnz < matrix.nnz else rows.astype(matrix.dtype)


def _sum_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Type in which numpy sums integers of ``dtype``."""
    wide: np.dtype[Any] = np.sum(np.zeros(0, dtype)).dtype
    return wide


def columns_alone(source: RowBlocks, columns: npt.NDArray[np.intp]) -> RowBlocks | None:
    """Row blocks of some columns (ascending) of ``source``, in blocks of their own; None if that would read as much."""
    of_columns: Callable[[npt.NDArray[np.intp]], RowBlocks | None] | None = getattr(source, "of_columns", None)
    return None if of_columns is None else of_columns(columns)


def column_groups(source: RowBlocks) -> tuple[npt.NDArray[np.intp], ...] | None:
    """Groups of columns (each ascending) that are read alone, so that a pass decodes each chunk once.

    None if whole rows do as well, or are all that can be read.
    """
    groups: tuple[npt.NDArray[np.intp], ...] | None = getattr(source, "column_groups", None)
    return groups


def block_shape(source: RowBlocks, i: int) -> tuple[int, int]:
    """Rows and columns of a block."""
    shape_of: Callable[[int], tuple[int, int]] | None = getattr(source, "block_shape", None)
    return (source.bounds[i + 1] - source.bounds[i], source.shape[1]) if shape_of is None else shape_of(i)


def in_smaller_blocks(source: RowBlocks, most_chunks: int) -> RowBlocks:
    """The same rows in blocks of at most so many chunks, or of one row of chunks; the source itself if it cannot.

    Whatever little is read of such a source takes as long a byte as all of it, however small its chunks are.
    """
    smaller: Callable[[int], RowBlocks] | None = getattr(source, "in_smaller_blocks", None)
    return source if smaller is None else smaller(most_chunks)


ASKED = (
    "path", "array", "columns", "mask", "n_columns", "rows", "n_rows", "top", "n_before", "sample_dim", "weights"
)  # fmt: skip
"""A path or URL that was opened, what of it was chosen, and how many columns and rows that was chosen from.

``top`` numbers the columns of largest variance among ``n_before``.
"""


def asked_of(source: Any) -> dict[str, Any]:
    """Return the choices made when the data were opened, by the names in ``ASKED``."""
    return dict(getattr(source, "asked", {}))


def remember(source: RowBlocks, **asked: Any) -> RowBlocks:
    """The same source, which says what of the data it is; what is None was not asked for."""
    known = asked_of(source) | {name: value for name, value in asked.items() if value is not None}
    if known:
        vars(source)["asked"] = known  # sources are frozen; it is kept as their cached properties are
    return source


def total_nbytes(source: RowBlocks) -> int:
    """Bytes of all blocks, as they are in memory."""
    nbytes: int | None = getattr(source, "all_nbytes", None)
    if nbytes is not None:
        return nbytes
    stored = stored_entries(source)
    n, d = source.shape
    return n * d * source.dtype.itemsize if stored is None else int(stored.offsets[-1])


def nbytes_of_rows(source: RowBlocks, n_rows: int) -> int:
    """Bytes of some of its rows: their share of all."""
    return total_nbytes(source) * n_rows // source.shape[0]


def largest_block_nbytes(source: RowBlocks) -> int:
    """Bytes of the largest block."""
    stored = stored_entries(source)
    if stored is None:
        return largest_block_rows(source) * source.shape[1] * source.dtype.itemsize
    return int(max(stop - start for start, stop in pairwise(stored.offsets)))


def largest_block_rows(source: RowBlocks) -> int:
    """Rows of the longest block."""
    return max(stop - start for start, stop in pairwise(source.bounds))


@lru_cache(maxsize=16)
def uniform_bounds(n_rows: int, rows_per_block: int) -> range | tuple[int, ...]:
    """Bounds of blocks of ``rows_per_block`` rows; the last one may be shorter.

    A range where it can be one: bounds of 10^6 blocks then pickle into a few bytes. Remembered, because sources are
    asked for their bounds block by block.
    """
    if n_rows % rows_per_block == 0:
        return range(0, n_rows + 1, rows_per_block)
    return (*range(0, n_rows, rows_per_block), n_rows)


@dataclass(frozen=True, eq=False)
class ArrayBlocks:
    """A numpy array, a memory map or a scipy sparse matrix of this process, cut into row blocks.

    Parameters
    ----------
    X : ndarray (n, d) or scipy.sparse.csr_array (n, d)
        The matrix; it is not copied.
    rows_per_block : int
        Rows in a block.
    name : str
        Name of the data in messages.
    feature_names : tuple of str, optional
        Names of the columns.
    """

    X: Block
    rows_per_block: int
    name: str = "the array"
    feature_names: tuple[str, ...] | None = None
    read_nbytes: int = 0
    in_process: bool = True

    @property
    def shape(self) -> tuple[int, int]:
        """``(n, d)``."""
        n, d = self.X.shape
        return int(n), int(d)

    @property
    def dtype(self) -> np.dtype[np.generic]:
        """Type of the entries."""
        return np.dtype(self.X.dtype)

    @property
    def bounds(self) -> Sequence[int]:
        """Row bounds of the blocks."""
        return uniform_bounds(self.shape[0], self.rows_per_block)

    @cached_property
    def stored(self) -> StoredEntries | None:
        """Sizes of the stored entries of a sparse matrix; None for a dense one."""
        X: Any = self.X
        if not sp.issparse(X):
            return None
        bounds = np.asarray(self.bounds)
        entry_nbytes = X.data.itemsize + X.indices.itemsize
        offsets = X.indptr[bounds].astype(np.int64) * entry_nbytes + bounds * X.indptr.itemsize
        n, d = self.shape
        return StoredEntries(tuple(offsets.tolist()), X.nnz / max(1, n * d))

    def read(self, i: int) -> Block:
        """Rows of block ``i``, as a view where the array allows it."""
        start = i * self.rows_per_block
        return self.X[start : start + self.rows_per_block]

    def describe(self) -> str:
        """Name for messages."""
        return self.name


def check_unmasked(block: object) -> None:
    """Refuse masked entries: arithmetic would take what is under the mask for data."""
    if isinstance(block, np.ma.MaskedArray) and block.mask.any():
        raise InvalidInput(
            f"the masked array hides {int(block.mask.sum())} entries, and spae_dask does not use masks. Make "
            "them NaN: x.astype(float).filled(numpy.nan)."
        )


@runtime_checkable
class LazyRowBlocks(RowBlocks, Protocol):
    """Row blocks that are results of a task graph, such as those of a dask array.

    A runner on dask hands them to its own tasks as dependencies, so that what they share is computed once.
    """

    def lazy_blocks(self) -> list[Any]:
        """One ``dask.delayed.Delayed`` a block."""
        ...
