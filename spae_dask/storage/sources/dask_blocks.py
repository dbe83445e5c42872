"""Row blocks of a dask array, dense or of CSR blocks."""

import os
import sys
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import dask
import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
import zarr
from dask.delayed import delayed
from dask.highlevelgraph import HighLevelGraph, MaterializedLayer

from spae_dask.blocks import Block, StoredEntries, as_csr, asked_of, check_unmasked, largest_block_nbytes, remember
from spae_dask.errors import InvalidInput
from spae_dask.recipes import Recipe
from spae_dask.storage.sources.checked_store import ArrayChange

if TYPE_CHECKING:
    import dask.array as da  # half a second, of which data on disk have no need

INNER = ("array", "_array")
"""Attributes in which xarray's lazy arrays keep the array they wrap."""


def change_in_graph(array: "da.Array", change: ArrayChange) -> "da.Array":
    """The dask array with the Zarr arrays that its graph holds changed; their keys, and so its name, stay.

    ``dask.array.from_zarr``, ``from_array`` and xarray put each in a node of its own. If they are asked to inline it
    into their tasks, it is left as it is.
    """
    graph, layers = array.dask, {}
    if not isinstance(graph, HighLevelGraph):
        return array
    for name, layer in graph.layers.items():
        if isinstance(layer, MaterializedLayer):
            changed = {key: change_within(node, change) for key, node in layer.mapping.items()}
            if any(node is not layer.mapping[key] for key, node in changed.items()):
                layers[name] = MaterializedLayer(changed, annotations=layer.annotations)
    if not layers:
        return array
    same = HighLevelGraph({**graph.layers, **layers}, graph.dependencies)
    return type(array)(same, array.name, array.chunks, meta=array._meta)


def file_beneath(lazy: Any) -> str | None:
    """The file on a disk that a lazy array of xarray, h5py or numpy is read from; None for anything else."""
    if isinstance(lazy, np.memmap):
        return None if lazy.filename is None else str(lazy.filename)
    if type(lazy).__module__.partition(".")[0] == "h5py":
        return str(lazy.file.filename) if lazy and os.path.isfile(lazy.file.filename) else None
    while type(lazy).__module__.partition(".")[0] == "xarray":
        manager = getattr(getattr(lazy, "datastore", None), "_manager", None)
        if manager is not None:
            path = next(iter(getattr(manager, "_args", ())), None)
            return str(path) if isinstance(path, str | os.PathLike) and os.path.isfile(path) else None
        lazy = next((inner for name in INNER if (inner := getattr(lazy, name, None)) is not None), None)
    return None


def change_within(lazy: Any, change: ArrayChange) -> Any:
    """A Zarr array changed; one that xarray has wrapped, wrapped again in the same way; else the object itself."""
    if isinstance(lazy, zarr.Array):
        return change(lazy)
    if type(lazy).__module__.partition(".")[0] != "xarray":
        return lazy
    for name in INNER:
        inner = getattr(lazy, name, None)
        if inner is None:
            continue
        changed = change_within(inner, change)
        if changed is inner:
            return lazy
        same = copy(lazy)
        setattr(same, name, changed)
        return same
    return lazy


ASSUMED_DENSITY = 0.25
"""Share of entries taken to be stored in sparse blocks: more than in any matrix that gains by being sparse."""


