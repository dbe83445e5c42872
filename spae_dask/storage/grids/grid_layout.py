"""Layout of an array with named dimensions as a matrix: rows are samples, columns the cells of its grid."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from spae_dask.errors import InvalidInput, NotFound

Ints = npt.NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class GridLayout:
    """Split of dimensions into those that make rows and those that make columns, with all that is known of the columns.

    Attributes
    ----------
    name : str or None
        Name of the array.
    dims : tuple of str
        Dimensions in the array's own order.
    sample_dims, feature_dims : tuple of str
        Those whose combinations are rows, as given, and those whose combinations are columns (the cells), last one
        fastest. The latter are in alphabetical order, so that a transposed array makes the same columns.
    shape : tuple of int
        Sizes of the feature dimensions.
    coords : xarray.Dataset
        Coordinates that depend on feature dimensions alone, with their indexes; scalar ones among them.
    attrs : dict
        Attributes of the array.
    """

    name: str | None
    dims: tuple[str, ...]
    sample_dims: tuple[str, ...]
    feature_dims: tuple[str, ...]
    shape: tuple[int, ...]
    coords: xr.Dataset
    attrs: dict[str, Any]

    @property
    def n_cells(self) -> int:
        """Columns before any is left out."""
        return int(np.prod(self.shape))

    @property
    def component_dim(self) -> str:
        """``component``, or the next free name if the array uses it."""
        taken = {*self.dims, *(str(name) for name in self.coords.variables)}
        name = "component"
        while name in taken:
            name = f"sparse_{name}"
        return name

    def cell_names(self, cells: Ints) -> tuple[str, ...]:
        """Names like ``lat=52.5, lon=13.4`` of some cells, given by their numbers in the flat grid.

        A dimension without a coordinate counts from 0. Texts on an only dimension are the names themselves.
        """
        labels = [dim_labels(self.coords, dim, size) for dim, size in zip(self.feature_dims, self.shape, strict=True)]
        if len(labels) == 1 and _is_text(self.coords, self.feature_dims[0]):
            return tuple(labels[0][cell] for cell in cells)
        told = [[f"{dim}={label}" for label in each] for dim, each in zip(self.feature_dims, labels, strict=True)]
        places = zip(*np.unravel_index(cells, self.shape), strict=True)
        return tuple(", ".join(each[i] for each, i in zip(told, place, strict=True)) for place in places)

    def places(self, cells: Ints, along: str) -> dict[str, xr.DataArray]:
        """Coordinates of some cells along a dimension; the number of the place where a dimension has none."""
        where = dict(zip(self.feature_dims, np.unravel_index(cells, self.shape), strict=True))
        at = {dim: xr.DataArray(np.asarray(place, dtype=np.int64), dims=along) for dim, place in where.items()}
        picked = self.coords.isel({dim: place for dim, place in at.items() if dim in self.coords.dims})
        found = {str(name): coord.variable for name, coord in picked.coords.items() if coord.ndim}
        return {name: xr.DataArray(values) for name, values in (at | found).items()}

    def on_grid(self, values: npt.NDArray[Any], cells: Ints, fill: Any) -> npt.NDArray[Any]:
        """Values (..., d) of some cells on the whole grid (..., *shape), with ``fill`` in all other cells."""
        grid = np.full((*values.shape[:-1], self.n_cells), fill, dtype=values.dtype)
        grid[..., cells] = values
        return grid.reshape(*values.shape[:-1], *self.shape)

    def labelled(self, grid: Any, leading: Sequence[str], name: str | None, attrs: dict[str, Any]) -> xr.DataArray:
        """An array of a grid (leading..., *shape), with its coordinates, in the order of the data's own dimensions."""
        made = xr.DataArray(
            grid, dims=(*leading, *self.feature_dims), coords=self.coords.coords, name=name, attrs=attrs
        )
        return made.transpose(*leading, *(dim for dim in self.dims if dim in self.feature_dims))

    def checked(self, array: xr.DataArray, other: str = "the encoder") -> tuple[xr.DataArray, tuple[str, ...]]:
        """The array, and those of its dimensions that are not the grid's: its samples.

        ``other`` names what has this layout in messages.

        Raises
        ------
        InvalidInput
            If it has not the same cells, by any coordinate that both have.
        """
        array = checked_array(array)
        for dim, size in zip(self.feature_dims, self.shape, strict=True):
            if dim not in array.dims:
                raise InvalidInput(
                    f"{name_of(array)} lacks the dimension {dim!r}, but {other} has cells of "
                    f"{', '.join(self.feature_dims)}. Rename its dimensions, or give data of the same kind."
                )
            if array.sizes[dim] != size:
                raise InvalidInput(
                    f"{name_of(array)} has {array.sizes[dim]} values of {dim}, but {other} has {size}. Give data on "
                    "the same grid."
                )
        for name, coord in self.coords.coords.items():
            if name not in array.coords:
                continue
            given = array.coords[name]
            # a coordinate that dask would have to compute is not: what is applied lazily stays lazy
            if coord.ndim and set(given.dims) == set(coord.dims) and given.chunks is None:
                _refuse_other_places(array, coord, other)
        return array, tuple(str(dim) for dim in array.dims if dim not in self.feature_dims)


