"""Arrays in HDF5 files, known by path and name: the file is open only while something is read from it."""

import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt

from spae_dask.errors import InvalidInput, StorageError
from spae_dask.storage.remote.faults import not_seen, reader


def refuse_absent_parts(dataset: Any, first: int, last: int) -> None:
    """Make sure that what rows ``first`` to ``last - 1`` of a dataset are made of is there.

    Parameters
    ----------
    dataset : h5py.Dataset
        Dataset of an open file.
    first, last : int
        Rows.

    Raises
    ------
    StorageError
        If a file is missing, or is shorter than it should be, or lacks the array that is to be in it.
    InvalidInput
        If names of files are patterns, for which the number of files is unknown.
    """
    if dataset.external:
        _refuse_short_files(dataset)
    if dataset.is_virtual:
        for part in dataset.virtual_sources():
            _refuse_pattern(dataset, part)
            start, stop = (int(bounds[0]) for bounds in part.vspace.get_select_bounds())
            if start < last and stop >= first:
                _refuse_absent_source(dataset, part)


def _refuse_pattern(dataset: Any, part: Any) -> None:
    if "%" in part.file_name or "%" in part.dset_name:
        raise InvalidInput(
            f"{_name(dataset)} is a virtual dataset of files by the pattern {part.file_name!r}. Missing files "
            "would be read as zeros. Name each file, or write the array into one file."
        )


def _name(dataset: Any) -> str:
    return f"{dataset.file.filename}{dataset.name}"


def _refuse_absent_source(dataset: Any, part: Any) -> None:
    name = _name(dataset)
    if part.file_name == ".":
        source, where = dataset.file.get(part.dset_name), dataset.file.filename
        _refuse_other_shape(source, part, where, name)
        return
    path = _found(part.file_name, dataset.file.filename, "HDF5_VDS_PREFIX")
    if path is None:
        raise StorageError(not_seen(f"{part.file_name}, a part of {name},"))
    with h5py.File(path, "r") as file:
        _refuse_other_shape(file.get(part.dset_name), part, path, name)


def _refuse_other_shape(source: Any, part: Any, where: str, name: str) -> None:
    shape = getattr(source, "shape", None)
    if shape is not None and _holds(shape, part):
        return
    raise StorageError(
        f"{name} needs more of {part.dset_name!r} in {where}, which is "
        f"{'not there' if shape is None else shape}. The rest would be read as zeros. Restore that file, "
        f"or write {name} again."
    )


def _holds(shape: tuple[int, ...], part: Any) -> bool:
    """Return True if an array of this shape holds all that a virtual dataset takes from it."""
    if part.src_space.get_select_type() == h5py.h5s.SEL_ALL:
        return math.prod(shape) >= int(part.vspace.get_select_npoints())
    ends = part.src_space.get_select_bounds()[1]
    return len(shape) == len(ends) and all(has > end for has, end in zip(shape, ends, strict=True))


def _refuse_short_files(dataset: Any) -> None:
    left = dataset.size * dataset.dtype.itemsize
    for given, offset, length in dataset.external:
        path = _found(os.fsdecode(given), dataset.file.filename, "HDF5_EXTFILE_PREFIX")
        if path is None:
            raise StorageError(not_seen(f"{given}, which contains the bytes of {_name(dataset)},"))
        needed = min(left, length)
        if os.stat(path).st_size < offset + needed:
            raise StorageError(
                f"{path} has {os.stat(path).st_size:,} bytes, but {_name(dataset)} needs {offset + needed:,}. The "
                "rest would be read as zeros. Restore it from a copy."
            )
        left -= needed


def _found(name: str, holder: str, prefix: str) -> str | None:
    """Return the path at which HDF5 finds a file that another file names."""
    beside = str(Path(holder).parent)
    given = os.environ.get(prefix, "").replace("${ORIGIN}", beside)
    candidates = [str(Path(folder, name)) for folder in ([given] if given else []) + [beside, ""]]
    return next((each for each in candidates if Path(each).is_file()), None)


PIECE_NBYTES = 1 << 20
"""Bytes taken for a chunk where an array has none, because it is stored in one piece."""


@dataclass(frozen=True)
class H5Array:
    """An array of one or two dimensions, to be cut by rows; a few words when pickled.

    A file that stayed open could not be written again by its owner, and no other process could take it over: each
    reading opens it anew, which takes about a millisecond. HDF5 reads one thing at a time in a process, whatever the
    number of threads; processes read at once.

    Attributes
    ----------
    path, key : str
        The file, and the array in it.
    shape : tuple of int
        Its lengths.
    dtype : numpy.dtype
        Its type.
    chunks : tuple of int
        Lengths of a chunk, or of a piece of `PIECE_NBYTES` if it has none.
    """

    path: str
    key: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    chunks: tuple[int, ...]
    shards: None = None

    @property
    def ndim(self) -> int:
        """Dimensions."""
        return len(self.shape)

    @property
    def place(self) -> str:
        """Path of the dataset, for messages."""
        return f"{self.path}/{self.key}"

    def __getitem__(self, rows: slice) -> npt.NDArray[Any]:
        """Some rows.

        Raises
        ------
        StorageError
            If the array is not the one that was opened, or a file that it is put together from has gone.
        OSError, KeyError
            If the file or the array has gone, or cannot be decoded; who reads says which rows those were.
        """
        with h5py.File(self.path, "r") as file:
            dataset = file[self.key]
            if (dataset.shape, dataset.dtype) != (self.shape, self.dtype):
                raise StorageError(
                    f"{self.place} was {self.shape} {self.dtype} when it was opened, but is {dataset.shape} "
                    f"{dataset.dtype} for {reader()}. It was rewritten, or that is an older copy. Give data that do "
                    "not change, at a path where all workers see the same."
                )
            refuse_absent_parts(dataset, rows.start, rows.stop)
            read: npt.NDArray[Any] = dataset[rows]
            return read


def array_in_file(dataset: Any) -> H5Array:
    """The array behind an open ``h5py.Dataset``."""
    shape = tuple(int(length) for length in dataset.shape)
    row_nbytes = max(1, int(np.prod(shape[1:])) * dataset.dtype.itemsize)
    pieces = (max(1, min(shape[0], PIECE_NBYTES // row_nbytes)), *shape[1:]) if shape else ()
    return H5Array(
        path=str(Path(dataset.file.filename).resolve()),
        key=dataset.name.strip("/"),
        shape=shape,
        dtype=np.dtype(dataset.dtype),
        chunks=tuple(int(length) for length in dataset.chunks or pieces),
    )
