"""Matrices that do not fit: peak memory of every process, time, bytes read, and the loss against plain numpy's.

Run from the repository's root::

    python -m benchmarks.scale [--size tiny|quick|full] [--only CASE] [--scratch DIR] [--markdown]

The stores of the full size take 40 GB of disk at most, one at a time, and are removed one by one. A quick size has a
twentieth of the rows.
"""

import argparse
import json
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.cells import CellCounts
from benchmarks.machine import describe_machine
from benchmarks.plain import exact_loss, read_and_drop
from benchmarks.problems import SensorCounts
from benchmarks.process_tree import Watched, watch
from benchmarks.timing import timed
from spae_dask import open_matrix
from spae_dask.passes.memory import IDLE_NBYTES

HERE = Path(__file__).parent
GB = 10**9
CHUNK = 8 << 20

HEAD = (
    "| case | read | seconds | bare reading | ratio | peak of the caller | of a worker | projected | all together "
    "| allowed | loss | off plain numpy's by |"
)
RULE = "|" + "---|" * 12


@dataclass(frozen=True)
class Case:
    """A fit of k = 5 components of r = 10 nonzeros.

    Parameters
    ----------
    name : str
        For ``--only``.
    problem : SensorCounts or CellCounts
        The store.
    parameters : dict
        Of ``SparseEncoder``, beside k and r.
    n_workers : int
        Worker processes; 0 for threads of the calling process.
    memory : int
        Bytes a process may use.
    """

    name: str
    problem: SensorCounts | CellCounts
    parameters: dict[str, Any] = field(default_factory=dict)
    n_workers: int = 0
    memory: int = 4 << 30

    def run(self, path: Path, scratch: Path, bare: float) -> str:
        """Fit in a child process, check, and describe in a row of the table."""
        out = scratch / f"{self.name}.npz"
        parameters = {"n_components": 5, "n_nonzero": 10} | self.parameters
        given = {"path": str(path), "out": str(out), "parameters": parameters}
        watched = watch(
            "benchmarks.scale_fit", [json.dumps(given | {"n_workers": self.n_workers, "memory": self.memory})]
        )
        if watched.answer is None:
            return self._row(["", "", f"{bare:.1f} s", "", *self._memory(watched, None), "", watched.failure])
        certificate, plan = watched.answer["certificate"], watched.answer["plan"]
        with np.load(out) as encoder:
            plain = exact_loss(path, open_matrix(path).bounds, encoder["H"], encoder["G"], encoder["mean"])
        out.unlink()
        seconds, nbytes = watched.answer["seconds"], plan["passes"][0]["nbytes"]
        read = f"{certificate['bytes_read'] / GB:.3g} GB, {certificate['bytes_read'] / nbytes:.3g} x"
        return self._row(
            [
                read,
                f"{seconds:.1f} s ({', '.join(f'{s:.1f}' for s in watched.answer['pass_seconds'])} in passes)",
                f"{bare:.1f} s",
                f"{seconds / bare:.2f}",
                *self._memory(watched, plan),
                _loss(certificate),
                f"{certificate['loss'] / plain - 1:.1e}",
            ]
        )

    def describe(self) -> str:
        """The store and how it is fitted."""
        asked = ", ".join(f"{name} = {value}" for name, value in self.parameters.items())
        where = f"{self.n_workers} worker processes" if self.n_workers else "threads of the calling process"
        return f"{self.problem.describe()}; {asked or 'defaults'}; {where}"

    def _memory(self, watched: Watched, plan: dict[str, Any] | None) -> list[str]:
        worker = f"{watched.worker_nbytes / GB:.2f} GB" if self.n_workers else ""
        projected = ""
        if plan is not None:
            nbytes = plan["worker_nbytes"] if self.n_workers else max(plan["worker_nbytes"], plan["finish_nbytes"])
            projected = f"{(nbytes + IDLE_NBYTES) / GB:.2f} GB"
        caller, together = (f"{n / GB:.2f} GB" for n in (watched.caller_nbytes, watched.together_nbytes))
        allowed = f"{self.n_workers or 1} x {self.memory / GB:.2g} GB"
        return [caller, worker, projected, together, allowed]

    def _row(self, cells: Sequence[str]) -> str:
        return f"| {' | '.join([self.name, *cells])} |"


