"""One fit in a process of its own, whose memory its parent watches: ``python -m benchmarks.scale_fit JSON``.

The JSON has ``path``, ``out`` (where the encoder goes, as .npz), ``parameters`` of ``SparseEncoder``, ``n_workers`` (0
for threads of this process) and ``memory`` (bytes a process may use). With ``as_command``, freed arrays return to the
system at once, as in a command.
"""

import json
import sys
import time
from contextlib import nullcontext
from typing import Any

import numpy as np

from spae_dask import SparseEncoder
from spae_dask.clusters.local import local_cluster
from spae_dask.machine import return_freed_arrays
from spae_dask.passes.events import Event, PassEnded


def main(given: dict[str, Any]) -> dict[str, Any]:
    """Fit, save the encoder, and say what it took and what was planned."""
    passes: list[float] = []

    def note(event: Event) -> None:
        if isinstance(event, PassEnded):
            passes.append(event.seconds)

    if given.get("as_command"):
        return_freed_arrays()
    n_workers, memory = given["n_workers"], given["memory"]
    with local_cluster(n_workers, memory) if n_workers else nullcontext():
        encoder = SparseEncoder(**given["parameters"], memory_limit=memory, progress=note)
        began = time.perf_counter()
        encoder.fit(given["path"])
        seconds = time.perf_counter() - began
    np.savez(given["out"], H=encoder.components_.T, G=encoder.decoder_, mean=encoder.mean_)
    return {
        "seconds": seconds,
        "pass_seconds": passes,
        "certificate": encoder.certificate_.as_dict(),
        "plan": encoder.plan_.as_dict(),
    }


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
