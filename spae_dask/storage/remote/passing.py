"""Transient errors of a store: they are retried, and no other errors are."""

import socket
import sys

from spae_dask.errors import SpaeError, StorageError, StorageFaltered
from spae_dask.storage.remote.faults import REPEATED, kind_of


def may_pass(error: BaseException) -> bool:
    """Return True if ``error``, or one of its causes, is transient.

    A missing object, a missing permission and bytes that no codec understands are not; nor is a request to an object
    store, which was repeated before its error was raised.
    """
    seen: set[int] = set()
    each: BaseException | None = error
    while each is not None and id(each) not in seen:
        seen.add(id(each))
        if isinstance(each, SpaeError):
            return isinstance(each, StorageFaltered)
        if isinstance(each, FileNotFoundError | PermissionError):
            return False
        if kind_of(each) in REPEATED:
            return True
        each = each.__cause__ or each.__context__
    return False


def read_failed(what: str, remedy: str, error: BaseException) -> StorageError:
    """The error that says ``what``, of the class that tells whether reading again makes sense; if not, the remedy."""
    if may_pass(error):
        return StorageFaltered(f"{what} Run again when the store answers.")
    if isinstance(error, FileNotFoundError):
        return StorageError(f"{what} {not_seen('It')}")
    return StorageError(f"{what} {remedy}")


def not_seen(what: str) -> str:
    """Return the message about data that the reading process does not see."""
    return (
        f"{what} is not there for {reader()}. Give data at a path, or a URL, that all workers see as this process "
        "does, and see that nothing moves them, or takes their mount away, while a run goes on."
    )


def reader() -> str:
    """Name the process that reads: the worker, if it is one, and its host."""
    here, distributed = socket.gethostname(), sys.modules.get("distributed")
    if distributed is not None:
        try:
            return f"the worker {distributed.get_worker().address} of {here}"
        except ValueError:  # it is none
            pass
    return f"a process of {here}"
