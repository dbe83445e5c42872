"""Identity of a checkpoint, in JSON files beside the states. The checkpoint refuses other data and other parameters."""

import json
import os
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from spae_dask.errors import InvalidInput, OtherCheckpoint, StorageError
from spae_dask.plain_files import in_shell
from spae_dask.storage.checkpoints.local_states import PARTIAL, LocalStates
from spae_dask.storage.checkpoints.object_states import ObjectStates
from spae_dask.storage.remote.address import WRITABLE, is_remote, parse_address, redacted
from spae_dask.storage.remote.remote_store import open_remote
from spae_dask.storage.writing.json_and_csv import from_json, to_json
from spae_dask.storage.writing.output_paths import refuse_long

States = LocalStates | ObjectStates


FORMAT = "spae-checkpoint"
FORMAT_VERSION = 1

RECORD = "checkpoint.json"
PARTS = "parts.json"

OBJECTS = "objects.npz"
OBJECTS_OF_JOB = "data.objects"

PACKAGE = "spae_dask"
"""Name of this package among the versions."""

LARGEST_RECORD = 1 << 22
LARGEST_OBJECTS = 1 << 30


@dataclass(frozen=True)
class Job:
    """All that decides the bits of the states of a run.

    Attributes
    ----------
    kind : str
        Kind of run, such as ``"fit"``.
    data, parameters, versions : dict
        Identity of the data, parameters of the run, and versions of the libraries.
    """

    kind: str
    data: dict[str, Any]
    parameters: dict[str, Any]
    versions: dict[str, str]

    def flat(self, *, any_machine: bool = False) -> dict[str, Any]:
        """Everything by name, as JSON has it.

        With ``any_machine`` only the version of this package is left of the versions: sums that are exact have the same
        bits with other libraries and on other machines.
        """
        found: dict[str, Any] = to_json({"kind": self.kind, **self.parameters}, "the job")
        versions = {name: it for name, it in self.versions.items() if not any_machine or name == PACKAGE}
        for group, values in (("data", self.data), ("versions", versions)):
            found |= {f"{group}.{name}": value for name, value in to_json(values, group).items()}
        return found


class Listing(Protocol):
    """Stored objects of the data."""

    def to_bytes(self) -> bytes:
        """To be kept."""
        ...

    def difference_from(self, kept: bytes) -> str | None:
        """Describe the first object that has changed; None if it is unknown."""
        ...


def begin_or_resume(store: States, job: Job, listing: Listing | None = None, *, any_machine: bool = False) -> None:
    """Write what the checkpoint is of, or make sure that it is of this.

    If several runs begin a checkpoint at once, it belongs to the first. The others resume it, or are refused. With
    ``any_machine`` they may run on machines of other kinds and with other libraries.

    Raises
    ------
    InvalidInput
        If there is something else at its place.
    OtherCheckpoint
        If it is of another job; what differs is named.
    StorageError
        If it cannot be read or written.
    """
    there = read_job(store)
    if there is None:
        store.make("")
        record = {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
            "job": asdict(job),
        }
        store.write_if_absent(RECORD, json.dumps(to_json(record, "the checkpoint"), indent=1).encode())
        there = read_job(store)  # another run may have written it first, or an earlier try of this request
        if there is None:
            raise StorageError(f"{store.describe()} was removed while a run started in it. Run again.")
    else:
        store.tidy()
    old, new = (each.flat(any_machine=any_machine) for each in (there[0], job))
    changed = [
        (name == OBJECTS_OF_JOB and listing is not None and _object_changed(store, listing))
        or f"{name} was {_told(old, name)}, is {_told(new, name)}"
        for name in sorted(old.keys() | new.keys())
        if old.get(name) != new.get(name)
    ]
    if not changed and listing is not None and OBJECTS not in store.files(""):
        store.write_if_absent(OBJECTS, listing.to_bytes())
    if changed:
        raise OtherCheckpoint(
            f"the checkpoint {store.describe()} belongs to another run: {'; '.join(changed)}. To resume that "
            f"run, {_as_it_was(there[0], job)}. Otherwise use another checkpoint folder for this run, or "
            f"remove the old one: `spae checkpoint rm {in_shell(store.describe())}`."
        )


def _object_changed(store: States, listing: Listing) -> str | None:
    """The object of the data that is not as it was when the checkpoint was begun."""
    try:
        with store.open(OBJECTS) as file:
            return listing.difference_from(file.read(LARGEST_OBJECTS))
    except FileNotFoundError:
        return None


