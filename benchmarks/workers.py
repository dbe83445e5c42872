"""One worker process against two, where arithmetic is what takes the time.

Each worker is kept on a core of its own where the system allows it. Left alone, the threads of a single worker that
read ahead would use the second core, and the comparison would be of two cores with two.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import process_time

from distributed import Client
from distributed.system import MEMORY_LIMIT

from benchmarks.problems import SensorCounts
from benchmarks.table import Line
from benchmarks.timing import Timed, take_turns, timed
from spae_dask import open_matrix
from spae_dask.clusters.local import local_cluster
from spae_dask.engine.runner import DaskRunner
from spae_dask.passes.accumulators import CenteredTriangle, Triangular


def triangle_on(client: Client, path: Path) -> CenteredTriangle:
    """R factor of the store on single-threaded workers."""
    source = open_matrix(path)
    return DaskRunner(source, client, 1).run_pass(Triangular(source.shape[1]))


def workers_cpu(client: Client) -> float:
    """Processor seconds of all workers so far."""
    return float(sum(client.run(process_time).values()))


def keep_on_one_core_each(client: Client) -> None:
    """Worker i runs on core i only."""
    if not hasattr(os, "sched_setaffinity"):
        return
    cores = sorted(os.sched_getaffinity(0))
    for i, address in enumerate(client.scheduler_info(n_workers=-1)["workers"]):
        client.run(_keep_on, cores[i % len(cores)], workers=[address])


def _keep_on(core: int) -> None:
    for thread in os.listdir("/proc/self/task"):  # new threads inherit it
        os.sched_setaffinity(int(thread), {core})


@dataclass(frozen=True)
class TwoWorkers:
    """The same pass on both clusters, in turns; the idle one waits.

    Parameters
    ----------
    problem : SensorCounts
        The store.
    at_least : float
        Target for the speed-up.
    """

    problem: SensorCounts
    at_least: float = 1.8

    def run(self, scratch: Path, repetitions: int) -> list[Line]:
        """Start two clusters and take turns."""
        path = self.problem.make(scratch)
        with local_cluster(1, MEMORY_LIMIT // 3) as one, local_cluster(2, MEMORY_LIMIT // 3) as two:
            keep_on_one_core_each(one)
            keep_on_one_core_each(two)
            return self.compare(path, one, two, repetitions)

    def compare(self, path: Path, one: Client, two: Client, repetitions: int) -> list[Line]:
        """Take turns."""

        def side(client: Client) -> Callable[[], Timed]:
            return lambda: timed(lambda: triangle_on(client, path), lambda: workers_cpu(client))

        turns = take_turns({"one": side(one), "two": side(two)}, repetitions)
        case = f"tsqr, d = {self.problem.n_features}, {self.problem.codec}, {self.problem.nbytes >> 20} MiB"
        return [Line("1 worker process / 2", case, turns["two"], turns["one"], at_least=self.at_least)]
