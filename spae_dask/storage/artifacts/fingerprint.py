"""A short name for the data behind a result: their metadata and a sample of their content."""

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from spae_dask.blocks import LazyRowBlocks, RowBlocks, column_groups
from spae_dask.passes.orientation import by_groups

SAMPLE_ROWS = 64

WHOLE_NBYTES = 64 << 20
"""Files of up to so many bytes in all are known by their content, larger ones by name, size and time of change."""


def fingerprint(source: RowBlocks) -> str:
    """SHA-256 over shape, type, row blocks and the first rows of the first, middle and last block.

    Where chunks are too tall for row blocks, it is over blocks of some columns, as a pass reads them.

    Two matrices that differ only elsewhere share it: it tells whether a result belongs to these data, not whether a bit
    has rotted. Blocks of a task graph are not computed for it; their metadata alone count.
    """
    n_blocks = len(source.bounds) - 1
    digest = hashlib.sha256(repr((source.shape, source.dtype.str, n_blocks, source.bounds[1])).encode())
    if not isinstance(source, LazyRowBlocks):
        blocks = source if column_groups(source) is None else by_groups(source)
        n_blocks = len(blocks.bounds) - 1
        for number in sorted({0, n_blocks // 2, n_blocks - 1}):
            rows: Any = blocks.read(number)[:SAMPLE_ROWS]
            dense = rows.toarray() if sp.issparse(rows) else rows
            digest.update(np.ascontiguousarray(dense).tobytes())
    return digest.hexdigest()


def path_fingerprint(path: str | Path) -> str:
    """SHA-256 of a file or a directory: of all bytes of all files if they are few, else of sizes and times of change.

    Notices any change of small ones, wherever it is, and of large ones all that touches a file.

    Raises
    ------
    OSError
        If there is nothing, or it cannot be read.
    """
    root = Path(path)
    found = [(str(each.relative_to(root)), each, each.stat()) for each in _files(root)]
    whole = sum(stat.st_size for _, _, stat in found) <= WHOLE_NBYTES
    digest = hashlib.sha256(b"content" if whole else b"times")
    for name, each, stat in found:
        told = name, stat.st_size, 0 if whole else stat.st_mtime_ns
        digest.update(repr(told).encode())
        if whole:
            digest.update(each.read_bytes())
    return digest.hexdigest()


def _files(root: Path) -> Iterator[Path]:
    """All files below a directory in a fixed order; the root itself if it is a file."""
    if not root.is_dir():
        yield root
        return
    for folder, folders, names in os.walk(root):
        folders.sort()
        yield from (Path(folder, name) for name in sorted(names))
