"""Parts of an HDF5 array that lie in other files: HDF5 reads those it does not find as the fill value, silently.

They are virtual datasets, made of arrays of other files, and external ones, whose bytes are plain files. A worker that
does not see one of those files, or sees it cut off, would read zeros.
"""

import math
import os
from pathlib import Path
from typing import Any

import h5py

from spae_dask.errors import InvalidInput, StorageError
from spae_dask.storage.remote.passing import not_seen


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
            f"{_name(dataset)} is a virtual dataset of files by the pattern {part.file_name!r}, of which those that "
            "are missing would be read as zeros. Name each of them, or write the array into one file."
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
        raise StorageError(not_seen(f"{part.file_name}, of which {name} is made,"))
    with h5py.File(path, "r") as file:
        _refuse_other_shape(file.get(part.dset_name), part, path, name)


def _refuse_other_shape(source: Any, part: Any, where: str, name: str) -> None:
    shape = getattr(source, "shape", None)
    if shape is not None and _holds(shape, part):
        return
    raise StorageError(
        f"{name} is made of {part.dset_name!r} in {where}, which is {'not there' if shape is None else shape}, and "
        f"more of it is needed; the rest would be read as zeros. Restore that file, or write {name} again."
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
            raise StorageError(not_seen(f"{given}, which holds the bytes of {_name(dataset)},"))
        needed = min(left, length)
        if os.stat(path).st_size < offset + needed:
            raise StorageError(
                f"{path} has {os.stat(path).st_size:,} bytes, where {_name(dataset)} has "
                f"{offset + needed:,} in it; the rest would be read as zeros. Restore it from a copy."
            )
        left -= needed


def _found(name: str, holder: str, prefix: str) -> str | None:
    """Return the path at which HDF5 finds a file that another file names."""
    beside = str(Path(holder).parent)
    given = os.environ.get(prefix, "").replace("${ORIGIN}", beside)
    candidates = [str(Path(folder, name)) for folder in ([given] if given else []) + [beside, ""]]
    return next((each for each in candidates if Path(each).is_file()), None)
