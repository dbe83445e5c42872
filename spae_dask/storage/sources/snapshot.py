"""The stored objects of a source at one moment, each with a mark of its size and time, by which a change is noticed.

A run reads its data for hours, some of them twice, and goes on from a checkpoint days later. If somebody writes to them
meanwhile, the result would mix two states of the data. So the objects are listed when the run begins and after each
pass. If the list has changed, the run ends with an error that names the object.

Of a chunk a listing tells size and time, the ETag of an object store, or the snapshot of Icechunk. A store that tells
none of them, such as a web server or a dictionary, is known by the names alone; passes over the same rows are compared
besides
(:mod:`spae_dask.passes.sweep`).
"""

import hashlib
import os
from array import array as numbers_of_type
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from zipfile import BadZipFile

import numpy as np
import numpy.typing as npt
from zarr.core.sync import sync
from zarr.storage import LocalStore

from spae_dask.storage.remote.object_requests import StoredFile
from spae_dask.storage.remote.remote_store import RemoteStore
from spae_dask.storage.sources.checked_store import (
    METADATA_KEYS,
    ZarrArray,
    base_of,
    coordinates_of,
    grid_of,
    key_of,
    place_of,
    prefix_of,
)
from spae_dask.storage.sources.listings import listed_below, stored_file


@dataclass(frozen=True, eq=False)
class StoredObjects:
    """Objects that are stored of one array, or plain files.

    Attributes
    ----------
    where : str
        The array or the files, for messages.
    numbers : ndarray of int64
        Numbers of the stored objects, ascending: places in the array's grid in row-major order, or in the list of
        files.
    marks : ndarray of uint64
        A mark of size and time for each of them.
    name : callable
        Name of the object of a number.
    """

    where: str
    numbers: npt.NDArray[np.int64]
    marks: npt.NDArray[np.uint64]
    name: Callable[[int], str]

    def changed(self, before: "StoredObjects") -> npt.NDArray[np.int64]:
        """Numbers of the objects that are stored now or before alone, or are not the same; ascending."""
        return np.union1d(self._not_in(before), before._not_in(self))

    def _not_in(self, other: "StoredObjects") -> npt.NDArray[np.int64]:
        """Numbers of the objects that the other lacks, or has with another mark."""
        if not other.numbers.size:
            return self.numbers
        at = np.searchsorted(other.numbers, self.numbers)
        np.minimum(at, other.numbers.size - 1, out=at)
        same = other.numbers[at] == self.numbers
        same &= other.marks[at] == self.marks
        lone: npt.NDArray[np.int64] = self.numbers[~same]
        return lone


@dataclass(frozen=True, eq=False)
class Snapshot:
    """All objects behind a source."""

    parts: tuple[StoredObjects, ...] = ()

    @property
    def digest(self) -> str:
        """SHA-256 of all numbers and marks; of a source without stored objects that of nothing."""
        digest = hashlib.sha256()
        for part in self.parts:
            for each in (np.array([part.numbers.size]), part.numbers, part.marks):
                digest.update(each.data)
        return digest.hexdigest()

    def difference(self, before: "Snapshot") -> str | None:
        """Describe the first object that differs from before; None if all are the same."""
        if self.digest == before.digest:
            return None
        if len(self.parts) != len(before.parts):
            return "the store no longer exists, or no longer reports its objects"
        for now, then in zip(self.parts, before.parts, strict=True):
            changed = now.changed(then)
            if changed.size:
                number = int(changed[0])
                there = [number in part.numbers for part in (then, now)]
                happened = "was written again" if all(there) else "appeared" if there[1] else "was removed"
                n_others = changed.size - 1
                others = f", and {n_others:,} more changed" if n_others else ""
                return f"{now.name(number)} of {now.where} {happened}{others}"
        return None

    def to_bytes(self) -> bytes:
        """Numbers and marks, as they are kept in a file."""
        file = BytesIO()
        np.savez(file, *(each for part in self.parts for each in (part.numbers, part.marks)))
        return file.getvalue()

    def difference_from(self, kept: bytes) -> str | None:
        """The same as ``difference`` from what ``to_bytes`` gave; None if that is damaged."""
        try:
            with np.load(BytesIO(kept), allow_pickle=False) as file:
                arrays = [file[name] for name in file.files]
            before = [StoredObjects("", *pair, str) for pair in zip(arrays[::2], arrays[1::2], strict=True)]
            return self.difference(Snapshot(tuple(before)))
        except (OSError, ValueError, TypeError, LookupError, BadZipFile):
            return None


