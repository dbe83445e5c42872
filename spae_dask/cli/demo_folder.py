"""The folder of a demo: what it writes there, and what it may delete."""

import shutil
from pathlib import Path

from spae_dask.errors import OutputExists, StorageError
from spae_dask.storage.writing.publish import ZARR_MARKERS

MARKER = ".spae-demo"
"""File that marks a folder as a demo's own."""

FILES = ("image.npy", "training.npy", "held-out.npy", "report.html")
STORES = ("training.zarr", "held-out.zarr", "encoder.zarr", "codes.zarr")
"""All that a demo writes, and all that it ever deletes."""


def prepare(folder: Path, *, force: bool) -> None:
    """Have an empty place for everything: a new folder, an empty one, or an earlier demo's without the demo's files.

    Raises
    ------
    OutputExists
        If the folder holds other files and ``force`` is False, or is not a folder; or if something else bears a name of
        the demo's.
    StorageError
        If it cannot be written to.
    """
    if folder.exists() and not folder.is_dir():
        raise OutputExists(f"{folder} is a file. Give --output the name of a folder.")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()) and not (folder / MARKER).is_file() and not force:
            raise OutputExists(
                f"{folder} holds files that no demo wrote, and nothing was written to it. Give another folder with "
                "--output, or --force to write beside them."
            )
        for name in (*FILES, *STORES):
            _remove(folder / name)
        (folder / MARKER).write_text("`spae demo` writes here, and replaces what it wrote before.\n", encoding="utf-8")
    except OSError as error:
        if isinstance(error, OutputExists):
            raise
        raise StorageError(
            f"{folder} cannot be written to: {error.strerror or error}. Give another --output."
        ) from error


def _remove(path: Path) -> None:
    if path.is_symlink() or not path.is_dir():
        path.unlink(missing_ok=True)
    elif any((path / marker).is_file() for marker in ZARR_MARKERS):
        shutil.rmtree(path)
    else:
        raise OutputExists(f"{path} is a folder that no demo made. Move it away, or give another --output.")
