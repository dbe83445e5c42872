"""A Zarr store at an address: requests are repeated and explained, and each process opens it with its own credentials.

Pickled, it is its address and nothing else: no client, no secret.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from typing import Any, TypeVar

from zarr.abc.store import ByteRequest, Store
from zarr.core.buffer import Buffer, BufferPrototype, default_buffer_prototype
from zarr.core.sync import sync
from zarr.storage import ObjectStore

from spae_dask import retry
from spae_dask.errors import SpaeError
from spae_dask.quantities import format_seconds
from spae_dask.storage.remote.address import Address
from spae_dask.storage.remote.faults import Kind, fault_of
from spae_dask.storage.remote.object_clients import connect, resolved
from spae_dask.storage.remote.object_requests import StoredFile, names_below, objects_below, upload

LOUD = 3
"""Number of failures of one request from which on each is a warning. Earlier ones are logged at a lower level."""

LOG = logging.getLogger("spae_dask.storage")

T = TypeVar("T")


async def retried(
    address: Address,
    key: str,
    request: Callable[[], Awaitable[T]],
    done: str = "read",
    *,
    repeats_itself: bool = False,
) -> T:
    """Return the result of a request, which is retried by the policy of `spae_dask.retry`.

    Parameters
    ----------
    address, key
        Address and key of the request, for messages.
    request : callable
        Makes the request.
    done : str
        Participle for messages, such as "read", that names the action on the key.
    repeats_itself : bool
        True if many such requests are made, and each of them is retried already. The request is then made only once
        here.

    Raises
    ------
    FileNotFoundError
        If the server says that there is no object. The error is raised unchanged.
    NotFound
        If there is not even the bucket.
    StorageError
        If it failed for good.
    """
    began, waits, number = time.monotonic(), retry.POLICY.waits(), 1
    while True:
        try:
            return await request()
        except (SpaeError, MemoryError):
            raise
        except Exception as error:  # clients raise exceptions of any type
            fault = fault_of(error)
            if isinstance(error, FileNotFoundError) and fault.kind is not Kind.BUCKET:
                raise
            wait = next(waits, None) if fault.transient and not repeats_itself else None
            if wait is None:
                made = retry.POLICY.tries if repeats_itself else number
                spent = f"; {made} tries in {format_seconds(time.monotonic() - began)}" if fault.transient else ""
                raise fault.error(address, key, done, spent) from error
            LOG.log(
                logging.WARNING if number >= LOUD else logging.INFO,
                "%s/%s: %s (%s); try %d of %d in %.1f s",
                address,
                key,
                fault.kind.value,
                fault.detail,
                number + 1,
                retry.POLICY.tries,
                wait,
            )
        await asyncio.sleep(wait)
        number += 1


class RemoteStore(Store):
    """Objects below an address, by key.

    Parameters
    ----------
    address : Address
        Address with all options of this process's environment filled in, as `open_remote` makes it.
    read_only : bool
        True to refuse writing.
    """

    def __init__(self, address: Address, *, read_only: bool = True) -> None:
        super().__init__(read_only=read_only)
        self.address = address
        self._client = connect(address, read_only=read_only)

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopened, (self.address, self.read_only)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RemoteStore) and (self.address, self.read_only) == (other.address, other.read_only)

    def __hash__(self) -> int:
        return hash((self.address, self.read_only))

    def __str__(self) -> str:
        return self.address.url

    def __repr__(self) -> str:
        return f"RemoteStore({self.address.url!r})"

    def with_read_only(self, read_only: bool = False) -> "RemoteStore":
        """The same place, to be read only or to be written."""
        return RemoteStore(self.address, read_only=read_only)

    @property
    def supports_writes(self) -> bool:
        """True if the client supports writes."""
        return self._client.supports_writes

    @property
    def supports_deletes(self) -> bool:
        """True if the client supports deletes."""
        return self._client.supports_deletes

    @property
    def supports_listing(self) -> bool:
        """True if the client supports listing."""
        return self._client.supports_listing

    async def _retried(self, key: str, request: Callable[[], Awaitable[T]], done: str = "read") -> T:
        return await retried(self.address, key, request, done)

    async def get(self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None) -> Buffer | None:
        """The bytes of an object, or of a part of it; None if there is none."""
        return await self._retried(key, lambda: self._client.get(key, prototype, byte_range))

    async def get_partial_values(
        self, prototype: BufferPrototype, key_ranges: Iterable[tuple[str, ByteRequest | None]]
    ) -> list[Buffer | None]:
        """Parts of objects, in the order asked for."""
        return [await self.get(key, prototype, byte_range) for key, byte_range in key_ranges]

    async def exists(self, key: str) -> bool:
        """Return True if the object exists."""
        return await self._retried(key, lambda: self._client.exists(key))

    async def set(self, key: str, value: Buffer) -> None:
        """Store an object."""
        self._check_writable()
        await self._retried(key, lambda: self._client.set(key, value), "written")

    async def set_if_not_exists(self, key: str, value: Buffer) -> None:
        """Store an object unless there is one; the service decides, so of two writers one is first."""
        self._check_writable()
        await self._retried(key, lambda: self._client.set_if_not_exists(key, value), "written")

    async def delete(self, key: str) -> None:
        """Delete an object; it may be absent."""
        self._check_writable()
        await self._retried(key, lambda: self._client.delete(key), "deleted")

    async def list(self) -> AsyncIterator[str]:
        """All keys."""
        async for key in self.list_prefix(""):
            yield key

    async def list_prefix(self, prefix: str) -> AsyncIterator[str]:
        """Keys that begin with a prefix, which is empty or ends at a slash."""
        for key in await self._retried(prefix, lambda: _all_of(self._client.list_prefix(prefix)), "listed"):
            yield key

    async def list_dir(self, prefix: str) -> AsyncIterator[str]:
        """Names directly below a prefix."""
        for key in await self._retried(prefix, lambda: _all_of(self._client.list_dir(prefix)), "listed"):
            yield key

    async def upload(self, key: str, pieces: Sequence[bytes | memoryview]) -> None:
        """Store an object in parts, each of which the client repeats: a fault does not begin a large one anew."""
        self._check_writable()
        patient = connect(self.address, read_only=False, repeats=True)
        await retried(self.address, key, lambda: upload(patient, key, pieces), "written", repeats_itself=True)

    @property
    def lists_times(self) -> bool:
        """True for an object store, whose listing tells sizes, times and ETags."""
        return isinstance(self._client, ObjectStore)

    async def objects_below(self, prefix: str) -> tuple[StoredFile, ...]:
        """Objects below a prefix, however deep, in the order of their names; of object stores only."""
        found = await self.collected_below(prefix, list[StoredFile], list.append)
        return tuple(sorted(found, key=lambda each: each.path))

    async def collected_below(self, prefix: str, begin: Callable[[], T], add: Callable[[T, StoredFile], None]) -> T:
        """Add each object below a prefix, as it is listed, to what ``begin`` makes. A repeated listing begins anew."""

        async def once() -> T:
            collected = begin()
            async for each in objects_below(self._client, prefix):
                add(collected, each)
            return collected

        return await self._retried(prefix, once, "listed")

    async def names_below(self, prefix: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Names directly below a prefix, of folders and of objects; of object stores only."""
        return await self._retried(prefix, lambda: names_below(self._client, prefix), "listed")

    async def getsize(self, key: str) -> int:
        """Bytes of an object."""
        return await self._retried(key, lambda: self._client.getsize(key))

    async def getsize_prefix(self, prefix: str) -> int:
        """Bytes of all objects below a prefix."""
        return await self._retried(prefix, lambda: self._client.getsize_prefix(prefix))


def open_remote(address: Address, *, read_only: bool = True) -> RemoteStore:
    """The store at an address, reached as this process's environment says.

    Raises
    ------
    InvalidInput
        If a library is missing, or the environment or a profile is wrong.
    """
    return RemoteStore(resolved(address), read_only=read_only)


def reach(store: RemoteStore) -> None:
    """Make one request, so that a server that cannot be reached is found out by one and not by many at once.

    Raises
    ------
    NotFound, StorageError
        As `retried`.
    """
    sync(store.get("zarr.json", default_buffer_prototype()))


def _reopened(address: Address, read_only: bool) -> RemoteStore:
    return RemoteStore(address, read_only=read_only)


async def _all_of(keys: AsyncIterator[str]) -> list[str]:
    return [key async for key in keys]
