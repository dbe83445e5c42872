"""Row blocks of a CSR matrix in a Zarr or HDF5 group, as AnnData writes it: ``data``, ``indices`` and ``indptr``."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
import zarr
from zarr.storage import MemoryStore

from spae_dask.blocks import StoredEntries, in_canonical_form
from spae_dask.errors import InvalidInput
from spae_dask.storage.bounded import bounded
from spae_dask.storage.checks import refuse_code
from spae_dask.storage.readable import MAX_LENGTH, MAX_SPARSE_ROWS
from spae_dask.storage.sources.checked_store import ArrayChange, store_of
from spae_dask.storage.sources.runs import StoredArray, n_at_once, place, read_run
from spae_dask.storage.sources.zarr_blocks import MAX_BLOCK_NBYTES, TARGET_BLOCK_NBYTES, names_of

Pointers = npt.NDArray[np.int64]


def cut_rows(pieces: Iterable[tuple[int, Pointers]], block_entries: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Cut rows into blocks; only a piece of the row pointers is looked at a time.

    Parameters
    ----------
    pieces : iterable of (int, ndarray of int64)
        The row pointers in order: the number of the first one, and some of them. Each piece begins with the pointer the
        one before ended with.
    block_entries : int
        Entries of a block, where a row counts as one more so that empty rows do not pile up without end.

    Returns
    -------
    bounds, entries : tuple of int
        Row bounds of the blocks, and the stored entries before each of them. A block has more than ``block_entries``
        only if it is a single row.
    """
    bounds, entries = [0], [0]
    last, n_before = 0, 0
    for start, pointers in pieces:
        load = pointers + np.arange(start, start + len(pointers))
        last, n_before = start + len(pointers) - 1, int(pointers[-1])
        fits = int(np.searchsorted(load, entries[-1] + bounds[-1] + block_entries, side="right")) - 1
        while start + fits < last:
            bounds.append(max(start + fits, bounds[-1] + 1))
            entries.append(int(pointers[bounds[-1] - start]))
            fits = int(np.searchsorted(load, entries[-1] + bounds[-1] + block_entries, side="right")) - 1
    if bounds[-1] < last:
        bounds.append(last)
        entries.append(n_before)
    return tuple(bounds), tuple(entries)


CHUNKS_PER_BLOCK = 8
"""A block ends in the middle of a chunk, which is decoded again for the next one: that is an eighth more."""

POINTERS_AT_ONCE = 1 << 20
"""Row pointers held at once while blocks are chosen, unless a chunk of them is larger."""


