"""Record of the last run of a step: a small JSON file beside its outputs. A rerun reads it to decide what to run.

A step's fingerprint covers the package's version, its parameters and its inputs: of files their content, of an earlier
step's output that step's fingerprint. So a change anywhere reaches all steps that depend on it, and only those.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from spae_dask import __version__
from spae_dask.errors import InvalidInput, StorageError
from spae_dask.pipelines.matrices import BUILT_IN
from spae_dask.pipelines.pipeline import Node
from spae_dask.pipelines.schema import Input
from spae_dask.storage.artifacts.artifact_reading import encoder_fingerprint
from spae_dask.storage.artifacts.fingerprint import fingerprint, path_fingerprint
from spae_dask.storage.genetics import companions
from spae_dask.storage.open import open_matrix
from spae_dask.storage.readable import grid_files
from spae_dask.storage.sources.stored_chunks import check_chunks
from spae_dask.storage.writing.json_and_csv import from_json, to_json
from spae_dask.storage.writing.publish import publish


@dataclass(frozen=True)
class Record:
    """A run of a step.

    Attributes
    ----------
    kind, version : str
        Kind of the step, and version of the package.
    parameters : dict
        Parameters that the step was given.
    inputs : dict of str
        Fingerprint of each input.
    outputs : dict of str
        Fingerprint of each output, by file name; empty while the step is not finished.
    result : dict
        Report of the step.
    seconds : float
        Time that the step took, in seconds.
    date : str
        Time at which the run began, UTC.
    """

    kind: str
    version: str
    parameters: dict[str, Any]
    inputs: dict[str, str]
    outputs: dict[str, str]
    result: dict[str, Any]
    seconds: float
    date: str

    @property
    def fingerprint(self) -> str:
        """Fingerprint of all that decides the outcome."""
        decisive = [self.kind, self.version, self.parameters, self.inputs]
        return hashlib.sha256(json.dumps(decisive, sort_keys=True).encode()).hexdigest()


def begin(node: Node, known: Mapping[str, str]) -> Record:
    """The record of a run that begins now.

    Parameters
    ----------
    node : Node
        The step.
    known : Mapping
        Fingerprints of earlier steps by name.

    Raises
    ------
    InvalidInput, StorageError
        If an input cannot be read.
    """
    wants = {each.key: each for each in node.step.inputs}
    inputs = {
        ".".join(map(str, key)): known[node.made_by[key]] if key in node.made_by else _fingerprint(file, wants[key])
        for key, file in node.files.items()
    }
    date = datetime.now(UTC).isoformat(timespec="seconds")
    parameters = to_json(node.step.parameters(), "parameters")
    return Record(node.step.kind, __version__, parameters, inputs, {}, {}, 0.0, date)


def _fingerprint(file: str, given: Input) -> str:
    if file in BUILT_IN:
        return f"built in: {file}"
    if "://" in file:
        if given.wants == "path":
            raise InvalidInput(
                f"{file} is a URL, but losses at other sizes are read from a local disk. Copy the file there."
            )
        if given.wants == "encoder":
            return encoder_fingerprint(file)
        source = open_matrix(file, **given.which)
        return f"{fingerprint(source)} {check_chunks(source).snapshot.digest}"
    try:
        return " ".join(path_fingerprint(each) for each in (*(grid_files(file) or (file,)), *companions(file)))
    except OSError as error:
        raise StorageError(
            f"{file} cannot be read: {error.strerror}. Check that it exists and that you may read it."
        ) from error


def finish(record: Record, node: Node, result: Mapping[str, Any], seconds: float) -> Record:
    """Return the record of the same run, after its outputs are complete."""
    outputs = {path.name: path_fingerprint(path) for path in node.outputs.values()}
    return replace(record, outputs=outputs, result=dict(result), seconds=seconds)


def write_record(record: Record, path: Path) -> None:
    """Write a record; it replaces the one before in one step."""
    with publish(path, overwrite=True) as work:
        work.write_text(json.dumps(to_json(asdict(record), "record"), indent=1) + "\n", encoding="utf-8")


def read_record(path: Path) -> Record | None:
    """The record at a path; None if there is none, or what is there is none."""
    try:
        found = from_json(json.loads(path.read_text(encoding="utf-8")))
        record = Record(**found)
        maps = (record.parameters, record.inputs, record.outputs, record.result)
        return record if all(isinstance(each, dict) for each in maps) else None
    except (OSError, ValueError, TypeError, RecursionError):
        return None


def reason_to_run(node: Node, now: Record, last: Record | None) -> str | None:
    """Return the reason for which a step has to run; None if its outputs are there and would come out the same.

    Parameters
    ----------
    node : Node
        The step.
    now : Record
        Record of the run that is considered.
    last : Record or None
        Record of the last run.
    """
    if last is None:
        return "it has not run yet"
    if node.step.always:
        return "its result depends on the machine"
    if (last.kind, last.parameters) != (now.kind, now.parameters):
        return "its parameters changed"
    if last.inputs != now.inputs:
        changed = [key for key in now.inputs if last.inputs.get(key) != now.inputs[key]]
        return f"its input changed: {', '.join(changed) or 'there are fewer'}"
    if last.version != now.version:
        return f"it ran with version {last.version}"
    if not last.outputs:
        return "it was not finished"
    for path in node.outputs.values():
        try:
            if last.outputs.get(path.name) != path_fingerprint(path):
                return f"{path.name} changed since the step wrote it"
        except FileNotFoundError:
            return f"{path.name} is gone"
        except OSError:
            return f"{path.name} cannot be read"
    return None