def stored_objects(array: ZarrArray) -> StoredObjects | None:
    """List the stored objects (chunks, or shards) of an array once; None if its store cannot be listed."""
    store, prefix = base_of(array), prefix_of(array.path)
    if not store.supports_listing:
        return None
    if isinstance(store, LocalStore):
        listing = Listing(array)
        for each in _files_below(str(store.root / array.path)):
            listing.add(each)
    elif isinstance(store, RemoteStore) and store.lists_times:
        listing = sync(store.collected_below(prefix, lambda: Listing(array, prefix), Listing.add))
    else:
        try:
            listing = sync(_listing(array, listed_below(store, prefix), prefix))
        except NotImplementedError:  # some stores claim that they can be listed
            return None
    return listing.objects()


async def _listing(array: ZarrArray, files: AsyncIterator[StoredFile], prefix: str) -> "Listing":
    listing = Listing(array, prefix)
    async for each in files:
        listing.add(each)
    return listing


@dataclass(eq=False)
class Listing:
    """Stored objects of an array as they are listed, 16 bytes for each.

    Parameters
    ----------
    array : zarr.Array
        The array.
    prefix : str
        Prefix of the listed keys.
    """

    array: ZarrArray
    prefix: str = ""
    _numbers: "numbers_of_type[int]" = field(default_factory=lambda: numbers_of_type("q"))
    _marks: "numbers_of_type[int]" = field(default_factory=lambda: numbers_of_type("Q"))
    _has_metadata: bool = False

    def __post_init__(self) -> None:
        self._grid = grid_of(self.array)
        # a shard of which a full disk left an empty file is, to Zarr, one that is not stored
        self._least = int(self.array.shards is not None)

    def add(self, each: StoredFile) -> None:
        """Take note of an object; what is no chunk of the array is left out."""
        key = each.path.removeprefix(self.prefix)
        if key in METADATA_KEYS:
            self._has_metadata = True
            return
        coordinates = coordinates_of(key, len(self._grid))
        inside = [place < size for place, size in zip(coordinates, self._grid, strict=False)]
        if len(inside) < len(self._grid) or not all(inside):
            return
        if self.array.metadata.encode_chunk_key(coordinates) != key or each.nbytes < self._least:
            return
        number = 0
        for place, size in zip(coordinates, self._grid, strict=True):
            number = number * size + place
        self._numbers.append(number)
        self._marks.append(_mark(each))

    def objects(self) -> StoredObjects | None:
        """All of them; None if the listing lacks even the metadata, as that of a plain web server does."""
        if not self._has_metadata:
            return None
        numbers, marks = np.asarray(self._numbers, dtype=np.int64), np.asarray(self._marks, dtype=np.uint64)
        order = np.argsort(numbers, kind="stable")
        return StoredObjects(place_of(self.array), numbers[order], marks[order], self._name)

    def _name(self, number: int) -> str:
        return f"chunk {key_of(self.array, number)!r}"


def _mark(file: StoredFile) -> int:
    text = file.tag or repr((file.nbytes, file.time))
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest())


def _files_below(folder: str, prefix: str = "") -> Iterator[StoredFile]:
    """All files below a folder, by their paths there; what goes while it is listed is left out."""
    with suppress(FileNotFoundError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir():
                yield from _files_below(entry.path, f"{prefix}{entry.name}/")
            elif (file := stored_file(entry.path, f"{prefix}{entry.name}")) is not None:
                yield file


def stored_files(paths: Sequence[str]) -> StoredObjects:
    """Plain files, those that are there."""
    found = [(number, stored_file(path, path)) for number, path in enumerate(paths)]
    there = [(number, _mark(file)) for number, file in found if file is not None]
    return StoredObjects(
        str(Path(paths[0]).parent),
        np.array([number for number, _ in there], dtype=np.int64),
        np.array([mark for _, mark in there], dtype=np.uint64),
        lambda number: Path(paths[number]).name,
    )
