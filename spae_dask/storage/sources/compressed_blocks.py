"""Sparse matrices in a Zarr or HDF5 group, as AnnData writes them: ``data``, ``indices`` and ``indptr``.

What CSR and CSC groups have in common: their arrays, and row blocks of about equal stored bytes.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
import zarr

from spae_dask.blocks import StoredEntries
from spae_dask.errors import InvalidInput
from spae_dask.storage.bounded import bounded
from spae_dask.storage.checks import refuse_code
from spae_dask.storage.readable import MAX_LENGTH, MAX_SPARSE_ROWS
from spae_dask.storage.sources.checked_store import ArrayChange, is_in_process
from spae_dask.storage.sources.runs import StoredArray, place, read_run
from spae_dask.storage.sources.zarr_blocks import TARGET_BLOCK_NBYTES, names_of

Pointers = npt.NDArray[np.int64]

POINTERS_AT_ONCE = 1 << 20
"""Pointers held at once while blocks are chosen, unless a chunk of them is larger."""


@dataclass(frozen=True, eq=False)
class CompressedBlocks:
    """A sparse matrix on disk, read in blocks of whole rows.

    Parameters
    ----------
    data, indices, indptr : zarr.Array or H5Array
        Values, their columns (CSR) or rows (CSC), and where each row or column starts, one-dimensional.
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

    encoding: ClassVar[str]
    major: ClassVar[str]
    minor: ClassVar[str]

    @classmethod
    def opened(
        cls,
        group: Any,
        name: str,
        feature_names: tuple[str, ...] | None = None,
        kept: Callable[[Any], StoredArray] | None = None,
    ) -> Self:
        """A group of AnnData's encoding as row blocks; metadata alone is looked at.

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
            lacks = (
                f"one-dimensional array {', '.join(missing)}"
                if missing
                else f"attribute shape of two integers (it is {group.attrs.get('shape')!r})"
            )
            raise InvalidInput(
                f"{name} is declared a {cls.encoding} but lacks the {lacks}. Write it again, or ask its author."
            )
        for key, array in arrays.items():
            refuse_code(array, f"{name}/{key}")
            arrays[key] = bounded(array)
        n, d = shape
        if kept is not None:
            arrays = {key: kept(array) for key, array in arrays.items()}
        if feature_names is None:
            feature_names = names_of(group.attrs.get("feature_names"), d)
        blocks = cls(arrays["data"], arrays["indices"], arrays["indptr"], (n, d), feature_names)
        lengths = {key: array.shape[0] for key, array in arrays.items()}
        if any(0 in (getattr(array, "chunks", None) or ()) for array in arrays.values()):
            raise blocks._corrupt("its chunks have no entries")
        if lengths["data"] != lengths["indices"]:
            raise blocks._corrupt(f"it has {lengths['data']:,} values but {lengths['indices']:,} {cls.minor} numbers")
        if n > MAX_SPARSE_ROWS or d > MAX_LENGTH:
            raise blocks._corrupt(f"its shape is {(n, d)}, but at most {MAX_SPARSE_ROWS:,} rows are allowed")
        major = blocks._n_major
        if lengths["indptr"] != major + 1:
            raise blocks._corrupt(
                f"it has {lengths['indptr']:,} {cls.major} pointers, but {major:,} {cls.major}s need {major + 1:,}"
            )
        for key in ("indices", "indptr"):
            if arrays[key].dtype.kind not in "iu":
                raise blocks._corrupt(f"its {key} are {arrays[key].dtype}, not integers")
        return blocks

    @property
    def _n_major(self) -> int:
        """Rows of a CSR matrix, columns of a CSC matrix."""
        return self.shape[0] if self.major == "row" else self.shape[1]

    @property
    def pointer_nbytes(self) -> int:
        """Bytes of the pointers decoded for a block beside its own: a chunk of them."""
        return min(self.indptr.shape[0], self.indptr.chunks[0]) * int(self.indptr.dtype.itemsize)

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
    def in_process(self) -> bool:
        """True for a group kept in a dictionary of this process."""
        return isinstance(self.data, zarr.Array) and is_in_process(self.data)

    @property
    def arrays(self) -> dict[str, StoredArray]:
        """The three arrays by name."""
        return {"data": self.data, "indices": self.indices, "indptr": self.indptr}

    def with_arrays(self, change: ArrayChange) -> "CompressedBlocks":
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
            If the arrays are not those of a sparse matrix of this shape and length.
        """
        return self._cut[0]

    @cached_property
    def stored(self) -> StoredEntries:
        """Bytes of the blocks."""
        bounds, entries = self._cut
        pointer = int(self.index_dtype.itemsize)
        offsets = tuple(self.entry_nbytes * e + pointer * b for b, e in zip(bounds, entries, strict=True))
        return StoredEntries(offsets, entries[-1] / (self.shape[0] * self.shape[1]))

    @cached_property
    def _cut(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Row bounds of the blocks, and the entries before each of them."""
        raise NotImplementedError

    @property
    def _chunk_entries(self) -> int:
        return int(max(self.data.chunks[0], self.indices.chunks[0]))

    def _pointers(self) -> Iterator[tuple[int, Pointers]]:
        """All pointers to rows, or columns, checked, in pieces that overlap by one."""
        chunk = int(self.indptr.chunks[0])
        step = chunk * max(1, POINTERS_AT_ONCE // chunk)
        held = np.zeros(1, dtype=np.int64)
        for start in range(0, self._n_major + 1, step):
            piece = read_run(self.indptr, start, min(start + step, self._n_major + 1)).astype(np.int64)
            if start == 0 and piece[0] != 0:
                raise self._corrupt(f"its {self.major} pointers begin with {piece[0]}, not with 0")
            if start:
                piece = np.concatenate([held, piece])
            falls = np.flatnonzero(np.diff(piece) < 0)
            first = max(0, start - 1)
            if falls.size:
                before, after = piece[falls[0] : falls[0] + 2]
                raise self._corrupt(
                    f"{self.major} {first + falls[0]} starts at entry {before} and ends at entry {after}"
                )
            yield first, piece
            held = piece[-1:]

    def _refuse_end(self, last: int) -> None:
        """Raise `InvalidInput` if the pointers do not end with the values."""
        if last != self.data.shape[0]:
            raise self._corrupt(f"its {self.major} pointers end at {last:,}, its values at {self.data.shape[0]:,}")

    def _refuse_outside(self, numbers: npt.NDArray[Any], pointers: Pointers, *, entry: int = 0, major: int = 0) -> None:
        """Raise `InvalidInput` for a number of an entry's column (CSR) or row (CSC) that the shape has not.

        ``pointers`` begin with row or column ``major``, and the numbers with entry ``entry`` of those.
        """
        n = self.shape[1] if self.major == "row" else self.shape[0]
        if numbers.size and not 0 <= numbers.min() <= numbers.max() < n:
            at = int(np.flatnonzero((numbers < 0) | (numbers >= n))[0])
            where = major + int(np.searchsorted(pointers, entry + at, side="right")) - 1
            raise self._corrupt(
                f"{self.major} {where} has an entry in {self.minor} {numbers[at]}, but there are only {n} {self.minor}s"
            )

    def _corrupt(self, what: str) -> InvalidInput:
        return InvalidInput(
            f"{self.describe()} is not a valid {self.encoding[:3].upper()} matrix: {what}. It is damaged or "
            "incomplete. Restore it from a copy, or write it again."
        )

    def describe(self) -> str:
        """Return the place of the group."""
        return place(self.data).removesuffix("/data")


def readable_dtype(dtype: np.dtype[Any]) -> np.dtype[np.generic]:
    """The type scipy holds entries of a stored type in: native byte order, and no float16."""
    return np.dtype(np.float32) if dtype == np.float16 else dtype.newbyteorder("=")


def shape_of(group: Any) -> tuple[int, int] | None:
    """Rows and columns a sparse matrix says it has; None if that is not two integers. anndata 0.6 had another word."""
    shape = group.attrs.get("shape", group.attrs.get("h5sparse_shape"))
    lengths = shape.tolist() if isinstance(shape, np.ndarray) else shape
    if not isinstance(lengths, list | tuple) or len(lengths) != 2 or not all(isinstance(each, int) for each in lengths):
        return None
    return lengths[0], lengths[1]
