"""A fit in a process of its own, with a checkpoint, that says which blocks it reads: to be killed, and run again."""

import contextlib
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import zarr
from distributed import get_worker

from benchmarks.faulty import SlowBlocks
from spae_dask import SparseEncoder
from spae_dask.clusters.local import local_cluster
from spae_dask.passes.options import pass_options

WORKER_NBYTES = 1 << 30

N_WORKERS = 2


@dataclass(frozen=True, eq=False)
class ToldBlocks(SlowBlocks):
    """Blocks that leave a line in a file each time a worker reads one (the others are samples for the checkpoint)."""

    told: str = ""

    def read(self, i: int) -> Any:
        """Block ``i``."""
        with contextlib.suppress(ValueError):  # not in a worker
            get_worker()
            with open(self.told, "ab", buffering=0) as file:
                file.write(b"%d\n" % i)  # one write, so that lines of several processes stay whole
        return super().read(i)


def fit(store: Path, checkpoint: Path, told: Path, output: Path) -> None:
    """Fit on two worker processes, a span a block, and write the encoder's bytes when all is done."""
    source = ToldBlocks(zarr.open_array(store, mode="r"), target_nbytes=1, told=str(told))
    with pass_options(min_span_nbytes=1, states_per_span=0), local_cluster(N_WORKERS, WORKER_NBYTES):
        encoder = SparseEncoder(2, n_nonzero=4, checkpoint=str(checkpoint)).fit(source)
    part = output.with_suffix(".part")
    part.write_bytes(encoder.components_.tobytes() + encoder.decoder_.tobytes())
    os.replace(part, output)


if __name__ == "__main__":
    fit(*map(Path, sys.argv[1:]))
