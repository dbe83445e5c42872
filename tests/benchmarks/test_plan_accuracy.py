"""The benchmark of predicted times: what it compares and leaves behind, never how near it comes."""

from pathlib import Path

import pytest

from benchmarks.plan_accuracy import Case, DenseCase, Found, SparseCase, page, run
from spae_dask import open_matrix

MIB = 1 << 20


@pytest.mark.parametrize(
    ("case", "strategy", "nbytes"),
    [(DenseCase(64, 8 * MIB), "gram", 8 * MIB), (SparseCase(200, 50), "gram", None)],
)
def test_a_case_is_planned_fitted_and_removed(case: Case, strategy: str, nbytes: int | None, tmp_path: Path) -> None:
    found = run(case, tmp_path, n_components=1, n_nonzero=2)
    assert found.case == f"{case.name}: {strategy}"
    assert nbytes is None or found.nbytes == nbytes
    assert min(found.measured) > 0
    assert list(tmp_path.iterdir()) == []


def test_stores_are_of_the_kind_they_are_called(tmp_path: Path) -> None:
    wide = open_matrix(DenseCase(64, 16 * MIB, "float64").make(tmp_path))
    assert (wide.dtype, wide.shape[0] * 64 * 8) == ("f8", 16 * MIB)
    counts = open_matrix(SparseCase(200, 50).make(tmp_path))
    assert counts.shape == (200, 50)
    assert 0.03 < counts.stored.density < 0.07


def test_a_row_says_what_was_missed() -> None:
    near, far = Found("near", MIB, (1.0, 0.5), (2.0, 1.0)), Found("far", MIB, (5.0, 0.0), (1.0, 1.0))
    assert near.row() == "| near | 1 MiB | 1.00 s | 2.00 s | 0.50 s | 1.00 s | 1.50 s | 3.00 s | 0.50 |"
    assert far.row().endswith("| 2.50, missed |")
    assert near.row() in page(["a machine"], [near.row()])