def _loss(certificate: dict[str, Any]) -> str:
    known = f"{certificate['loss']:.6g} ({certificate['loss_kind']}"
    if certificate["loss_lower"] is not None:
        known += f", {certificate['loss_lower']:.4g} to {certificate['loss_upper']:.4g}"
    return known + ")"


def cases(size: str) -> list[Case]:
    """Cases of a size; those that share a store are neighbours."""
    if size == "tiny":  # shows that everything runs
        tall, wide = SensorCounts(32, 1 << 20, chunk_nbytes=1 << 14), SensorCounts(300, 1 << 18, chunk_nbytes=1 << 14)
        cut, cells = replace(wide, chunk_columns=128), CellCounts(500, 200, density=0.1)
    else:
        share = {"quick": 20, "full": 1}[size]
        tall = SensorCounts(512, 40 * GB // CHUNK // share * CHUNK)
        # 10 rows a chunk, as spae ingest cuts them; and 64 rows in seven chunks across, as other programs may
        wide = SensorCounts(200_000, 2000 // share * CHUNK)
        cut = SensorCounts(200_000, 312 // share * 64 * 800_000, chunk_nbytes=64 * 800_000, chunk_columns=32_768)
        cells = CellCounts(200_000 // share, 30_000)
    return [
        Case("tall", tall, n_workers=2, memory=GB),
        Case("tall-sample", tall, {"strategy": "sample", "tolerance": 0.01}, n_workers=2, memory=GB),
        Case("wide", wide, {"strategy": "sketch"}),
        Case("wide-cut", cut, {"strategy": "sketch"}),
        Case("cells", cells, {"strategy": "sketch"}),
    ]


def rows(size: str, only: Sequence[str] | None, scratch: Path) -> Iterator[str]:
    """Rows of the table; each store is made below ``scratch`` when its first case comes, and removed after its last."""
    wanted = [case for case in cases(size) if only is None or case.name in only]
    for problem, members in groupby(wanted, key=lambda case: case.problem):
        path = problem.make(scratch)
        source = open_matrix(path)
        bare = timed(lambda path=path, bounds=source.bounds: read_and_drop(path, bounds)).wall
        for case in members:
            yield case.run(path, scratch, bare)
        shutil.rmtree(path)


TEXT = """# Scale

Each matrix is larger than the memory that the fit may use. Each fit runs once in its own process, with k = 5, r = 10
and the default method. Made by `python -m benchmarks.scale --size {size} --markdown`, on {machine}.

| case | matrix and fit |
|---|---|
{descriptions}

*bare reading*: zarr-python reads every row block once, in as many threads as there are cores, and drops it. Peaks are
resident memory: of the process that calls `fit`, of the largest worker process, and of the sum over all processes at
one time, where shared pages count for each. *projected* is the memory in the plan for a worker, or for the caller if
it does all the work, with {idle:.2f} GB for an idle process. *off plain numpy's by* is
the relative difference of the reported loss from the sum of the squared residuals X - X H G, chunk by chunk in float64.

{table}
"""


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print; the command line is described at the top."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale", description=__doc__.split("\n")[0])
    parser.add_argument("--size", choices=("tiny", "quick", "full"), default="quick")
    parser.add_argument("--only", action="append", help="a case, by its name; may be given again")
    parser.add_argument("--scratch", type=Path, help="where the stores go while they are needed")
    parser.add_argument("--markdown", action="store_true", help="write scale.md")
    given = parser.parse_args(arguments)
    machine = describe_machine()
    print("\n".join(machine), HEAD, RULE, sep="\n", flush=True)
    table = [HEAD, RULE]
    if given.scratch is not None:
        given.scratch.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="spae-scale-", dir=given.scratch) as scratch:
        for row in rows(given.size, given.only, Path(scratch)):
            table.append(row)
            print(row, flush=True)
    if given.markdown:
        described = "\n".join(f"| {case.name} | {case.describe()} |" for case in cases(given.size))
        text = TEXT.format(
            size=given.size,
            machine="; ".join(machine),
            descriptions=described,
            idle=IDLE_NBYTES / GB,
            table="\n".join(table),
        )
        (HERE / "scale.md").write_text(text)


if __name__ == "__main__":
    main(sys.argv[1:])
