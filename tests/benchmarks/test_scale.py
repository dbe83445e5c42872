"""What the benchmarks of scale and of peers compute, and what they see of other processes."""

from pathlib import Path

import numpy as np
import pytest
import zarr

from benchmarks import scale
from benchmarks.cells import BLOCK_ROWS, CellCounts
from benchmarks.peers import N_COMPONENTS, SIDES
from benchmarks.plain import exact_loss, read_and_drop
from benchmarks.problems import SensorCounts
from benchmarks.process_tree import watch
from benchmarks.table import OnceLine
from spae_dask import open_matrix

SMALL = SensorCounts(30, 120 * 64 * 10, chunk_nbytes=120 * 64)
CELLS = CellCounts(BLOCK_ROWS + 300, 60, density=0.1)


def test_narrow_chunks_hold_the_same_matrix(tmp_path: Path) -> None:
    cut = SensorCounts(30, 120 * 64 * 10, chunk_nbytes=120 * 64, chunk_columns=7)
    whole, pieces = (zarr.open_array(problem.make(tmp_path), mode="r") for problem in (SMALL, cut))
    assert pieces.chunks == (64, 7)
    np.testing.assert_array_equal(whole[:], pieces[:])


def test_cells_are_counts_of_about_the_density_asked_for_with_a_few_programs(tmp_path: Path) -> None:
    source = open_matrix(CELLS.make(tmp_path))
    X = np.concatenate([source.read(i).toarray() for i in range(len(source.bounds) - 1)])
    assert X.shape == (CELLS.n_samples, 60)
    np.testing.assert_array_equal(X[:BLOCK_ROWS], CELLS.block(0).toarray())
    assert np.all(np.rint(X) == X)
    assert 0.05 < np.mean(X > 0) < 0.15
    sigma = np.linalg.svd(X - X.mean(axis=0), compute_uv=False)
    assert sigma[0] > 2 * sigma[20]


@pytest.mark.parametrize("problem", [SMALL, CELLS], ids=["dense", "CSR"])
def test_the_plain_loss_is_that_of_the_centered_matrix_whatever_is_subtracted(
    problem: SensorCounts | CellCounts, tmp_path: Path
) -> None:
    path = problem.make(tmp_path)
    source = open_matrix(path)
    blocks = [source.read(i) for i in range(len(source.bounds) - 1)]
    X = np.concatenate([b if isinstance(b, np.ndarray) else b.toarray() for b in blocks]).astype(np.float64)
    rng = np.random.default_rng(0)
    H, G = rng.standard_normal((X.shape[1], 2)), rng.standard_normal((2, X.shape[1]))
    H[5:] = 0
    centered = X - X.mean(axis=0)
    loss = np.sum((centered - centered @ H @ G) ** 2)
    for mean in (X.mean(axis=0), rng.standard_normal(X.shape[1])):
        assert exact_loss(path, [0, 7, 100, len(X)], H, G, mean) == pytest.approx(loss, rel=1e-9)


def test_bare_reading_of_a_sparse_store_reads_what_is_stored(tmp_path: Path) -> None:
    path = CELLS.make(tmp_path)
    n, entries = CELLS.n_samples, zarr.open_group(path)["data"].shape[0]
    assert read_and_drop(path, [0, n]) == 8 * entries + 8 * (n + 1)


@pytest.mark.parametrize("name", [name for name in SIDES if name != "x.T @ x"])
def test_ours_and_each_peer_find_the_variance_of_pca(name: str, tmp_path: Path) -> None:
    path = SMALL.make(tmp_path)
    X = zarr.open_array(path)[:].astype(np.float64)
    kept = np.sum(np.linalg.svd(X - X.mean(axis=0), compute_uv=False)[:N_COMPONENTS] ** 2)
    # incremental PCA forgets a little with every chunk
    assert SIDES[name](path) == pytest.approx(kept, rel=1e-2 if name == "IncrementalPCA" else 1e-4)


def test_a_watched_child_answers_and_its_largest_descendant_is_seen() -> None:
    few, many = (watch("tests.benchmarks.holder", [str(nbytes)]) for nbytes in (1 << 20, 200 << 20))
    assert few.answer == {"held": 1 << 20}
    assert many.failure == ""
    assert 190 << 20 <= many.worker_nbytes - few.worker_nbytes <= 220 << 20
    assert many.together_nbytes >= max(many.worker_nbytes, many.caller_nbytes)
    assert many.caller_nbytes < 100 << 20


def test_a_child_that_fails_or_takes_too_long_is_reported_and_ended() -> None:
    failed, late = watch("tests.benchmarks.holder", ["nonsense"]), watch("tests.benchmarks.holder", ["-1"], timeout=1.0)
    assert failed.answer is None
    assert failed.failure.startswith("ValueError")
    assert late.answer is None
    assert late.failure == "not done after 1 s"


def test_a_peer_that_failed_is_a_line_without_a_ratio() -> None:
    assert OnceLine("a", "case", 1.0, 6.0, at_least=5).met is True
    assert OnceLine("a", "case", 1.0, 4.0, at_least=5).met is False
    failed = OnceLine("a", "case", 1.0, None, "KilledWorker", at_least=5)
    assert failed.met is None
    assert "KilledWorker" in failed.cells()


def test_a_case_is_fitted_checked_and_described_and_its_store_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(scale, "HERE", tmp_path)
    scale.main(["--size", "tiny", "--only", "wide", "--scratch", str(tmp_path / "scratch"), "--markdown"])
    row = capsys.readouterr().out.strip().splitlines()[-1]
    cells = dict(zip(*([c.strip() for c in line.split("|")[1:-1]] for line in (scale.HEAD, row)), strict=True))
    assert cells["case"] == "wide"
    assert cells["read"].endswith("2 x")
    assert "exact" in cells["loss"]
    assert abs(float(cells["off plain numpy's by"])) < 1e-10
    assert float(cells["peak of the caller"].split()[0]) > 0.1
    assert row in (tmp_path / "scale.md").read_text()
    assert not list((tmp_path / "scratch").iterdir())


def test_every_size_of_scale_has_the_same_cases() -> None:
    names = [[case.name for case in scale.cases(size)] for size in ("tiny", "quick", "full")]
    assert names[0] == names[1] == names[2]
