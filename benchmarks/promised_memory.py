"""Promised and measured memory of fits and evaluations: all strategies, tall and wide data, three kinds of process.

The peaks are those of the tests, in processes of their own: a command, a user's Python, and two local workers.
"""

import os
from collections.abc import Iterator
from pathlib import Path

from benchmarks.rows import Row
from spae_dask.clusters.local import local_cluster
from tests.engine.resident import PeakAboveIdle
from tests.integration.test_promises import MB, STRATEGIES, fitted, measured, stores_in


def memory(runs: int, scratch: Path) -> Iterator[Row]:
    """Peaks above the size of an idle process, beside what the plan promised."""
    stores = stores_in(scratch)
    for shape in ("tall", "wide"):
        for strategy in (*STRATEGIES, "rows"):
            name = "evaluate" if strategy == "rows" else strategy
            for place, ours in (("a command", True), ("a user's Python", False)):
                for name in ("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_"):
                    os.environ.pop(name, None)  # local workers of this process have set them
                peaks = [measured(strategy, stores, shape, ours=ours) for _ in range(runs)]
                yield _row(f"{name}, {shape}, {place}", [(int(peak), int(promised)) for peak, promised, _ in peaks])
        with local_cluster(2, 2 << 30) as client:
            for strategy in STRATEGIES:
                fitted(strategy, stores[shape])  # so that each worker has loaded all libraries
                found = []
                for _ in range(runs):
                    with PeakAboveIdle(client) as peak:
                        plan = fitted(strategy, stores[shape]).plan_
                    found.append((peak.nbytes, plan.worker_nbytes))
                yield _row(f"{strategy}, {shape}, two local workers", found)


def _row(case: str, found: list[tuple[int, int]]) -> Row:
    broken = sum(peak > promised for peak, promised in found)
    peak, promised = max(found)
    return Row("memory", case, len(found), broken, f"{peak / MB:.0f} MB of {promised / MB:.0f} MB promised")
