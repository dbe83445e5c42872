"""Cost of scheduling a pass: thousands of tiny spans on many workers, where dask and the engine take all the time.

Run from the repository's root::

    python -m benchmarks.scheduling [--spans N] [--workers W ...] [--repetitions R] [--other CHECKOUT] [--markdown]
    python -m benchmarks.scheduling --beyond [--workers W ...] [--markdown]

Scheduler, client and workers of one thread each share one new process per turn. The pass is compared with the same
number of tasks that do nothing, and with the pass of another checkout of this repository, if one is given. Memory is
the growth of that process during the pass, mostly of the scheduler. ``--beyond`` asks about data that this machine
cannot hold: a span is then a wait for as long as reading it would take, but at most `LONGEST` seconds. The worker
threads that idle in the last round are inherent to the number of spans; what is lost beyond that is the scheduler's.
``--markdown`` writes the tables to `scheduling.md`.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import psutil

HERE = Path(__file__).resolve()
TARGET = HERE.with_suffix(".md")
BEYOND = HERE.with_name("beyond.md")
BEYOND_HEAD = (
    "| data | workers | spans | a span | its wait | the pass | busy | scheduler and client | memory |\n"
    "|---|---|---|---|---|---|---|---|---|"
)
SIZES = {"10 TB": 10**13, "100 TB": 10**14, "1 PB": 10**15}
RATE = 1e9
"""Bytes a second that a worker thread reads and sums."""

LONGEST = 4.0
"""Seconds that a span waits at most, so that a petabyte takes minutes; longer spans make scheduling cheaper."""

HEAD = (
    "| workers | spans | pass / tasks that do nothing | memory a span | pass / other checkout |\n|---|---|---|---|---|"
)


@dataclass(frozen=True, eq=False)
class Rows:
    """A matrix of ones with one row a block."""

    n_rows: int
    n_columns: int = 4
    wait: float = 0.0
    read_nbytes: int = 0
    in_process: bool = False

    @property
    def dtype(self) -> Any:
        return np.dtype("float64")

    @property
    def shape(self) -> tuple[int, int]:
        return self.n_rows, self.n_columns

    @property
    def bounds(self) -> range:
        return range(self.n_rows + 1)

    def read(self, _: int) -> Any:
        time.sleep(self.wait)
        return np.ones((1, self.n_columns))

    def describe(self) -> str:
        return "ones"


class Peak:
    """Growth of this process's memory while the block runs."""

    def __enter__(self) -> "Peak":
        self.process, self.stopped = psutil.Process(), threading.Event()
        self.before = self.nbytes = self.process.memory_info().rss
        self.thread = threading.Thread(target=self._sample)
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stopped.set()
        self.thread.join()
        self.nbytes -= self.before

    def _sample(self) -> None:
        while not self.stopped.wait(0.02):
            self.nbytes = max(self.nbytes, self.process.memory_info().rss)


def turn(n_spans: int, n_workers: int, wait: float = 0.0) -> dict[str, float]:
    """Seconds of the pass and of tasks that do nothing, and the bytes by which the process grew in the pass."""
    from distributed import Client, LocalCluster, as_completed

    from spae_dask.engine.runner import DaskRunner
    from spae_dask.passes.accumulators import Gram
    from spae_dask.passes.options import pass_options

    # a thousand workers share the cores with the scheduler, which answers late
    small = pass_options(min_span_nbytes=1, states_per_span=0, max_spans=1 << 20, scheduler_seconds=600)
    options = {"n_workers": n_workers, "threads_per_worker": 1, "processes": False, "memory_limit": 0}
    with small, LocalCluster(**options, dashboard_address=":0") as cluster, Client(cluster) as client:
        client.wait_for_workers(n_workers, timeout=600)

        def run(n: int, wait: float = 0.0) -> None:
            assert DaskRunner(Rows(n, wait=wait), client, n_workers).run_pass(Gram(4)).count == n

        run(64)
        began = time.perf_counter()
        for future in as_completed(client.map(_nothing, range(n_spans), pure=False)):
            future.release()
        bare = time.perf_counter() - began
        began = time.perf_counter()
        processor = time.process_time()
        with Peak() as peak:
            run(n_spans, wait)
        processor = time.process_time() - processor
        print(
            json.dumps(
                {"pass": time.perf_counter() - began, "bare": bare, "nbytes": peak.nbytes, "processor": processor}
            ),
            flush=True,
        )
        os._exit(0)  # closing a thousand workers takes longer than all before