@dataclass(frozen=True, eq=False)
class CsrBlocks:
    """A CSR matrix on disk, read in blocks of whole rows of about equal stored bytes.

    Choosing the blocks takes one read of the row pointers, at most 8 bytes a row, of which those at the bounds are
    kept: a few seconds for 10^8 rows. It is done once, and goes along when the source is pickled. Reading a block
    decodes the chunks of row pointers it lies in; if those are large beside a block, it is they that take the time.

    Parameters
    ----------
    data, indices, indptr : zarr.Array or H5Array
        Values, their columns and where each row starts, one-dimensional.
    shape : tuple of int
        ``(n, d)``.
    feature_names : tuple of str, optional
        Names of the columns.
    target_nbytes : int
        Stored bytes of a block; more where the chunks are large.
    """

    data: StoredArray
    indices: StoredArray
    indptr: StoredArray
    shape: tuple[int, int]
    feature_names: tuple[str, ...] | None = None
    target_nbytes: int = TARGET_BLOCK_NBYTES

    @property
    def dtype(self) -> np.dtype[np.generic]:
        """Type of the entries, as scipy holds them."""
        return readable_dtype(np.dtype(self.data.dtype))

    @property
    def entry_nbytes(self) -> int:
        """Bytes of an entry in memory: value and column."""
        return int(self.dtype.itemsize + self.index_dtype.itemsize)

    @property
    def index_dtype(self) -> np.dtype[np.generic]:
        """Type of columns and row pointers of a block, whatever they are stored as."""
        return np.dtype(np.int32 if self.shape[1] < 2**31 else np.int64)

    @property
    def pointer_nbytes(self) -> int:
        """Bytes of the row pointers decoded for a block beside its own: a chunk of them."""
        return min(self.indptr.shape[0], self.indptr.chunks[0]) * int(self.indptr.dtype.itemsize)

    @property
    def decodes_per_chunk(self) -> int:
        """Decodes of each chunk a pass: 1 (and 2 of one in `CHUNKS_PER_BLOCK`) unless chunks are huge."""
        return -(-self._chunk_entries // self._block_entries)

    @property
    def read_nbytes(self) -> int:
        """Decoded chunks in flight, of values or of columns; row pointers; and what is converted as it is read."""
        largest = max(array.chunks[0] * array.dtype.itemsize for array in (self.data, self.indices))
        in_flight = min(n_at_once(self.data), CHUNKS_PER_BLOCK + 2) * int(largest)
        return in_flight + 2 * self.pointer_nbytes + self._block_entries * int(self.indices.dtype.itemsize + 1)

    @property
    def in_process(self) -> bool:
        """True for a group kept in a dictionary of this process."""
        return isinstance(self.data, zarr.Array) and isinstance(store_of(self.data), MemoryStore)

    @property
    def arrays(self) -> dict[str, StoredArray]:
        """The three arrays by name."""
        return {"data": self.data, "indices": self.indices, "indptr": self.indptr}

    def with_arrays(self, change: ArrayChange) -> "CsrBlocks":
        """The same with other arrays, if they are of Zarr; its blocks are not chosen again."""

        def changed(array: StoredArray) -> StoredArray:
            return change(array) if isinstance(array, zarr.Array) else array

        same = replace(self, data=changed(self.data), indices=changed(self.indices), indptr=changed(self.indptr))
        vars(same)["_cut"] = self._cut
        return same

    @property
    def files(self) -> tuple[str, ...]:
        """The HDF5 file, if it is in one."""
        return () if isinstance(self.data, zarr.Array) else (self.data.path,)

    @property
    def n_objects(self) -> int | None:
        """Objects the three arrays have if all are stored: shards if there are shards, else chunks; None in a file."""
        if not isinstance(self.data, zarr.Array):
            return None
        return sum(int(-(-each.shape[0] // (each.shards or each.chunks)[0])) for each in self.arrays.values())

    @property
    def bounds(self) -> tuple[int, ...]:
        """Row bounds of the blocks.

        Raises
        ------
        InvalidInput
            If the row pointers are not those of a CSR matrix of this shape and length.
        """
        return self._cut[0]

    @cached_property
    def stored(self) -> StoredEntries:
        """Bytes of the blocks."""
        bounds, entries = self._cut
        pointer = int(self.index_dtype.itemsize)
        offsets = tuple(self.entry_nbytes * e + pointer * b for b, e in zip(bounds, entries, strict=True))
        return StoredEntries(offsets, entries[-1] / (self.shape[0] * self.shape[1]))

    @property
    def _chunk_entries(self) -> int:
        return int(max(self.data.chunks[0], self.indices.chunks[0]))

    @property
    def _block_entries(self) -> int:
        """Entries of a block: the target, or several chunks, but never more than may be held."""
        wanted = max(self.target_nbytes // self.entry_nbytes, CHUNKS_PER_BLOCK * self._chunk_entries)
        return max(1, min(wanted, MAX_BLOCK_NBYTES // self.entry_nbytes))

    @cached_property
    def _cut(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Row bounds of the blocks, and the entries before each of them."""
        bounds, entries = cut_rows(self._pointers(), self._block_entries)
        if entries[-1] != self.data.shape[0]:
            raise self._corrupt(f"its row pointers end at {entries[-1]:,}, its values at {self.data.shape[0]:,}")
        return bounds, entries

    def _pointers(self) -> Iterator[tuple[int, Pointers]]:
        """All row pointers, checked, in pieces that overlap by one."""
        chunk = int(self.indptr.chunks[0])
        step = chunk * max(1, POINTERS_AT_ONCE // chunk)
        held = np.zeros(1, dtype=np.int64)
        for start in range(0, self.shape[0] + 1, step):
            piece = read_run(self.indptr, start, min(start + step, self.shape[0] + 1)).astype(np.int64)
            if start == 0 and piece[0] != 0:
                raise self._corrupt(f"its row pointers begin with {piece[0]}, not with 0")
            if start:
                piece = np.concatenate([held, piece])
            falls = np.flatnonzero(np.diff(piece) < 0)
            first = max(0, start - 1)
            if falls.size:
                before, after = piece[falls[0] : falls[0] + 2]
                raise self._corrupt(f"row {first + falls[0]} starts at entry {before} and ends at entry {after}")
            yield first, piece
            held = piece[-1:]

    def read(self, i: int) -> sp.csr_array:
        """Rows of block ``i``, columns sorted, entries given twice summed.

        Raises
        ------
        StorageError
            If a chunk cannot be read or decoded; it is named.
        InvalidInput
            If row pointers or column numbers make no matrix of this shape.
        """
        bounds, entries = self._cut
        (start, stop), (first, last) = bounds[i : i + 2], entries[i : i + 2]
        pointers = read_run(self.indptr, start, stop + 1).astype(np.int64) - first
        if pointers[0] != 0 or pointers[-1] != last - first or np.any(np.diff(pointers) < 0):
            raise self._corrupt(f"its row pointers {start} to {stop} changed since it was opened")
        columns = read_run(self.indices, first, last)
        if columns.size and not 0 <= columns.min() <= columns.max() < self.shape[1]:
            at = int(np.flatnonzero((columns < 0) | (columns >= self.shape[1]))[0])
            row = start + int(np.searchsorted(pointers, at, side="right")) - 1
            raise self._corrupt(
                f"row {row} has an entry in column {columns[at]}, but there are only {self.shape[1]} columns"
            )
        values = read_run(self.data, first, last).astype(self.dtype, copy=False)
        index = self.index_dtype
        block = sp.csr_array(
            (values, columns.astype(index, copy=False), pointers.astype(index)), shape=(stop - start, self.shape[1])
        )
        return in_canonical_form(block)

    def _corrupt(self, what: str) -> InvalidInput:
        return InvalidInput(
            f"{self.describe()} is not a valid CSR matrix: {what}. It is damaged or incomplete. Restore it "
            "from a copy, or write it again."
        )

    def describe(self) -> str:
        """Return the place of the group."""
        return place(self.data).removesuffix("/data")


def readable_dtype(dtype: np.dtype[Any]) -> np.dtype[np.generic]:
    """The type scipy holds entries of a stored type in: native byte order, and no float16."""
    return np.dtype(np.float32) if dtype == np.float16 else dtype.newbyteorder("=")


def open_csr(
    group: Any,
    name: str,
    feature_names: tuple[str, ...] | None = None,
    kept: Callable[[Any], StoredArray] | None = None,
) -> CsrBlocks:
    """A group of AnnData's ``csr_matrix`` encoding as row blocks; metadata alone is looked at.

    ``kept`` makes of a member of the group what is kept of it, where that is not the member itself.

    Raises
    ------
    InvalidInput
        If arrays or the shape are missing, or their lengths do not fit together.
    """
    arrays = {key: group.get(key) for key in ("data", "indices", "indptr")}
    missing = [key for key, array in arrays.items() if getattr(array, "ndim", None) != 1]
    shape = shape_of(group)
    if missing or shape is None:
        arrays_missing = f"one-dimensional array {', '.join(missing)}"
        lacks = arrays_missing if missing else f"attribute shape of two integers (it is {group.attrs.get('shape')!r})"
        raise InvalidInput(f"{name} is declared a csr_matrix but lacks the {lacks}. Write it again, or ask its author.")
    for key, array in arrays.items():
        refuse_code(array, f"{name}/{key}")
        arrays[key] = bounded(array)
    n, d = shape
    if kept is not None:
        arrays = {key: kept(array) for key, array in arrays.items()}
    if feature_names is None:
        feature_names = names_of(group.attrs.get("feature_names"), d)
    blocks = CsrBlocks(arrays["data"], arrays["indices"], arrays["indptr"], (n, d), feature_names)
    lengths = {key: array.shape[0] for key, array in arrays.items()}
    if any(0 in (getattr(array, "chunks", None) or ()) for array in arrays.values()):
        raise blocks._corrupt("its chunks have no entries")
    if lengths["data"] != lengths["indices"]:
        raise blocks._corrupt(f"it has {lengths['data']:,} values but {lengths['indices']:,} column numbers")
    if n > MAX_SPARSE_ROWS or d > MAX_LENGTH:
        raise blocks._corrupt(f"its shape is {(n, d)}, but at most {MAX_SPARSE_ROWS:,} rows are allowed")
    if lengths["indptr"] != n + 1:
        raise blocks._corrupt(f"it has {lengths['indptr']:,} row pointers, but {n:,} rows need {n + 1:,}")
    for key in ("indices", "indptr"):
        if arrays[key].dtype.kind not in "iu":
            raise blocks._corrupt(f"its {key} are {arrays[key].dtype}, not integers")
    return blocks


def shape_of(group: Any) -> tuple[int, int] | None:
    """Rows and columns a sparse matrix says it has; None if that is not two integers. anndata 0.6 had another word."""
    shape = group.attrs.get("shape", group.attrs.get("h5sparse_shape"))
    lengths = shape.tolist() if isinstance(shape, np.ndarray) else shape
    if not isinstance(lengths, list | tuple) or len(lengths) != 2 or not all(isinstance(each, int) for each in lengths):
        return None
    return lengths[0], lengths[1]
