"""The files of a checkpoint, in a local folder or under the URL of an object store: each there whole, or not at all."""

import os
from pathlib import Path

from spae_dask.errors import InvalidInput
from spae_dask.storage.checkpoints.local_states import LocalStates
from spae_dask.storage.checkpoints.object_states import ObjectStates
from spae_dask.storage.remote.address import WRITABLE, is_remote, parse_address
from spae_dask.storage.remote.remote_store import open_remote
from spae_dask.storage.remote.url_secrets import redacted
from spae_dask.storage.writing.output_paths import refuse_long

States = LocalStates | ObjectStates


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
        raise InvalidInput("the checkpoint has an empty name. Give it a folder of its own.")
    if is_remote(text) and (address := parse_address(text)).scheme in WRITABLE:
        return ObjectStates(open_remote(address, read_only=False))
    if "://" in text and not text.startswith("file://"):
        raise InvalidInput(
            f"the checkpoint cannot be at {redacted(text)}: checkpoints are kept in local or mounted folders, and "
            "below s3:// and gs://. Give one of these."
        )
    root = Path(text.removeprefix("file://")).resolve()
    refuse_long(root)
    return LocalStates(root)
