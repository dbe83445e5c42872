"""A state as bytes, and back if they are the bytes of that state. No pickle, and nothing is believed. Pure.

=======  ======================================================================================================
bytes    content
=======  ======================================================================================================
16       ``spae state v1`` and padding
8        length of the header, little-endian
(that)   header, JSON: ``key`` and ``node`` say which state this is, ``seconds`` where its time went, and ``arrays``
         the name, type, shape and order in memory of each array
(sums)   the arrays, one after the other, as they are in memory
32       SHA-256 of all before
=======  ======================================================================================================

A file that is cut off, garbled, of another state, or larger than the recipe allows is refused before memory is taken.
"""

import hashlib
import json
import math
from collections.abc import Iterator
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from spae_dask.passes.accumulators.base import Accumulator, State
from spae_dask.passes.accumulators.by_columns import ByColumns
from spae_dask.passes.merge_tree import Node
from spae_dask.passes.sweep import Swept

MAGIC = b"spae state v1".ljust(16, b"\0")

LARGEST_HEADER = 1 << 23
"""Bytes; a thousand groups of columns have some ten thousand arrays."""


class UnusableState(Exception):
    """The bytes are not those of the state that was asked for; the message says why."""


def state_bytes(swept: Swept, key: str, node: Node) -> Iterator[bytes | memoryview]:
    """The pieces of a file; arrays are not copied.

    Parameters
    ----------
    swept : Swept
        The state.
    key, node : str, tuple of int
        Of the pass, and of the state in it.
    """
    laid_out = {name: _in_some_order(array) for name, array in swept.state.items()}
    arrays = [
        {"name": name, "type": array.dtype.str, "shape": list(array.shape), "order": order}
        for name, (array, order) in laid_out.items()
    ]
    seconds = [swept.read_seconds, swept.compute_seconds]
    header = json.dumps({"key": key, "node": list(node), "seconds": seconds, "arrays": arrays}).encode()
    digest = hashlib.sha256()
    pieces: list[bytes | memoryview] = [MAGIC, len(header).to_bytes(8, "little"), header]
    pieces += [_raw(array) for array, _ in laid_out.values()]
    for piece in pieces:
        digest.update(piece)
        yield piece
    yield digest.digest()


def read_state(file: BinaryIO, key: str, node: Node, recipe: Accumulator[Any]) -> Swept:
    """The state in a file.

    Parameters
    ----------
    file : binary file
        Open at its start.
    key, node : str, tuple of int
        Key of the pass and node of the state that the file must hold.
    recipe : Accumulator
        Of which; it says what arrays there must be, and how large they may be.

    Raises
    ------
    UnusableState
        If it is anything else.
    """
    reader = _Reader(file)
    if reader.take(len(MAGIC)) != MAGIC:
        raise UnusableState("it does not start as a state file does")
    length = int.from_bytes(reader.take(8), "little")
    if length > LARGEST_HEADER:
        raise UnusableState("its header is too long")
    try:
        header = json.loads(reader.take(length))
        found, seconds = (header["key"], tuple(header["node"])), tuple(map(float, header["seconds"]))
        arrays = _promised(header["arrays"], recipe)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise UnusableState("its header cannot be understood") from error
    if found != (key, node):
        raise UnusableState("it is a state of other rows or of another pass")
    if len(seconds) != 2 or not all(math.isfinite(each) for each in seconds):
        raise UnusableState("its header cannot be understood")
    state = {name: reader.fill(np.empty(shape, dtype, order)) for name, (shape, dtype, order) in arrays.items()}
    wanted = reader.digest.digest()
    if reader.take(len(wanted)) != wanted:
        raise UnusableState("its checksum is wrong")
    if file.read(1):
        raise UnusableState("it has data after its end")
    return Swept(state, *seconds)


def _promised(listed: list[dict[str, Any]], recipe: Accumulator[Any]) -> dict[str, tuple[Any, Any, Any]]:
    """Shape, type and order of each array, if the recipe makes such arrays."""
    arrays = {each["name"]: (tuple(each["shape"]), each["type"], each["order"]) for each in listed}
    empty: State = recipe.zero_of(arrays) if isinstance(recipe, ByColumns) else recipe.zero()
    if arrays.keys() != empty.keys() or len(arrays) != len(listed):
        raise UnusableState("it contains other arrays than expected")
    nbytes = 0
    for name, (shape, kind, order) in arrays.items():
        like = empty[name]
        if kind != like.dtype.str or len(shape) != like.ndim or order not in ("C", "F"):
            raise UnusableState(f"its array {name!r} is not of the expected type")
        if not all(type(length) is int and length >= 0 for length in shape):
            raise UnusableState(f"its array {name!r} has an impossible shape")
        nbytes += math.prod(shape) * like.dtype.itemsize
    if nbytes > recipe.state_nbytes:
        raise UnusableState(f"it declares {nbytes} bytes, but {recipe.state_nbytes} is the largest possible size")
    return {name: (shape, empty[name].dtype, order) for name, (shape, _, order) in arrays.items()}


def _in_some_order(given: npt.ArrayLike) -> tuple[npt.NDArray[Any], str]:
    """The array, contiguous by rows or by columns, and which: products may round differently by it."""
    array = np.asarray(given)
    if array.flags.c_contiguous:
        return array, "C"
    return (array, "F") if array.flags.f_contiguous else (np.ascontiguousarray(array), "C")


def _raw(array: npt.NDArray[Any]) -> memoryview:
    return memoryview(array.ravel(order="K").view(np.uint8).data)


class _Reader:
    """Reads a file and keeps the digest of what was read."""

    def __init__(self, file: BinaryIO) -> None:
        self.file = file
        self.digest = hashlib.sha256()

    def take(self, length: int) -> bytes:
        data = self.file.read(length)
        if len(data) < length:
            raise UnusableState("it is truncated")
        self.digest.update(data)
        return data

    def fill(self, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        left = _raw(array)
        while len(left):
            n_read = self.file.readinto(left)  # type: ignore[attr-defined]  # all binary files have it
            if not n_read:
                raise UnusableState("it is truncated")
            self.digest.update(left[:n_read])
            left = left[n_read:]
        return array
