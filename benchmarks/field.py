"""Tools that users take today beside ours: time, memory, and loss at equal nonzeros, each in a process of its own.

``python -m benchmarks.field --markdown`` makes the table in ``field.md``. Every process opens the stored data itself.
The seconds are those of reading and fitting, without imports; memory is the peak of the process and its descendants.
A tool that is not installed, runs out of memory or takes too long has a row that says so. Tools take turns, and each
row is the median of its turns. Run it while nothing else runs.
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.cells import CellCounts
from benchmarks.machine import describe_machine
from benchmarks.problems import THREADS
from benchmarks.process_tree import Watched, watch

HERE = Path(__file__).parent
BEGIN, END = "<!-- results begin -->", "<!-- results end -->"
PATIENCE = 1800.0
"""Seconds after which a tool is ended."""

Answer = dict[str, Any]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Case:
    """One set of data, and the tools that are run on it.

    Attributes
    ----------
    name, about : str
        Name, and description for the table.
    make : callable
        Writes the data below a folder and returns their path.
    k, r : int
        Components, and nonzeros of each.
    tools : mapping of str to callable
        Each takes the path, k and r, and returns seconds and results.
    """

    name: str
    about: str
    make: Callable[[Path], Path]
    k: int
    r: int
    tools: dict[str, Callable[[str, int, int], Answer]]


def clocked(act: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds of a call, and its result."""
    began = time.perf_counter()
    done = act()
    return time.perf_counter() - began, done


def rows_of(path: str) -> Floats:
    """The matrix of a ``.npy`` file."""
    rows: Floats = np.load(path)
    return rows


def counts_of(path: str) -> Any:
    """The CSR matrix of a store, in memory."""
    import anndata.io
    import zarr

    counts = anndata.io.read_elem(zarr.open_group(path, mode="r"))
    counts.indptr = counts.indptr.astype(counts.indices.dtype)  # arpack's products want one type for both
    return counts


# ours


def ours(path: str, k: int, r: int, *, scores: bool = False, **parameters: Any) -> Answer:
    """A fit of ours, and codes of all rows if they are asked for."""
    import numba  # noqa: F401 - imports do not count, and scanpy imports it too

    from spae_dask import SparseEncoder
    from spae_dask.estimators.writing import transform_to_zarr

    def act() -> Any:
        encoder = SparseEncoder(k, n_nonzero=r, **parameters).fit(path)
        if scores:
            with tempfile.TemporaryDirectory(dir=Path(path).parent) as folder:
                transform_to_zarr(path, encoder, f"{folder}/codes.zarr")
        return encoder.certificate_

    seconds, found = clocked(act)
    return {
        "seconds": seconds,
        "explained": found.explained,
        "ratio": found.ratio,
        "nonzeros": found.n_nonzero,
        "kind": found.pca_loss_kind,
    }


def ours_by_batch(path: str, k: int, r: int) -> Answer:
    """Nearly all of its time is the pass."""
    return ours(path, k, r, method="batch")


def ours_with_scores(path: str, k: int, r: int) -> Answer:
    """The fit and the codes of all rows."""
    return ours(path, k, r, scores=True)


def ours_with_scores_by_batch(path: str, k: int, r: int) -> Answer:
    """The fit by one batch, and the codes of all rows."""
    return ours(path, k, r, scores=True, method="batch")


# PCA of single cells


def scanpy_on_dask(path: str, k: int, r: int) -> Answer:  # noqa: ARG001 - PCA is dense
    """``scanpy.pp.pca`` of a dask array of sparse chunks, scores computed."""
    import anndata.experimental
    import scanpy
    import zarr

    def act() -> Any:
        lazy = anndata.experimental.read_elem_lazy(zarr.open_group(path, mode="r"), chunks=(20_000, -1))
        adata = anndata.AnnData(lazy)
        scanpy.pp.pca(adata, n_comps=k, svd_solver="covariance_eigh")
        adata.obsm["X_pca"] = np.asarray(adata.obsm["X_pca"])
        return adata

    seconds, adata = clocked(act)
    return {"seconds": seconds, "explained": float(adata.uns["pca"]["variance_ratio"].sum())}


