"""How near a plan's predicted time comes to the time a fit takes.

Run from the repository's root::

    python -m benchmarks.plan_accuracy [--size tiny|quick] [--markdown]

Each case makes a store, plans a fit of it (a second of calibration), fits it, and removes the store. The fit is on the
threads of this process; a small one before it loads the libraries. Fits run in the order of the table, once each, so a
machine that is busy with other things shows in the ratios.
"""

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import scipy.sparse as sp
import zarr

from benchmarks.machine import describe_machine
from benchmarks.problems import SensorCounts
from benchmarks.table import BEGIN, END
from benchmarks.timing import PassClock
from spae_dask import SparseEncoder, plan

MIB = 1 << 20

HEAD = "| case | read | predicted: passes | measured | finish | measured | in all | measured | ratio |"
RULE = "|" + "---|" * 9

AT_MOST = 2.0
"""Promised: predicted over measured is between a half and this."""

TARGET = Path(__file__).with_name("plan_accuracy.md")


@dataclass(frozen=True)
class DenseCase:
    """A store of sensor counts.

    Parameters
    ----------
    n_features, nbytes : int
        d, and decoded bytes.
    dtype : str
        Of the entries; float64 ones are not whole numbers any more.
    method, folds : str, int or None
        As for ``SparseEncoder``.
    """

    n_features: int
    nbytes: int
    dtype: str = "float32"
    method: str = "batch"
    folds: int | None = None

    @property
    def name(self) -> str:
        """For the table."""
        folds = "" if self.folds is None else f", {self.folds} folds"
        return f"zstd {self.dtype}, d = {self.n_features:,}, {self.method}{folds}"

    def make(self, scratch: Path) -> Path:
        """Write the store below ``scratch``."""
        problem = SensorCounts(self.n_features, self.nbytes // (np.dtype(self.dtype).itemsize // 4))
        if self.dtype == "float32":
            return problem.make(scratch)
        path = scratch / f"wide-{self.n_features}.zarr"
        chunks = (problem.chunk_rows, self.n_features)
        array = zarr.create_array(path, shape=problem.shape, chunks=chunks, dtype=self.dtype)
        for i in range(problem.n_chunks):
            array[i * chunks[0] : (i + 1) * chunks[0]] = np.sqrt(problem.chunk(i).astype(self.dtype))
        return path


@dataclass(frozen=True)
class SparseCase:
    """A CSR group of counts, as of genes in cells.

    Parameters
    ----------
    n_samples, n_features : int
        n and d.
    density : float
        Share of the entries that are stored.
    method : str
        As for ``SparseEncoder``.
    """

    n_samples: int
    n_features: int
    density: float = 0.05
    method: str = "batch"
    folds: ClassVar[int | None] = None

    @property
    def name(self) -> str:
        """For the table."""
        return f"CSR float32, d = {self.n_features:,}, {self.density:.0%} stored, {self.method}"

    def make(self, scratch: Path) -> Path:
        """Write the group below ``scratch``."""
        rng = np.random.default_rng(0)
        n_stored = rng.binomial(self.n_features, self.density, size=self.n_samples)
        indptr = np.concatenate([[0], np.cumsum(n_stored)])
        columns = np.concatenate([rng.choice(self.n_features, size=m, replace=False, shuffle=False) for m in n_stored])
        values = (1 + rng.poisson(1.0, size=columns.size)).astype(np.float32)
        counts = sp.csr_array((values, columns, indptr), shape=(self.n_samples, self.n_features))
        counts.sort_indices()
        path = scratch / "counts.zarr"
        group = zarr.open_group(path, mode="w")
        group.attrs.update({"encoding-type": "csr_matrix", "encoding-version": "0.1.0", "shape": list(counts.shape)})
        for name in ("data", "indices", "indptr"):
            entries = getattr(counts, name)
            group.create_array(name, data=entries, chunks=(min(entries.size, 1 << 18),))
        return path


Case = DenseCase | SparseCase


def cases(size: str) -> list[Case]:
    """Cases of a size."""
    if size == "tiny":  # shows that everything runs; the times mean nothing
        return [DenseCase(64, 16 * MIB), DenseCase(64, 32 * MIB, "float64"), SparseCase(200, 50)]
    return [
        DenseCase(128, 512 * MIB),
        DenseCase(512, 512 * MIB),
        DenseCase(512, 256 * MIB, method="polished"),
        DenseCase(512, 256 * MIB, method="iterative"),
        DenseCase(256, 256 * MIB, method="polished", folds=5),
        DenseCase(64, 64 * MIB, method="polished", folds=3),
        DenseCase(256, 256 * MIB, "float64"),
        DenseCase(8000, 512 * MIB),
        DenseCase(8000, 256 * MIB, method="polished"),
        SparseCase(200_000, 2000),
    ]


@dataclass(frozen=True)
class Found:
    """Seconds, predicted and measured.

    Attributes
    ----------
    case : str
        What was fitted, and by which strategy.
    nbytes : int
        Decoded bytes read.
    predicted, measured : tuple of float
        Of the passes, and of all else.
    """

    case: str
    nbytes: int
    predicted: tuple[float, float]
    measured: tuple[float, float]

    @property
    def ratio(self) -> float:
        """Predicted over measured, in all."""
        return sum(self.predicted) / sum(self.measured)

    def row(self) -> str:
        """A row of the table."""
        pairs = zip((*self.predicted, sum(self.predicted)), (*self.measured, sum(self.measured)), strict=True)
        seconds = [f"{each:.2f} s" for pair in pairs for each in pair]
        met = "" if 1 / AT_MOST <= self.ratio <= AT_MOST else ", missed"
        return f"| {' | '.join([self.case, f'{self.nbytes / MIB:,.0f} MiB', *seconds, f'{self.ratio:.2f}{met}'])} |"


def run(case: Case, scratch: Path, n_components: int = 5, n_nonzero: int = 10) -> Found:
    """Predict and measure one fit; the store is removed."""
    path = case.make(scratch)
    try:
        planned = plan(path, n_components, n_nonzero=n_nonzero, method=case.method, folds=case.folds)
        clock, began = PassClock(), time.perf_counter()
        options = {"method": case.method, "folds": case.folds, "progress": clock}
        SparseEncoder(n_components, n_nonzero=n_nonzero, **options).fit(path)
        whole = time.perf_counter() - began
    finally:
        shutil.rmtree(path)
    sweeps = clock.seconds.wall
    return Found(
        f"{case.name}: {planned.strategy}",
        planned.bytes_read,
        (planned.seconds - planned.finish_seconds, planned.finish_seconds),
        (sweeps, whole - sweeps),
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print; the command line is described at the top."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.plan_accuracy", description=__doc__.split("\n")[0])
    parser.add_argument("--size", choices=("tiny", "quick"), default="quick")
    parser.add_argument("--markdown", action="store_true", help=f"write the table to {TARGET.name}")
    given = parser.parse_args(arguments)
    machine, rows = describe_machine(), []
    print("\n".join(machine), HEAD, RULE, sep="\n", flush=True)
    with tempfile.TemporaryDirectory(prefix="spae-bench-") as scratch:
        run(DenseCase(64, 8 * MIB, method="polished"), Path(scratch))
        for case in cases(given.size):
            rows.append(run(case, Path(scratch)).row())
            print(rows[-1], flush=True)
    if given.markdown:
        TARGET.write_text(page(machine, rows), encoding="utf-8")


def page(machine: Sequence[str], rows: Sequence[str]) -> str:
    """The table with what it says."""
    return "\n".join(
        [
            "# Predicted and measured times",
            "",
            "`python -m benchmarks.plan_accuracy --markdown` wrote this file. Each time that `plan` predicts is",
            "followed by the time of the fit, with k = 5 and r = 10, on the threads of one process. *Finish* is all",
            "work outside the passes: planning, selection, encoding, losses. Ratios are predicted over measured",
            "time. The promise is a factor of two.",
            "",
            BEGIN,
            *(f"- {line}" for line in machine),
            "",
            HEAD,
            RULE,
            *rows,
            END,
            "",
        ]
    )


if __name__ == "__main__":
    main(sys.argv[1:])