def layout_of(array: xr.DataArray, sample_dim: str | Sequence[str] | None) -> GridLayout:
    """The layout of an array, given which of its dimensions make the samples; None takes the one of time.

    Raises
    ------
    InvalidInput
        If it is no DataArray, there is no such dimension, or none is left for the cells.
    """
    array = checked_array(array)
    dims = tuple(str(dim) for dim in array.dims)
    wanted = (time_dim(array),) if sample_dim is None else _as_tuple(sample_dim)
    for dim in wanted:
        if dim not in dims:
            raise InvalidInput(
                f"sample_dim={dim!r} is not a dimension of {name_of(array)}, which has {', '.join(dims)}."
            )
    if not wanted or len(set(wanted)) != len(wanted):
        raise InvalidInput(f"sample_dim={sample_dim!r} must name one dimension, or several different ones.")
    features = tuple(sorted(dim for dim in dims if dim not in wanted))
    if not features:
        raise InvalidInput(
            f"all dimensions of {name_of(array)} are sample dimensions, so there are no cells to select. "
            "Leave at least one dimension for them."
        )
    if 0 in array.shape:
        raise InvalidInput(f"{name_of(array)} is empty: its sizes are {dict(array.sizes)}. Give data with entries.")
    return GridLayout(
        name=None if array.name is None else str(array.name),
        dims=dims,
        sample_dims=wanted,
        feature_dims=features,
        shape=tuple(int(array.sizes[dim]) for dim in features),
        coords=coords_along(array, features).load(),
        attrs=dict(array.attrs),
    )


def coords_along(array: xr.DataArray, dims: Sequence[str]) -> xr.Dataset:
    """Coordinates that depend on none but some of its dimensions, with their indexes."""
    others = [dim for dim in array.dims if dim not in dims]
    foreign = [name for name, coord in array.coords.items() if not set(coord.dims) <= set(dims) and coord.ndim]
    mixed = [name for name in foreign if set(array.coords[name].dims) & set(dims)]
    return array.drop_vars(mixed).isel(dict.fromkeys(others, 0), drop=True).coords.to_dataset()


def checked_array(array: object) -> xr.DataArray:
    """Refuse anything but a DataArray with dimensions of different names."""
    if isinstance(array, xr.Dataset):
        names = ", ".join(str(name) for name in array.data_vars) or "none"
        raise InvalidInput(f"a Dataset holds several variables ({names}). Give one of them: ds['NAME'].")
    if not isinstance(array, xr.DataArray):
        raise InvalidInput(
            f"a {type(array).__name__} has no named dimensions. Give an xarray.DataArray, or fit a matrix of "
            "rows and columns with SparseEncoder."
        )
    if not all(isinstance(dim, str) for dim in array.dims) or len(set(array.dims)) != array.ndim:
        raise InvalidInput(f"{name_of(array)} has dimensions {array.dims}. They must be strings, all different.")
    return array


def time_dim(array: xr.DataArray) -> str:
    """The dimension of time, by its coordinate's type or CF attributes, or by its name.

    Raises
    ------
    InvalidInput
        If there is none, or more than one.
    """
    found = [str(dim) for dim in array.dims if _is_time(array, str(dim))]
    found = found or [str(dim) for dim in array.dims if str(dim).lower() in ("time", "t")]
    if len(found) == 1:
        return found[0]
    how = "none of its dimensions is known to be time" if not found else f"{' and '.join(found)} may both be time"
    raise InvalidInput(
        f"{name_of(array)} has dimensions {', '.join(map(str, array.dims))}, and {how}. Give the "
        "dimension of the samples: sample_dim=NAME (--sample-dim NAME)."
    )


def _is_time(array: xr.DataArray, dim: str) -> bool:
    return dim in array.coords and is_time(array.coords[dim])


def is_time(coord: xr.DataArray) -> bool:
    """Return True for a coordinate of time, by its type or its CF attributes."""
    attrs = coord.attrs
    if coord.dtype.kind == "M" or attrs.get("standard_name") == "time" or attrs.get("axis") == "T":
        return True
    return " since " in str(attrs.get("units", "")) or "calendar" in attrs


