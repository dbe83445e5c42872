"""Zarr arrays beneath objects of other libraries: dask graphs, and lazily indexed variables of xarray."""

from copy import copy
from typing import Any

import dask.array as da
import zarr
from dask.highlevelgraph import HighLevelGraph, MaterializedLayer

from spae_dask.storage.sources.counted import ArrayChange

INNER = ("array", "_array")
"""Attributes in which xarray's lazy arrays keep the array they wrap."""


def change_in_graph(array: da.Array, change: ArrayChange) -> da.Array:
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
    return da.Array(same, array.name, array.chunks, meta=array._meta)


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
