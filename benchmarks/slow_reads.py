"""Jobs whose workers take their time over every block, and say which they read: so that there is time to end them.

A folder on ``PYTHONPATH`` that `write_hook` made has every Python process do so, when ``SLOW_SECONDS`` is set. A matrix
is then read a chunk a block, and swept a block a span. With the file that ``SLOW_DEAF`` names, commands do not hear
SIGTERM, as processes do not that hang in a driver or a file system.
"""

import contextlib
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from distributed import get_worker

from spae_dask.passes.options import pass_options
from spae_dask.storage.sources import zarr_blocks

HOOK = "from benchmarks.slow_reads import slow_down\n\nslow_down()\n"


FOR_GOOD = contextlib.ExitStack()
"""Holds the options of passes that the process keeps until it ends."""


def write_hook(folder: Path) -> None:
    """Make Python, which imports a module of this name when it starts, slow down."""
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(HOOK)


def slow_down() -> None:
    """Do what the environment asks for: SLOW_SECONDS for a block, SLOW_TOLD for a file of what was read."""
    if "SLOW_SECONDS" not in os.environ:
        return
    FOR_GOOD.enter_context(pass_options(min_span_nbytes=1, states_per_span=0))
    zarr_blocks.TARGET_BLOCK_NBYTES = 1
    seconds, told, read = float(os.environ["SLOW_SECONDS"]), os.environ["SLOW_TOLD"], zarr_blocks.ZarrBlocks.read

    def late(self: zarr_blocks.ZarrBlocks, i: int) -> Any:
        with contextlib.suppress(ValueError):  # a command that looks at a few rows
            get_worker()
            with open(told, "ab", buffering=0) as file:
                file.write(f"{self.describe()} {i}\n".encode())  # one write, so that lines stay whole
            time.sleep(seconds)
        return read(self, i)

    zarr_blocks.ZarrBlocks.read = late  # type: ignore[method-assign]
    if "run" in sys.orig_argv and Path(os.environ["SLOW_DEAF"]).exists():
        install = signal.signal
        signal.signal = lambda number, handler: install(  # type: ignore[assignment]
            number, signal.SIG_IGN if number == signal.SIGTERM else handler
        )
