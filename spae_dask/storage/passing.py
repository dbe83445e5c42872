"""Which failures of a store may pass: those are worth another try, and the others are not."""

import errno

from spae_dask.errors import StorageError, StorageFaltered

PASSING_ERRNOS = frozenset(
    {
        errno.EAGAIN,
        errno.EBUSY,
        errno.ECONNABORTED,
        errno.ECONNREFUSED,
        errno.ECONNRESET,
        errno.EHOSTUNREACH,
        errno.EINTR,
        errno.EIO,
        errno.ENETDOWN,
        errno.ENETUNREACH,
        errno.EPIPE,
        errno.ESTALE,
        errno.ETIMEDOUT,
    }
)
"""Of network file systems, and of object stores as fsspec translates them: a throttled request is EBUSY."""

PASSING_STATUS = frozenset({408, 425, 429, 500, 502, 503, 504})
"""HTTP: too slow, too early, too many, or the server's own trouble."""


def may_pass(error: BaseException) -> bool:
    """Whether ``error``, or what it came from, is of the kind that another try may not meet.

    A missing object, a missing permission and bytes that no codec understands are not.
    """
    seen: set[int] = set()
    each: BaseException | None = error
    while each is not None and id(each) not in seen:
        seen.add(id(each))
        if isinstance(each, FileNotFoundError | PermissionError):
            return False
        if isinstance(each, TimeoutError | ConnectionError):
            return True
        if isinstance(each, OSError) and each.errno in PASSING_ERRNOS:
            return True
        if getattr(each, "status", None) in PASSING_STATUS:  # as aiohttp's errors have it
            return True
        each = each.__cause__ or each.__context__
    return False


def read_failed(what: str, remedy: str, error: BaseException) -> StorageError:
    """The error that says ``what``, of the class that tells whether reading again makes sense; if not, the remedy."""
    if may_pass(error):
        return StorageFaltered(f"{what} Run again when the store answers.")
    return StorageError(f"{what} {remedy}")