def _as_it_was(old: Job, new: Job) -> str:
    """Describe the changes that make the new job equal to the old one. Bits depend on libraries and machine as well."""
    wanted = []
    if (old.kind, old.data, old.parameters) != (new.kind, new.data, new.parameters):
        wanted.append("give the parameters and data it was given")
    others = {name: it for name, it in old.versions.items() if name != "machine" and it != new.versions.get(name)}
    if others:
        libraries = " ".join(f"{name.replace('_', '-')}=={version}" for name, version in others.items())
        wanted.append(f"install the libraries it ran with (`pip install {libraries}`)")
    if old.versions.get("machine") != new.versions.get("machine"):
        wanted.append(f"use a machine of its kind ({old.versions.get('machine')})")
    return ", and ".join(wanted)


def _told(values: dict[str, Any], name: str) -> str:
    return json.dumps(values[name]) if name in values else "not known"


def read_job(store: States) -> tuple[Job, str] | None:
    """Return the job of a checkpoint, and the time it was begun; None if the place is empty.

    Raises
    ------
    InvalidInput
        If what is there is no checkpoint, or of a version that this one cannot read.
    """
    name = store.describe()
    try:
        with store.open(RECORD) as file:
            text = file.read(LARGEST_RECORD)
    except NotADirectoryError:
        raise InvalidInput(f"{name} is a file. Give the checkpoint its own folder.") from None
    except FileNotFoundError:
        # parts of one array begin the checkpoint at the same time; another part may have written it by now
        files = store.files("")
        if RECORD in files:
            return read_job(store)
        others = [each for each in (*files, *store.folders()) if not PARTIAL.fullmatch(each)]
        if others:
            raise InvalidInput(
                f"{name} is not a checkpoint: it contains "
                f"{others[0]!r}{f' and {len(others) - 1} more' if len(others) > 1 else ''}, but no {RECORD}. Give "
                "the checkpoint its own folder."
            ) from None
        return None
    try:
        found = json.loads(text)
        if found["format"] != FORMAT:
            raise InvalidInput(f"{name} is not a checkpoint of this package. Give the checkpoint its own folder.")
        if found["format_version"] != FORMAT_VERSION:
            raise InvalidInput(
                f"the checkpoint {name} has format {found['format_version']!r}, but this version of spae_dask "
                f"reads {FORMAT_VERSION}. Resume with the version that wrote it, or remove it: `spae checkpoint "
                f"rm {name}`."
            )
        job = Job(**from_json(found["job"]))
        if not all(isinstance(each, dict) for each in (job.data, job.parameters, job.versions)):
            raise TypeError
        return job, str(found["created"])
    except InvalidInput:
        raise
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise InvalidInput(
            f"the checkpoint {name} is damaged: its {RECORD} cannot be understood. Remove it with `spae "
            f"checkpoint rm {name}`, and run again."
        ) from error


def remember_parts(store: States, n_parts: int) -> None:
    """Note into how many parts an array job cuts the passes."""
    store.write(PARTS, [json.dumps({"of": n_parts}).encode()])


def parts_of(store: States) -> int | None:
    """Into how many parts the passes were last cut; None if they were not."""
    try:
        with store.open(PARTS) as file:
            found = json.loads(file.read(LARGEST_RECORD))["of"]
    except (FileNotFoundError, ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return None
    return found if type(found) is int and found > 0 else None


def states_at(place: str | Path) -> States:
    """The files at a path or URL; nothing is made there, and nothing is sent.

    Raises
    ------
    InvalidInput
        If it is empty or too long, a URL that nothing can be written to, or one that needs a library that is not
        installed.
    """
    text = os.fsdecode(place)
    if not text:
        raise InvalidInput("the checkpoint has an empty name. Give it its own folder.")
    if is_remote(text) and (address := parse_address(text)).scheme in WRITABLE:
        return ObjectStates(open_remote(address, read_only=False))
    if "://" in text and not text.startswith("file://"):
        raise InvalidInput(
            f"the checkpoint cannot be at {redacted(text)}. Give a local or mounted folder, or a URL of s3:// or gs://."
        )
    root = Path(text.removeprefix("file://")).resolve()
    refuse_long(root)
    return LocalStates(root)
