"""Target of a Zarr output: a local path, to which it is renamed, or an object store, on which it is committed."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from zarr.core.sync import sync

from spae_dask.errors import InvalidInput
from spae_dask.storage.remote.address import WRITABLE, Address, is_remote, parse_address
from spae_dask.storage.remote.remote_store import open_remote
from spae_dask.storage.writing.publish import check_output, publish
from spae_dask.storage.writing.unfinished import UnfinishedStore, check_vacant, publish_remote


@dataclass(frozen=True)
class Output:
    """A store that is being written.

    Attributes
    ----------
    store : str or UnfinishedStore
        Store to give to Zarr's functions. It pickles.
    """

    store: str | UnfinishedStore

    def stored_nbytes(self) -> int:
        """Bytes of all objects, metadata apart on an object store."""
        if isinstance(self.store, str):
            return sum(each.stat().st_size for each in Path(self.store).rglob("*") if each.is_file())
        return sync(self.store.getsize_prefix(""))


@contextmanager
def publish_store(path: str | Path, *, overwrite: bool) -> Iterator[Output]:
    """Yield where to write a Zarr store; it appears under its name if the ``with`` block succeeds.

    Parameters
    ----------
    path : str or Path
        A local path, or a URL of s3 or gs.
    overwrite : bool
        True to replace an existing store. A local store stays until the new one is complete. A store on an object store
        is deleted first.

    Raises
    ------
    OutputExists, InvalidInput, NotFound, StorageError
        As `check_destination`, before anything is written; StorageError also if writing fails.
    """
    if is_remote(path):
        with publish_remote(_writable(str(path)), overwrite=overwrite) as unfinished:
            yield Output(unfinished)
    else:
        with publish(path, overwrite=overwrite) as work:
            yield Output(str(work))


def check_destination(path: str | Path, *, overwrite: bool) -> Path | Address:
    """All that can be known to go wrong with an output before any work is done for it; where it will be.

    Raises
    ------
    OutputExists
        If something is there and may not be replaced.
    InvalidInput
        If the directory or the bucket does not exist, or it is a place nothing can be written to.
    StorageError
        If the place cannot be reached or written.
    """
    if not is_remote(path):
        return check_output(path, overwrite=overwrite)
    address = _writable(str(path))
    check_vacant(open_remote(address, read_only=False), overwrite=overwrite)
    return address


def _writable(url: str) -> Address:
    address = parse_address(url)
    if address.scheme not in WRITABLE:
        raise InvalidInput(
            f"{address} cannot be written: outputs go to local paths, s3:// and gs://. Give one of these."
        )
    return address
