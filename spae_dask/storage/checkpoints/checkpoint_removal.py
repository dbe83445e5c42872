"""A checkpoint removed: all of it, damaged ones too, and no file of anybody else."""

import re

from spae_dask.errors import CheckpointWarning, InvalidInput, NotFound, StorageError, warn
from spae_dask.storage.checkpoints.checkpoint_record import RECORD, states_at
from spae_dask.storage.checkpoints.local_states import PARTIAL

OURS = re.compile(r"checkpoint\.json|parts\.json|objects\.npz|\d\d-[-a-z0-9]+/(about\.json|\d+-\d+\.state)")
"""Files that a checkpoint consists of; no others are ever removed."""


class _StillUsed(StorageError):
    """A run stores in a checkpoint that is being removed."""


def remove_checkpoint(place: str) -> int:
    """Remove a checkpoint, damaged ones too, and nothing else; how many bytes that freed.

    Raises
    ------
    NotFound
        If there is nothing.
    InvalidInput
        If other files are there; nothing is removed then.
    StorageError
        If a run stored in it meanwhile.
    """
    store = states_at(place)
    try:
        # the record is removed last: without it, no file is left that an equal run could be removing
        own, folders = store.files(""), store.folders()
        names, files = {*own, *folders}, store.all_files()
    except NotADirectoryError:
        raise InvalidInput(f"{place} is a file, not a checkpoint. Nothing was removed.") from None
    if not names:
        raise NotFound(f"there is no checkpoint at {place}. Nothing was removed.")
    foreign = [each.path for each in files if not _is_ours(each.path)]
    if foreign or (files and RECORD not in names):
        why = f"it contains {foreign[0]!r}" if foreign else f"it has no {RECORD}"
        raise InvalidInput(f"{place} is not a checkpoint: {why}. Nothing was removed.")
    # the record is removed last, so that an interrupted removal can be repeated
    for each in sorted(files, key=lambda file: file.path == RECORD):
        store.remove(each.path)
    for folder in (*folders, ""):
        store.remove_folder(folder)
    if store.all_files():
        raise _StillUsed(f"a run stored in {place} meanwhile. Stop that run, and remove the checkpoint again.")
    return sum(each.nbytes for each in files)


def end_checkpoint(place: str) -> None:
    """Remove the checkpoint of a run that is done. An equal run may have removed it already, or still store in it.

    What that run stores it removes when it ends.
    """
    try:
        remove_checkpoint(place)
    except (NotFound, _StillUsed):
        return
    except StorageError as error:
        warn(f"the checkpoint is no longer needed but could not be removed: {error}", CheckpointWarning)


def _is_ours(path: str) -> bool:
    folder, _, name = path.rpartition("/")
    if PARTIAL.fullmatch(name):
        name = name.removeprefix(".").rpartition(".partial-")[0]
    return OURS.fullmatch(f"{folder}/{name}" if folder else name) is not None
