"""Attributes of a Zarr array that declare how its numbers are coded, understood as xarray understands them.

The rules are those of ``xarray.open_zarr`` with its default settings (CF conventions, sections 2.5.1 and 8.1), save for
these: times stay numbers; a whole number as scale or offset counts as a float; integers beyond 2**53 are compared
exactly; beside ``_Unsigned`` a fill value of either type, and of either byte order, is found.
"""

import base64
import binascii
import math
import struct
from typing import Any

import numpy as np

from spae_dask.errors import InvalidInput
from spae_dask.storage.sources.checked_store import ZarrArray
from spae_dask.storage.sources.conversion import MISSING, Conversion
from spae_dask.storage.writing.json_and_csv import to_json

CODING = (*MISSING, "_Unsigned", "scale_factor", "add_offset")
"""Attributes that say how numbers are coded."""

RANGE = ("valid_range", "valid_min", "valid_max")
"""Attributes that say which stored numbers make sense. As in xarray, nothing is masked by them."""

ENCODING = "encoding-type"
"""Attribute of arrays that AnnData wrote, and takes as they are."""

DIMENSIONS = "_ARRAY_DIMENSIONS"
"""Attribute of arrays in Zarr format 2 that xarray, or a library that keeps to its convention, wrote."""


def declared_conversion(array: ZarrArray, name: str) -> Conversion | None:
    """The conversion that the attributes of an array declare; None if there is none, or it would change no number.

    Parameters
    ----------
    array : zarr.Array
        Array of numbers. Any other declares nothing.
    name : str
        Name of the array in messages.

    Raises
    ------
    InvalidInput
        If an attribute makes no sense.
    """
    dtype = np.dtype(array.dtype)
    if dtype.kind not in "fiub" or ENCODING in array.attrs:
        return None
    attributes = _attributes(array, name)
    found = {key: _numbers(attributes[key], key, name) for key in MISSING if attributes.get(key) is not None}
    # NaN needs no sentinel: floats have it already, and then keep their type, and integers never do
    found = {key: numbers for key, numbers in found.items() if numbers or dtype.kind == "f"}
    scale = _factor(attributes, "scale_factor", name)
    offset = _factor(attributes, "add_offset", name)
    integers = _integers(dtype, attributes.get("_Unsigned"))
    if integers is not None and "_FillValue" in found:
        found["_FillValue"] = tuple(_same_bits(number, integers) for number in found["_FillValue"])
    sentinels = tuple(dict.fromkeys(number for numbers in found.values() for number in numbers))
    if not sentinels and integers is None and scale in (None, 1) and offset in (None, 0):
        return None
    data = (integers or dtype).newbyteorder("=")
    if scale is not None or offset is not None:
        data = data if found and not sentinels else np.dtype(np.float64)
    elif sentinels:
        data = _with_nan(data)
    return Conversion(data, sentinels, integers, scale, offset, to_json(attributes, f"the attributes of {name}"))


def coding_of(array: ZarrArray) -> tuple[str, ...]:
    """Names of the attributes of an array that say how its numbers are coded, whether or not they make sense."""
    fill = (MISSING[0],) if _has_mask(array) else ()
    return tuple(dict.fromkeys((*fill, *(key for key in CODING if key in array.attrs))))


def declared_range(array: ZarrArray) -> dict[str, Any] | None:
    """The range of valid numbers that an array declares, by attribute; None if it declares none."""
    return {key: array.attrs[key] for key in RANGE if key in array.attrs} or None


def _attributes(array: ZarrArray, name: str) -> dict[str, Any]:
    """The attributes that matter, with the fill value of the store where xarray takes it for that of the data."""
    attributes = {key: array.attrs[key] for key in CODING if key in array.attrs}
    if _has_mask(array):
        attributes["_FillValue"] = array.fill_value
    fill = attributes.get("_FillValue")
    if array.metadata.zarr_format == 3 and np.dtype(array.dtype).kind == "f" and isinstance(fill, str):
        try:
            attributes["_FillValue"] = struct.unpack("<d", base64.b64decode(fill, validate=True))[0]
        except (binascii.Error, struct.error, ValueError):
            raise _nonsense("_FillValue", fill, name, "a number, or the eight bytes of one in base64") from None
    return attributes


def _has_mask(array: ZarrArray) -> bool:
    """Tell whether xarray takes the fill value of the store for that of the data."""
    return array.metadata.zarr_format == 2 and DIMENSIONS in array.attrs and array.fill_value is not None


def _numbers(value: Any, key: str, name: str) -> tuple[Any, ...]:
    """Numbers that stand for missing, without NaN, as numpy's scalars."""
    numbers = np.ravel(value)
    if numbers.dtype.kind not in "fiub":
        raise _nonsense(key, value, name, "a number, or a list of numbers")
    return tuple(number for number in numbers if not np.isnan(number))


def _factor(attributes: dict[str, Any], key: str, name: str) -> float | None:
    value = attributes.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise _nonsense(key, value, name, "a finite number")
    if key == "scale_factor" and value == 0:
        raise _nonsense(key, value, name, "a number other than 0")
    return float(value)


def _integers(dtype: np.dtype[Any], unsigned: object) -> np.dtype[Any] | None:
    """The type that integers are read as, if ``_Unsigned`` says that it is not their own."""
    other = {("i", "true"): "u", ("u", "false"): "i"}.get((dtype.kind, str(unsigned)))
    return None if other is None else np.dtype(f"{other}{dtype.itemsize}")


def _same_bits(number: Any, integers: np.dtype[Any]) -> Any:
    """A stored integer as another type reads its bits."""
    if not float(number).is_integer():
        return number  # it never occurs
    limits = np.iinfo(integers)
    return (int(number) - int(limits.min)) % (int(limits.max) - int(limits.min) + 1) + int(limits.min)


def _with_nan(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The float type that xarray takes for numbers some of which are missing."""
    if dtype.kind == "f":
        return dtype
    return np.dtype(np.float32 if dtype.itemsize <= 2 else np.float64)


def _nonsense(key: str, value: object, name: str, allowed: str) -> InvalidInput:
    return InvalidInput(
        f"{name} declares {key} {value!r}, which is not {allowed}. Correct the attribute, or read the "
        "stored numbers with --raw (decode=False)."
    )
