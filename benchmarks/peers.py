"""PCA by others, and the plain Gram matrix, on a store four times the memory of the dask worker they may use.

Each in a child process of its own; whoever runs out of memory or time is reported so. A child is
``python -m benchmarks.peers SIDE PATH MEMORY``.

- ``sparse fit``: ``SparseEncoder.fit`` on the worker, all d features centered in float64, and exact.
- ``fast fit``: the same with ``precision="fast"``: products in float32, as those of the plain product are.
- ``svd_compressed``: ``da.linalg.svd_compressed`` of the centered array, two power iterations; with ``compute=True``,
  which dask advises for arrays larger than memory: it then reads them again at each use.
- ``IncrementalPCA``: scikit-learn's, over the store's chunks, in one process without a worker.
- ``x.T @ x``: of the dask array as it is, in float32.
"""

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import dask.array as da
import numpy as np
import zarr
from distributed import Client, LocalCluster
from sklearn.decomposition import IncrementalPCA

from benchmarks.problems import THREADS, SensorCounts
from benchmarks.process_tree import Watched, watch
from benchmarks.store_fit import fit
from benchmarks.table import OnceLine

N_COMPONENTS = 5

MEMORY_SHARE = 4
"""The store is this many times as large as the worker's memory."""

PATIENCE = 20
"""A peer may take this many times as long as ours, and a minute more, before it is ended."""

FASTER_THAN_PCA, NO_SLOWER = 5.0, 1.0
"""Targets: the fastest PCA that finishes over ours, and the plain product over ours."""


def sparse_fit(path: Path, precision: str = "exact") -> float:
    """Variance PCA keeps, known beside what the sparse encoder keeps."""
    certificate = fit(path, "gram", precision=precision).certificate_
    return certificate.total - certificate.pca_loss


def fast_fit(path: Path) -> float:
    """The same by products in float32, as the plain product is."""
    return sparse_fit(path, "fast")


def svd_compressed(path: Path) -> float:
    """Variance along its directions, as it says."""
    x = da.from_zarr(str(path))
    singular = da.linalg.svd_compressed(x - x.mean(axis=0), N_COMPONENTS, n_power_iter=2, compute=True, seed=0)[1]
    return float((singular.compute().astype(np.float64) ** 2).sum())


def incremental_pca(path: Path) -> float:
    """Variance along its directions, as it says."""
    x = zarr.open_array(path, mode="r")
    model, step = IncrementalPCA(N_COMPONENTS), x.chunks[0]
    for start in range(0, x.shape[0], step):
        model.partial_fit(x[start : start + step])
    return float((model.singular_values_**2).sum())


def product(path: Path) -> float:
    """Sum of squares of all entries."""
    x = da.from_zarr(str(path))
    return float(np.trace((x.T @ x).compute()))


SIDES: dict[str, Callable[[Path], float]] = {
    "sparse fit": sparse_fit,
    "fast fit": fast_fit,
    "svd_compressed": svd_compressed,
    "IncrementalPCA": incremental_pca,
    "x.T @ x": product,
}

PCA = ("svd_compressed", "IncrementalPCA")


@contextmanager
def worker(memory: int) -> Iterator[None]:
    """One process of as many threads as there are cores, and so many bytes; the active client is its own."""
    with (
        TemporaryDirectory(prefix="spae-peers-") as spilled,
        LocalCluster(
            n_workers=1,
            threads_per_worker=THREADS,
            memory_limit=memory,
            dashboard_address=":0",
            local_directory=spilled,
        ) as cluster,
        Client(cluster),
    ):
        yield


@dataclass(frozen=True)
class Peers:
    """Everybody once.

    Parameters
    ----------
    problem : SensorCounts
        The store.
    memory : int, optional
        Bytes of the worker; a quarter of the store if not given.
    """

    problem: SensorCounts
    memory: int | None = None

    def run(self, scratch: Path, repetitions: int) -> list[OnceLine]:  # noqa: ARG002 - each takes long, or dies
        """Ours first, then the others, one after another."""
        path, memory = self.problem.make(scratch), self.memory or self.problem.nbytes // MEMORY_SHARE
        ours = side("sparse fit", path, memory)
        if ours.answer is None:
            raise RuntimeError(f"the sparse fit failed: {ours.failure}")
        seconds = ours.answer["seconds"]
        others = {name: side(name, path, memory, 60 + PATIENCE * seconds) for name in SIDES if name != "sparse fit"}
        done = {name: one.answer["seconds"] for name, one in others.items() if one.answer is not None}
        fastest = min((name for name in PCA if name in done), key=lambda name: done[name], default=None)
        at_least = {"x.T @ x": NO_SLOWER, fastest: FASTER_THAN_PCA}
        case = f"d = {self.problem.n_features}, {self.problem.nbytes >> 20:,} MiB, worker of {memory >> 20} MiB"
        return [
            OnceLine(
                f"{name} / sparse fit",
                f"{case}; peak {_peak(one)} against {_peak(ours)}",
                seconds,
                done.get(name),
                one.failure,
                at_least.get(name),
            )
            for name, one in others.items()
        ]


def side(name: str, path: Path, memory: int, timeout: float | None = None) -> Watched:
    """One of them in a process of its own."""
    return watch("benchmarks.peers", [name, str(path), str(memory)], timeout)


def _peak(watched: Watched) -> str:
    return f"{max(watched.caller_nbytes, watched.worker_nbytes) >> 20} MiB"


def _child(name: str, path: Path, memory: int) -> None:
    with nullcontext() if name == "IncrementalPCA" else worker(memory):
        began = time.perf_counter()
        loss = SIDES[name](path)
        print(json.dumps({"seconds": time.perf_counter() - began, "loss": loss}))


if __name__ == "__main__":
    _child(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
