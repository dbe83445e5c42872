"""Stores written to an object store, where nothing can be renamed: whole in the end, or not to be opened by anybody.

Objects are written under their final keys, all but the metadata of the hierarchy (``zarr.json``). Those are kept by the
writer, who puts the root's last of all: until then no Zarr library finds anything there. A marker object, there while
it is written, tells what a killed run left from objects of other kinds, and one writer from another.
"""

import json
import secrets
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import Any

from zarr.abc.store import ByteRequest
from zarr.core.buffer import Buffer, BufferPrototype, default_buffer_prototype
from zarr.core.sync import sync
from zarr.storage import WrapperStore

from spae_dask.errors import NotFound, OutputExists, SpaeError, StorageError
from spae_dask.storage.remote.address import Address
from spae_dask.storage.remote.remote_store import RemoteStore, open_remote

MARKER = "spae-unfinished.json"
"""There from before the first object until after the last."""

METADATA = "zarr.json"

ROOTS = (METADATA, ".zarray", ".zgroup")


class UnfinishedStore(WrapperStore[RemoteStore]):
    """A store whose metadata only its writer, and tasks that it is sent to, can see.

    Parameters
    ----------
    store : RemoteStore
        Store that takes all other keys.
    held : dict, optional
        Metadata by key; it goes along when the store is pickled.
    """

    def __init__(self, store: RemoteStore, held: dict[str, bytes] | None = None) -> None:
        super().__init__(store)
        self._held = {} if held is None else held

    def __reduce__(self) -> tuple[Any, ...]:
        return UnfinishedStore, (self._store, self._held)

    def __str__(self) -> str:
        return str(self._store)

    def _with_store(self, store: RemoteStore) -> "UnfinishedStore":
        return UnfinishedStore(store, self._held)

    def with_read_only(self, read_only: bool = False) -> "UnfinishedStore":
        """The same, with the same metadata held, for reading or for writing; wrappers of older Zarr have no such."""
        return self._with_store(self._store.with_read_only(read_only))

    async def get(self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None) -> Buffer | None:
        """Metadata from what is held; all else from the store."""
        if _is_metadata(key):
            assert byte_range is None, "metadata are read whole; please report this"
            return prototype.buffer.from_bytes(self._held[key]) if key in self._held else None
        return await self._store.get(key, prototype, byte_range)

    async def exists(self, key: str) -> bool:
        """Return True if the key is held back or stored."""
        return key in self._held if _is_metadata(key) else await self._store.exists(key)

    async def set(self, key: str, value: Buffer) -> None:
        """Hold metadata, store all else."""
        if _is_metadata(key):
            self._held[key] = value.to_bytes()
        else:
            await self._store.set(key, value)

    async def set_if_not_exists(self, key: str, value: Buffer) -> None:
        """The same, unless it is there."""
        if not await self.exists(key):
            await self.set(key, value)

    async def list(self) -> AsyncIterator[str]:
        """Keys held and stored."""
        async for key in self.list_prefix(""):
            yield key

    async def list_prefix(self, prefix: str) -> AsyncIterator[str]:
        """Keys held and stored below a prefix."""
        for key in [key for key in self._held if key.startswith(prefix)]:
            yield key
        async for key in self._store.list_prefix(prefix):
            if key != MARKER:
                yield key

    async def list_dir(self, prefix: str) -> AsyncIterator[str]:
        """Names held and stored directly below a prefix."""
        below = f"{prefix.rstrip('/')}/" if prefix else ""
        names = {key.removeprefix(below).partition("/")[0] for key in self._held if key.startswith(below)}
        names |= {name async for name in self._store.list_dir(prefix)}
        for name in sorted(names - {MARKER}):
            yield name

    async def commit(self, token: str) -> None:
        """Put the metadata, the root's last, and take the marker away."""
        assert METADATA in self._held, "nothing was written; please report this"
        for key in sorted(self._held, key=lambda key: (key == METADATA, key)):
            if key == METADATA and await _token(self._store) != token:
                raise StorageError(
                    f"{self._store}: another run has begun to write there. Nothing of this run is readable under that "
                    "name. Give each run its own output."
                )
            await self._store.set(key, default_buffer_prototype().buffer.from_bytes(self._held[key]))
        await self._store.delete(MARKER)