@dataclass(frozen=True, eq=False)
class DaskBlocks:
    """A dask array read in row blocks: its own row chunks, full width.

    Parameters
    ----------
    array : dask.array.Array
        Two-dimensional, of known chunks. Chunks that cut the columns are put together row chunk by row chunk, within
        the task graph. If the array's meta is sparse, plans assume `ASSUMED_DENSITY`, since the size of CSR blocks is
        unknown before they are computed.
    n_counts : int
        Passes that were made to count its rows.
    feature_names : tuple of str, optional
        Names of the columns.
    beside_nbytes : int
        Bytes that its graph is known to hold while it makes one block, beside the block.
    cut_from : (DaskBlocks, ndarray of int), optional
        The source with all columns, and the columns of it that the array has, if they were chosen of more.
    recipe : Recipe, optional
        Recipe that its graph follows.
    raw : DaskBlocks, optional
        Rows of all columns that the recipe is followed with.
    """

    array: "da.Array"
    feature_names: tuple[str, ...] | None = None
    beside_nbytes: int = 0
    in_process: bool = False
    n_counts: int = 0
    cut_from: "tuple[DaskBlocks, npt.NDArray[np.intp]] | None" = None
    recipe: Recipe | None = None
    raw: "DaskBlocks | None" = None

    @property
    def read_nbytes(self) -> int:
        """Bytes held beside finished blocks while one is made: its source, and its pieces if columns are cut."""
        block = largest_block_nbytes(self)
        return self.beside_nbytes + (block if self.array.numblocks[1] == 1 else 2 * block)

    @property
    def shape(self) -> tuple[int, int]:
        """``(n, d)``."""
        n, d = self.array.shape
        return int(n), int(d)

    @property
    def dtype(self) -> np.dtype[np.generic]:
        """Type of the entries."""
        dtype: np.dtype[np.generic] = np.dtype(self.array.dtype)
        return dtype

    @property
    def n_chunk_columns(self) -> int:
        """Chunks across the columns."""
        return int(self.array.numblocks[1])

    @cached_property
    def bounds(self) -> tuple[int, ...]:
        """Row bounds of the blocks; empty chunks are left out."""
        ends = np.cumsum([rows for rows in self.array.chunks[0] if rows > 0])
        return (0, *(int(end) for end in ends))

    @cached_property
    def stored(self) -> StoredEntries | None:
        """Assumed sizes of sparse blocks, with column numbers of 32 bits; None if the meta is dense."""
        if not sp.issparse(self.array._meta):
            return None
        row_nbytes = int(ASSUMED_DENSITY * self.shape[1] * (self.dtype.itemsize + 4)) + 4
        return StoredEntries(tuple(row_nbytes * bound for bound in self.bounds), ASSUMED_DENSITY)

    def lazy_blocks(self) -> list[Any]:
        """One delayed block each; work that blocks share stays shared."""
        width = self.array.rechunk({1: -1}) if self.array.numblocks[1] > 1 else self.array
        blocks = width.to_delayed(optimize_graph=True).reshape(-1)
        kept = [block for block, rows in zip(blocks, self.array.chunks[0], strict=True) if rows > 0]
        return [delayed(as_rows, pure=False)(block) for block in kept]

    def is_gap(self, fill_value: Any) -> bool:
        """Return True if a chunk that is not stored reads as NaN: it may be a tile of land."""
        return bool(fill_value != fill_value)

    @cached_property
    def files(self) -> tuple[str, ...]:
        """Files on a disk that arrays in nodes of the graph are read from."""
        graph = self.array.dask
        layers = graph.layers.values() if isinstance(graph, HighLevelGraph) else ()
        nodes = (node for each in layers if isinstance(each, MaterializedLayer) for node in each.mapping.values())
        return tuple(dict.fromkeys(file for node in nodes if (file := file_beneath(node)) is not None))

    def with_arrays(self, change: ArrayChange) -> "DaskBlocks":
        """The same with other arrays of Zarr in the graph."""
        same = replace(self, array=change_in_graph(self.array, change))
        remember(same, **asked_of(self))
        return same

    def read(self, i: int) -> Block:
        """Compute block ``i`` where dask computes by default; what it shares with others is computed anew."""
        (block,) = dask.compute(self._lazy[i])
        return block

    @cached_property
    def _lazy(self) -> list[Any]:
        return self.lazy_blocks()

    def describe(self) -> str:
        """Its repr, which says shape and chunks."""
        return f"dask array {self.array.shape} of chunks {self.array.chunksize}"


def as_rows(block: Any) -> Block:
    """A computed chunk as dense rows or CSR rows."""
    if sp.issparse(block):
        return as_csr(block)
    check_unmasked(block)
    return np.asarray(block)


def has_unknown_rows(array: "da.Array") -> bool:
    """Return True if there are row chunks of unknown length, as boolean masks and dataframes leave them."""
    return bool(np.isnan(array.chunks[0]).any())


def refuse_unknown_chunks(array: "da.Array") -> None:
    """Refuse chunks of unknown size, in any dimension."""
    if any(np.isnan(size) for sizes in array.chunks for size in sizes):
        raise InvalidInput(
            "the dask array has chunks of unknown length, as boolean masks leave them. Call "
            "x.compute_chunk_sizes() first, which reads the data once."
        )


def refuse_asynchronous() -> None:
    """Refuse to compute where the active client is asynchronous, and would answer with coroutines.

    Raises
    ------
    InvalidInput
        If there is such a client, and this is the thread of its event loop.
    """
    distributed = sys.modules.get("distributed")
    if distributed is None:
        return
    try:
        client = distributed.Client.current()
    except ValueError:
        return
    if client.asynchronous:
        raise InvalidInput(
            "the active dask client is asynchronous, but this function waits for its results, which would "
            "block the event loop. Call it in a thread, `await asyncio.to_thread(encoder.fit, X)`, or make "
            "the client with asynchronous=False."
        )


def counted_rows(array: "da.Array") -> "da.Array":
    """The array with the length of every row chunk known: counted, in one pass, if it is not.

    Raises
    ------
    InvalidInput
        If the number of columns is not known.
    """
    if np.isnan(array.chunks[1]).any():
        raise InvalidInput(
            "the dask array has an unknown number of columns. Call x.compute_chunk_sizes() first, which "
            "reads the data once."
        )
    if not has_unknown_rows(array):
        return array
    # one column of chunks gives the lengths; each block is dropped after it is counted
    blocks = array.blocks[:, 0].to_delayed().reshape(-1)
    lengths = dask.compute(*(delayed(len_of, pure=False)(block) for block in blocks))
    return type(array)(array.dask, array.name, (lengths, array.chunks[1]), meta=array._meta)


def len_of(block: Any) -> int:
    """Rows of a computed chunk."""
    return int(block.shape[0])
