"""Published matrices and results the tests compare with.

Provenance is in ``tests/data/README.md`` and ``pipelines/data/README.md``.
"""

import csv
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from spae_dask.datasets import load_pitprops

FOLDER = Path(__file__).parent / "data"
PAPER = Path(__file__).parent.parent / "pipelines" / "data"
FloatArray = npt.NDArray[np.float64]


def _symmetric(path: Path) -> FloatArray:
    with np.load(path, allow_pickle=False) as stored:
        triangle = stored["upper_triangle"]
    d = int((np.sqrt(8 * triangle.size + 1) - 1) / 2)
    full = np.zeros((d, d))
    full[np.triu_indices(d)] = triangle
    full += np.triu(full, 1).T
    full.flags.writeable = False
    return full


@cache
def colon() -> FloatArray:
    """The 500 x 500 colon matrix, rank 62."""
    return _symmetric(PAPER / "colon_cov500.npz")


@cache
def lymphoma() -> FloatArray:
    """The 500 x 500 lymphoma matrix, rank 62."""
    return _symmetric(PAPER / "lymphoma_cov500.npz")


@cache
def eisen() -> FloatArray:
    """The 118 x 118 yeast matrix, rank 78."""
    return _symmetric(FOLDER / "eisen_cov118.npz")


@cache
def pitprops() -> FloatArray:
    """The 13 x 13 PitProps correlation matrix, rank 13."""
    correlation = load_pitprops()[0]
    correlation.flags.writeable = False
    return correlation


@cache
def pitprops_factor() -> FloatArray:
    """A 13 x 13 matrix whose Gram matrix is PitProps: the other way to read a correlation matrix as data."""
    factor = np.linalg.cholesky(pitprops()).T.copy()
    factor.flags.writeable = False
    return factor


def pitprops_columns(names: str) -> list[int]:
    """Indices of space-separated PitProps variable names."""
    order = load_pitprops()[1]
    return [order.index(name) for name in names.split()]


def _rows(name: str) -> list[dict[str, str]]:
    with (FOLDER / f"{name}.csv").open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


@cache
def pitprops_exact_losses() -> dict[tuple[int, int], tuple[float, str]]:
    """Smallest information loss of PitProps over all shared supports: ``(k, r) -> (ratio, support)``."""
    return {
        (int(row["k"]), int(row["r"])): (float(row["value"]), row["support"])
        for row in _rows("anchor_pitprops_exact")
        if row["quantity"] == "min_information_loss_common_support"
    }


@cache
def pitprops_sparse_eigenvalues() -> dict[int, tuple[float, str]]:
    """Largest r-sparse eigenvalue of PitProps: ``r -> (eigenvalue, support)``."""
    return {
        int(row["r"]): (float(row["value"]), row["support"])
        for row in _rows("anchor_pitprops_exact")
        if row["quantity"] == "max_sparse_eigenvalue"
    }


def pitprops_paper_encoder(method: str) -> FloatArray:
    """Printed encoder ``(13, 2)``: ``batch``, ``iterative``, ``tpower``, ``gpower_l0`` or ``gpower_l1``."""
    rows = _rows("anchor_pitprops_paper_encoders")
    return np.array([[float(row[f"{method}_h1"]), float(row[f"{method}_h2"])] for row in rows])


@cache
def variance_paths() -> dict[str, dict[int, tuple[float, float, float]]]:
    """Share of variance of one component: ``data set -> cardinality -> (tpower, pathspca, upper bound)``."""
    paths: dict[str, dict[int, tuple[float, float, float]]] = {}
    for row in _rows("anchor_variance_paths"):
        values = (float(row["tpower"]), float(row["pathspca"]), float(row["upper_bound"]))
        paths.setdefault(row["dataset"], {})[int(row["cardinality"])] = values
    return paths