@contextmanager
def publish_remote(address: Address, *, overwrite: bool) -> Iterator[UnfinishedStore]:
    """Yield a store to write to; it can be opened by others once the ``with`` block has succeeded.

    Parameters
    ----------
    address : Address
        Target of the store: a prefix of an s3 or gs bucket.
    overwrite : bool
        True to replace an existing Zarr store, or what a killed run left. It is deleted when the block is entered.

    Raises
    ------
    OutputExists
        If something is there and may not be replaced.
    NotFound
        If there is no such bucket.
    StorageError
        If the service fails or refuses, or another run writes to the same place.
    """
    store = open_remote(address, read_only=False)
    check_vacant(store, overwrite=overwrite)
    token = secrets.token_hex(8)
    sync(_begin(store, token, overwrite=overwrite))
    unfinished = UnfinishedStore(store)
    try:
        yield unfinished
        sync(unfinished.commit(token))
    except BaseException:
        with suppress(SpaeError, FileNotFoundError):  # the first error is reported; the marker records the rest
            sync(_clean(store, token))
        raise


def check_vacant(store: RemoteStore, *, overwrite: bool) -> None:
    """Refuse a place where something is that may not be replaced.

    Raises
    ------
    OutputExists, NotFound, StorageError
        As `publish_remote`.
    """
    keys = sync(_first_keys(store))
    if not keys:
        return
    begun = sync(_token(store)) is not None
    root = any(sync(store.exists(key)) for key in ROOTS)
    if not (begun or root):
        raise OutputExists(
            f"{store} contains objects ({keys[0]}) and is not a Zarr store. Only Zarr stores are ever "
            "overwritten. Give another name, or remove the objects yourself."
        )
    if not overwrite:
        what = "exists" if root else "contains the output of a run that is unfinished or still writing"
        raise OutputExists(f"{store} {what} and is not overwritten. Use --force (overwrite=True) or another name.")


async def _begin(store: RemoteStore, token: str, *, overwrite: bool) -> None:
    record = json.dumps({"token": token, "begun": datetime.now(UTC).isoformat(timespec="seconds")}).encode()
    value = default_buffer_prototype().buffer.from_bytes(record)
    await (store.set(MARKER, value) if overwrite else store.set_if_not_exists(MARKER, value))
    if await _token(store) != token:
        raise OutputExists(f"another run is writing to {store}. Use another name.")
    for root in ROOTS:  # first, so that nobody opens what is being deleted
        await store.delete(root)
    await _delete_all(store)


async def _clean(store: RemoteStore, token: str) -> None:
    """Delete what was written; what other threads were writing when they were interrupted comes late."""
    if await _token(store) != token:
        return
    for _ in range(2):
        await _delete_all(store)
    await store.delete(MARKER)


async def _delete_all(store: RemoteStore) -> None:
    for key in [key async for key in store.list() if key != MARKER]:
        await store.delete(key)


async def _first_keys(store: RemoteStore) -> list[str]:
    return [name async for name in store.list_dir("")]


async def _marker(store: RemoteStore) -> dict[str, Any] | None:
    stored = await store.get(MARKER, default_buffer_prototype())
    if stored is None:
        return None
    try:
        record = json.loads(stored.to_bytes())
    except (ValueError, RecursionError):
        record = None
    return record if isinstance(record, dict) else {}


async def _token(store: RemoteStore) -> Any:
    record = await _marker(store)
    return None if record is None else record.get("token", "")


def _is_metadata(key: str) -> bool:
    return key.rpartition("/")[2] == METADATA


def absent(store: RemoteStore, wanted: str) -> NotFound:
    """The error for a reader that found no Zarr metadata at an address, although the service answers.

    Raises
    ------
    NotFound, StorageError
        If the service, asked again, says so itself.
    """
    began = None if store.address.scheme in ("http", "https") else sync(_marker(store))
    if began is not None:
        return NotFound(
            f"a run began to write to {store} at {began.get('begun')} and has not finished. Wait until it ends, or run "
            f"it again with --force. Give {wanted}."
        )
    return NotFound(f"{_explain_absence(store)}. Give {wanted}.")


def _explain_absence(store: RemoteStore) -> str:
    if store.address.scheme in ("http", "https"):
        return f"{store} is not a Zarr array or group"
    keys = sync(_first_keys(store))
    if keys:
        return f"{store} is not a Zarr array or group: it contains objects ({keys[0]}), but no Zarr metadata"
    return f"there is nothing at {store}: the bucket exists, but contains no objects below that name"