def dim_labels(coords: Any, dim: str, size: int) -> list[str]:
    """A text for each place along a dimension: its coordinate, or numbers from 0."""
    if dim not in coords.coords:
        return [str(i) for i in range(size)]
    values = coords.coords[dim].values
    return _rounded(values) if values.dtype.kind == "f" else [_label(value) for value in values]


def _rounded(values: npt.NDArray[np.floating[Any]]) -> list[str]:
    """Coordinates with as many decimals as tell the places of the grid apart: float32 leaves noise below them."""
    spacing = nearest(values.astype(np.float64))
    if spacing is None:
        return [_label(value) for value in values]
    decimals = 2 - math.floor(math.log10(spacing))  # rounds by less than a hundredth of the spacing
    # a negative zero would have a sign
    return [repr(round(float(value), decimals) + 0.0) for value in values]


def nearest(values: npt.NDArray[np.float64]) -> float | None:
    """Distance of the nearest two places of an index; None if there are no two."""
    steps = np.diff(np.unique(values[np.isfinite(values)]))
    return float(steps.min()) if steps.size else None


def _label(value: Any) -> str:
    if isinstance(value, np.datetime64):
        text = str(value).partition(".")[0]
        return text.removesuffix("T00:00:00")
    return str(value)


def _is_text(coords: xr.Dataset, dim: str) -> bool:
    return dim in coords.coords and all(isinstance(value, str) for value in coords[dim].values)


def name_of(array: xr.DataArray) -> str:
    """Return the name of an array in messages."""
    return "the DataArray" if array.name is None else f"the DataArray {str(array.name)!r}"


def _as_tuple(names: str | Sequence[str]) -> tuple[str, ...]:
    wanted = (names,) if isinstance(names, str) or not isinstance(names, Iterable) else tuple(names)
    if not all(isinstance(each, str) for each in wanted):
        raise InvalidInput(f"sample_dim={names!r} is not allowed: give the name of a dimension, or several names.")
    return wanted


def _refuse_other_places(array: xr.DataArray, coord: xr.DataArray, other: str) -> None:
    """Refuse an array one of whose coordinates has other values than those of the layout."""
    expected, given = coord.values, array.coords[coord.name].transpose(*coord.dims).values
    if "f" in (given.dtype.kind, expected.dtype.kind) and {given.dtype.kind, expected.dtype.kind} <= set("fiu"):
        same = np.isclose(given, expected, rtol=0, atol=_same_place(coord), equal_nan=True)
    else:
        same = np.asarray((given == expected) | ((given != given) & (expected != expected)))
    if not np.all(same):
        at = tuple(int(place) for place in np.argwhere(~same)[0])
        hint = " It is the same backwards." if np.array_equal(np.flip(given), expected) else ""
        raise InvalidInput(
            f"{name_of(array)} is on another grid than {other}: value {', '.join(map(str, at))} of "
            f"{coord.name} is {_label(given[at])}, not {_label(expected[at])}.{hint} Select, sort or "
            f"interpolate to the same places: da.sel({coord.dims[0]}=...)."
        )


def _same_place(coord: xr.DataArray) -> float:
    """Distance up to which two values of a coordinate are the same place: far below the spacing of the grid.

    Coordinates may have been float32 once, so where the spacing allows it their rounding is no difference.
    """
    values = coord.values.astype(np.float64)
    if coord.dims == (coord.name,):  # the nearest places of an index
        step = nearest(values)
        spacings = [] if step is None else [step]
    else:
        by_axis = [np.abs(np.diff(values, axis=axis)) for axis in range(coord.ndim)]
        spacings = [float(np.median(each[each > 0])) for each in by_axis if np.any(each > 0)]
    float32 = 2.0 * float(np.finfo(np.float32).eps) * float(np.nanmax(np.abs(values), initial=0.0))
    if not spacings:
        return float32
    spacing = max(spacings)
    return min(spacing / 4, max(1e-3 * spacing, float32))


def coordinate_of(array: Any, name: str, called: str) -> Any:
    """A coordinate of a DataArray or a Dataset, or a part of a date such as ``time.month``.

    Raises
    ------
    NotFound
        If there is none. The message lists those that there are.
    """
    try:
        return array[name]
    except (KeyError, AttributeError) as error:
        raise NotFound(
            f"{called} has no coordinate {name!r}. It has {', '.join(map(str, array.coords)) or 'none'}; a part "
            "of a date is named as in 'time.month'."
        ) from error
