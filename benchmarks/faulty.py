"""Matrices whose store fails in a given way, and a fit of them; importable by worker processes."""

import asyncio
import errno
import time
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import zarr
from zarr.storage import LocalStore

from spae_dask import SparseEncoder
from spae_dask.errors import MissingChunksWarning, SpaeError
from spae_dask.storage.sources.zarr_blocks import ZarrBlocks

N_ROWS, N_COLUMNS, CHUNK_ROWS = 6_000, 24, 250


def make_store(path: Path) -> None:
    """A matrix in 24 chunks."""
    X = np.random.default_rng(0).standard_normal((N_ROWS, N_COLUMNS))
    zarr.create_array(path, data=X, chunks=(CHUNK_ROWS, N_COLUMNS))


def fitted(source: Any) -> bytes:
    """The bytes of the encoder of ``source``."""
    encoder = SparseEncoder(2, n_nonzero=4).fit(source)
    return bytes(encoder.components_.tobytes() + encoder.decoder_.tobytes())


@dataclass(frozen=True, eq=False)
class SlowBlocks(ZarrBlocks):
    """Blocks that take a while, so that there is time to kill who reads them."""

    seconds: float = 0.05

    def read(self, i: int) -> Any:
        """Block ``i``, late."""
        time.sleep(self.seconds)
        return super().read(i)


class FaultyStore(LocalStore):
    """A local store whose chunks fail as ``fault`` says: it is given the key and how often that was asked for."""

    fault: Callable[[str, int], None]
    delay = 0.0

    async def get(self, key: str, *args: Any, **options: Any) -> Any:
        """The object, or the fault."""
        if "c/" in key:
            self.asked[key] += 1
            await asyncio.sleep(self.delay)
            self.fault(key, self.asked[key])
        return await super().get(key, *args, **options)


def faulty(path: Path, fault: Callable[[str, int], None], delay: float = 0.0) -> ZarrBlocks:
    """The matrix at ``path`` in a store that fails."""
    store = FaultyStore(path, read_only=True)
    store.fault, store.delay, store.asked = fault, delay, Counter()  # type: ignore[attr-defined,method-assign]
    return ZarrBlocks(zarr.open_array(store, mode="r"), target_nbytes=1)


def throttled_once(key: str, time_asked: int) -> None:
    """Refuse a fifth of the chunks the first time, as an object store does that has too much to do."""
    if time_asked == 1 and int(key.split("/")[-2]) % 5 == 0:
        raise OSError(errno.EBUSY, "SlowDown")


def forbidden(key: str, time_asked: int) -> None:  # noqa: ARG001
    """Refuse one chunk for good."""
    if key.endswith("c/7/0"):
        raise PermissionError(errno.EACCES, "AccessDenied")


def throttled_for_ever(key: str, time_asked: int) -> None:  # noqa: ARG001
    """Refuse one chunk for ever."""
    if key.endswith("c/7/0"):
        raise OSError(errno.EBUSY, "SlowDown")


def no_fault(key: str, time_asked: int) -> None:
    """Fail nothing."""


def outcome(fit: Callable[[], bytes], expected: bytes) -> str:
    """``same bits``, or what it said."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            found = fit()
        except SpaeError as error:
            return f"{type(error).__name__}: {error}"
    if any(issubclass(each.category, MissingChunksWarning) for each in told):
        return "MissingChunksWarning"
    return "same bits" if found == expected else "OTHER BITS"