def _nothing(i: int) -> int:
    return i


def turn_in(checkout: Path, n_spans: int, n_workers: int, wait: float = 0.0) -> dict[str, float]:
    """A turn in a new process that imports the package of ``checkout``."""
    environment = {**os.environ, "PYTHONPATH": str(checkout), "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, str(HERE), "--turn", str(n_spans), str(n_workers), str(wait)]
    process = subprocess.run(command, env=environment, cwd=checkout, stdout=subprocess.PIPE, check=True)
    found: dict[str, float] = json.loads(process.stdout.splitlines()[-1])
    return found


def row(n_spans: int, n_workers: int, repetitions: int, other: Path | None) -> str:
    """A row of the table; both checkouts take turns."""
    ours, ratios = [], []
    for _ in range(repetitions):
        ours.append(turn_in(HERE.parents[1], n_spans, n_workers))
        if other is not None:
            ratios.append(ours[-1]["pass"] / turn_in(other, n_spans, n_workers)["pass"])
    over_bare = statistics.median(each["pass"] / each["bare"] for each in ours)
    kib = statistics.median(each["nbytes"] for each in ours) / n_spans / 1024
    over_other = f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})" if ratios else ""
    return f"| {n_workers:,} | {n_spans:,} | {over_bare:.2f} | {kib:.1f} KiB | {over_other} |"


def beyond(name: str, nbytes: int, n_workers: int) -> str:
    """A row of the table of data that this machine cannot hold."""
    from spae_dask.blocks import uniform_bounds
    from spae_dask.passes.spans import cut_spans

    n_spans = len(cut_spans(uniform_bounds(nbytes // 10**6, 64), 10**6, 8 * 512 * 512))
    a_span = nbytes / n_spans
    wait = min(a_span / RATE, LONGEST)
    found = turn_in(HERE.parents[1], n_spans, n_workers, wait)
    busy = n_spans * wait / n_workers / found["pass"]
    return (
        f"| {name} | {n_workers:,} | {n_spans:,} | {a_span / 1e9:.1f} GB | {wait:.1f} s | {found['pass']:.0f} s | "
        f"{busy:.0%} | {1e3 * found['processor'] / n_spans:.1f} ms a span | {found['nbytes'] / 2**20:,.0f} MiB |"
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--spans", type=int, default=4096)
    parser.add_argument("--workers", type=int, nargs="+", default=[64, 1000])
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--other", type=Path, help="checkout to compare with")
    parser.add_argument("--markdown", action="store_true", help=f"write the table to {TARGET.name}")
    parser.add_argument("--beyond", action="store_true", help="data that this machine cannot hold")
    parser.add_argument("--turn", type=float, nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.turn:
        turn(int(given.turn[0]), int(given.turn[1]), given.turn[2])
    if given.beyond:
        made = [BEYOND_HEAD]
        for workers in given.workers:
            for name, nbytes in SIZES.items():
                made.append(beyond(name, nbytes, workers))
                print(made[-1], flush=True)
        if given.markdown:
            BEYOND.write_text(
                "Passes over data in chunks of 64 MB that this machine cannot hold.\n\n" + "\n".join(made) + "\n"
            )
        return
    other = None if given.other is None else given.other.resolve()
    rows = [HEAD, *(row(given.spans, workers, given.repetitions, other) for workers in given.workers)]
    print("\n".join(rows))
    if given.markdown:
        TARGET.write_text(f"# Scheduling\n\n{(__doc__ or '').splitlines()[0]}\n\n" + "\n".join(rows) + "\n")


if __name__ == "__main__":
    main()
