"""Tables and records on disk. Each appears only when it is complete."""

import csv
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from spae_dask.storage.writing.json_values import to_json
from spae_dask.storage.writing.publish import publish


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