def scanpy_in_memory(path: str, k: int, r: int) -> Answer:  # noqa: ARG001
    """``scanpy.pp.pca`` of the matrix in memory (arpack), scores included."""
    import anndata
    import scanpy

    def act() -> Any:
        adata = anndata.AnnData(counts_of(path))
        scanpy.pp.pca(adata, n_comps=k)
        return adata

    seconds, adata = clocked(act)
    return {"seconds": seconds, "explained": float(adata.uns["pca"]["variance_ratio"].sum())}


def sklearn_arpack(path: str, k: int, r: int) -> Answer:  # noqa: ARG001
    """``TruncatedSVD(algorithm="arpack")`` of the matrix in memory, which is not centered."""
    from sklearn.decomposition import TruncatedSVD

    seconds, model = clocked(lambda: TruncatedSVD(k, algorithm="arpack").fit(counts_of(path)))
    return {"seconds": seconds, "explained": float(model.explained_variance_ratio_.sum())}


def sklearn_pca_sparse(path: str, k: int, r: int) -> Answer:  # noqa: ARG001
    """``PCA(svd_solver="covariance_eigh")`` of the sparse matrix in memory."""
    from sklearn.decomposition import PCA

    seconds, model = clocked(lambda: PCA(k, svd_solver="covariance_eigh").fit(counts_of(path)))
    return {"seconds": seconds, "explained": float(model.explained_variance_ratio_.sum())}


# dense rows


def sklearn_covariance(path: str, k: int, r: int) -> Answer:  # noqa: ARG001
    """``PCA(svd_solver="covariance_eigh")`` of the matrix in memory."""
    from sklearn.decomposition import PCA

    seconds, model = clocked(lambda: PCA(k, svd_solver="covariance_eigh").fit(rows_of(path)))
    return {"seconds": seconds, "explained": float(model.explained_variance_ratio_.sum())}


def sklearn_incremental(path: str, k: int, r: int) -> Answer:  # noqa: ARG001
    """``IncrementalPCA`` over batches of rows."""
    from sklearn.decomposition import IncrementalPCA

    rows = rows_of(path)
    size = max(1000, 5 * rows.shape[1])
    seconds, model = clocked(lambda: IncrementalPCA(k, batch_size=size).fit(rows))
    return {"seconds": seconds, "explained": float(model.explained_variance_ratio_.sum())}


def dask_product(path: str, k: int, r: int) -> Answer:  # noqa: ARG001
    """``x.T @ x`` of a dask array of the rows, in float32 as they are stored."""
    import dask.array as da

    rows = rows_of(path)
    x = da.from_array(rows, chunks=(100_000, -1))
    return {"seconds": clocked(lambda: (x.T @ x).compute())[0]}


def dask_compressed(path: str, k: int, r: int) -> Answer:  # noqa: ARG001
    """``da.linalg.svd_compressed`` of the centered rows, two power iterations."""
    import dask.array as da

    rows = rows_of(path)
    x = da.from_array(rows, chunks=(100_000, -1))
    centered = x - x.mean(axis=0)
    seconds, values = clocked(lambda: da.linalg.svd_compressed(centered, k, n_power_iter=2, seed=0)[1].compute())
    total = float(((rows - rows.mean(axis=0)).astype(np.float64) ** 2).sum())
    return {"seconds": seconds, "explained": float((values.astype(np.float64) ** 2).sum() / total)}


# data


def dense_rows(n: int, d: int, noise: float = 1.0) -> Callable[[Path], Path]:
    """Rows that mix eight factors, and noise; float32."""

    def make(scratch: Path) -> Path:
        path = scratch / f"rows-{n}x{d}.npy"
        if not path.exists():
            rng = np.random.default_rng(0)
            mixing = rng.standard_normal((8, d)) * (rng.random((8, d)) < 0.3)
            stored = np.lib.format.open_memmap(path, "w+", np.float32, (n, d))
            for start in range(0, n, 50_000):
                m = min(50_000, n - start)
                stored[start : start + m] = rng.standard_normal((m, 8)) @ mixing + noise * rng.standard_normal((m, d))
            stored.flush()
        return path

    return make


PCA_OF_ROWS = {
    "PCA(covariance_eigh), scikit-learn": sklearn_covariance,
    "IncrementalPCA, scikit-learn": sklearn_incremental,
    "x.T @ x, dask": dask_product,
    "svd_compressed, dask": dask_compressed,
}

