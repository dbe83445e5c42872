"""Records as JSON and back, infinities and NaN included, and JSON and CSV files.

JSON has no numbers that are not finite: they are the strings ``"Infinity"``, ``"-Infinity"`` and ``"NaN"``, as in
Zarr's own metadata, and come back as floats. Tuples come back as lists. A file appears only when it is complete.
"""

import csv
import json
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from spae_dask.errors import InvalidInput
from spae_dask.storage.writing.publish import publish

NON_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def to_json(value: Any, where: str) -> Any:
    """JSON values for plain Python and numpy ones.

    Parameters
    ----------
    value : object
        None, bool, int, float, str, path, numpy scalar or array, list, tuple or mapping with string keys, nested in any
        way.
    where : str
        Name of the value in messages.

    Raises
    ------
    InvalidInput
        If it holds anything else.
    """
    if hasattr(value, "tolist"):  # numpy, which this module need not import
        value = value.tolist()
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        if math.isfinite(value):
            return value
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, list | tuple):
        return [to_json(each, f"{where}[{i}]") for i, each in enumerate(value)]
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return {key: to_json(each, f"{where}[{key!r}]") for key, each in value.items()}
    raise InvalidInput(
        f"{where} is a {type(value).__name__}, which JSON cannot hold. Allowed are None, booleans, numbers, strings, "
        "paths, lists and dictionaries with string keys."
    )


def from_json(value: Any) -> Any:
    """The values that `to_json` was given, save that tuples are lists."""
    if isinstance(value, str):
        return NON_FINITE.get(value, value)
    if isinstance(value, list):
        return [from_json(each) for each in value]
    if isinstance(value, dict):
        return {key: from_json(each) for key, each in value.items()}
    return value


def write_json(document: Mapping[str, Any], path: Path) -> None:
    """Write one JSON object."""
    with publish(path, overwrite=True) as work:
        text = json.dumps(to_json(document, path.name), indent=2, allow_nan=False)
        work.write_text(f"{text}\n", encoding="utf-8")


def write_csv(records: Sequence[Mapping[str, Any]], path: str | Path, *, overwrite: bool = True) -> None:
    """Write records with the same keys as a table with a header.

    Parameters
    ----------
    records : sequence of mappings
        Records to write; at least one.
    path : str or Path
        File that the records are written to.
    overwrite : bool
        True to replace an existing file.
    """
    with (
        publish(path, overwrite=overwrite) as work,
        work.open("w", newline="", encoding="utf-8", errors="backslashreplace") as file,
    ):
        writer = csv.DictWriter(file, fieldnames=list(records[0]))
        writer.writeheader()
        writer.writerows(records)