CASES = (
    Case(
        "cells",
        CellCounts(200_000, 2_000, 0.045).describe(),
        CellCounts(200_000, 2_000, 0.045).make,
        10,
        12,
        {
            "ours": ours,
            "ours, method batch": ours_by_batch,
            "ours, codes written": ours_with_scores,
            "ours, method batch, codes written": ours_with_scores_by_batch,
            "pp.pca on dask, scanpy": scanpy_on_dask,
            "pp.pca in memory, scanpy": scanpy_in_memory,
            "PCA(covariance_eigh), scikit-learn": sklearn_pca_sparse,
            "TruncatedSVD(arpack), scikit-learn": sklearn_arpack,
        },
    ),
    Case(
        "rows",
        "1,000,000 x 100 float32 rows",
        dense_rows(1_000_000, 100),
        10,
        10,
        {"ours": ours, "ours, method batch": ours_by_batch, **PCA_OF_ROWS},
    ),
    Case("small", "1,000 x 50 float32 rows", dense_rows(1_000, 50), 5, 10, {"ours": ours, **PCA_OF_ROWS}),
)


def run(case: Case, scratch: Path, repetitions: int) -> list[list[str]]:
    """Rows of the table for one case."""
    path = case.make(scratch)
    turns: dict[str, list[Watched]] = {tool: [] for tool in case.tools}
    for _ in range(repetitions):
        for tool, done in turns.items():
            if not any(each.failure for each in done):
                done.append(watch("benchmarks.field", ["--child", case.name, tool, str(path)], PATIENCE))
                print(f"{case.name}: {tool}: {done[-1].answer or done[-1].failure}", file=sys.stderr, flush=True)
    return [row(case, tool, done) for tool, done in turns.items()]


def row(case: Case, tool: str, done: Sequence[Watched]) -> list[str]:
    """Cells of one tool."""
    last = done[-1]
    if last.answer is None:
        return [case.about, tool, "", "", "", "", "", last.failure.replace("|", "/")]
    answers = [each.answer for each in done if each.answer is not None]
    seconds = [float(each["seconds"]) for each in answers]
    spread = f"{statistics.median(seconds):.2f} s ({min(seconds):.2f} to {max(seconds):.2f})"
    memory = f"{max(each.together_nbytes for each in done) >> 20:,} MiB"

    def cell(name: str, shown: str) -> str:
        return shown.format(last.answer[name]) if last.answer and name in last.answer else ""

    return [
        case.about,
        tool,
        spread,
        memory,
        cell("explained", "{:.3%}"),
        cell("ratio", "{:.5f}"),
        cell("nonzeros", "{:.3g}"),
        cell("kind", "PCA's loss: {}"),
    ]


HEAD = ("data", "tool", "read and fit", "peak memory", "explained", "loss / PCA's", "nonzeros a component", "note")


def markdown(rows: Sequence[Sequence[str]]) -> str:
    """The table."""
    lines = [HEAD, ["---"] * len(HEAD), *rows]
    return "\n".join(f"| {' | '.join(each)} |" for each in lines)


def main(argv: Sequence[str] | None = None) -> None:
    """Run all cases, or those that are named."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cases", nargs="*", help=f"cases to run; by default all: {', '.join(c.name for c in CASES)}")
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--scratch", type=Path, default=Path(tempfile.gettempdir()) / "spae-benchmarks")
    parser.add_argument("--markdown", action="store_true", help="write field.md beside this file")
    parser.add_argument("--child", nargs=3, metavar=("CASE", "TOOL", "PATH"), help=argparse.SUPPRESS)
    given = parser.parse_args(argv)
    if given.child:
        name, tool, path = given.child
        case = next(each for each in CASES if each.name == name)
        print(json.dumps(case.tools[tool](path, case.k, case.r)))
        return
    given.scratch.mkdir(parents=True, exist_ok=True)
    wanted = [case for case in CASES if case.name in (given.cases or [c.name for c in CASES])]
    table = markdown([each for case in wanted for each in run(case, given.scratch, given.repetitions)])
    print(table)
    if given.markdown:
        target = HERE / "field.md"
        before, rest = target.read_text(encoding="utf-8").split(BEGIN, 1)
        facts = "\n".join(
            f"- {line}" for line in (*describe_machine(), f"{THREADS} threads; turns of each tool: {given.repetitions}")
        )
        target.write_text(f"{before}{BEGIN}\n{facts}\n\n{table}\n{END}{rest.split(END, 1)[1]}", encoding="utf-8")


if __name__ == "__main__":
    main()
