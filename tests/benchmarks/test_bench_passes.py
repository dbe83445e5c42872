"""The benchmark's smallest size: what the sides compute, never how fast."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from distributed import Client

from benchmarks.arithmetic import PANEL_ROWS, SKETCH_COLUMNS, SKETCH_ROWS, arithmetic_seconds, kernel
from benchmarks.bench_passes import cases, main
from benchmarks.folded_pass import FoldedPass
from benchmarks.integer_sums import IntegerSums
from benchmarks.plain import read_and_drop
from benchmarks.problems import GaussianBlocks, SensorCounts
from benchmarks.r_factor import dasks, ours, peak_mib
from benchmarks.store_fit import StoreFit, fit
from benchmarks.table import BEGIN, END, Line
from benchmarks.timing import PassClock, Timed
from benchmarks.workers import TwoWorkers, triangle_on
from spae_dask import open_matrix

SMALL = SensorCounts(16, 1 << 18, "zstd", 1 << 15)


@pytest.mark.parametrize("codec", ["zstd", "lz4"])
def test_a_store_is_made_again_bit_for_bit_and_compresses_as_real_data_do(tmp_path: Path, codec: str) -> None:
    problem = SensorCounts(16, 1 << 18, codec, 1 << 15)
    first, again = (zarr.open_array(problem.make(tmp_path / name), mode="r") for name in ("a", "b"))
    np.testing.assert_array_equal(first[:], np.concatenate([problem.chunk(i) for i in range(8)]))
    np.testing.assert_array_equal(first[:], again[:])
    assert first.shape == problem.shape == (4096, 16)
    assert len(np.unique(first[:])) > 1000
    assert 1.3 < problem.nbytes / sum(f.stat().st_size for f in (tmp_path / "a").rglob("c/*/*")) < 3


def test_a_store_of_bytes_holds_the_first_bits_of_the_same_numbers(tmp_path: Path) -> None:
    floats = SensorCounts(16, 1 << 18, "zstd", 1 << 15)
    problem = SensorCounts(16, 1 << 16, "zstd", 1 << 13, dtype="u1")
    rows = zarr.open_array(problem.make(tmp_path), mode="r")[:]
    assert rows.shape == problem.shape == floats.shape
    assert rows.dtype == np.uint8
    np.testing.assert_array_equal(rows, np.concatenate([floats.chunk(i) // 16 for i in range(8)]))


def test_integer_sums_and_float_sums_are_of_the_same_rows(tmp_path: Path) -> None:
    (line,) = IntegerSums(16, 1 << 16).run(tmp_path, 1)
    assert len(line.ours) == len(line.other) == 1
    assert "uint8, d = 16" in line.case


def test_a_store_that_is_there_is_used_again(tmp_path: Path) -> None:
    path = SMALL.make(tmp_path)
    written = path.stat().st_mtime_ns
    assert SMALL.make(tmp_path) == path
    assert path.stat().st_mtime_ns == written


def test_bare_reading_reads_every_chunk_once(tmp_path: Path) -> None:
    path = SMALL.make(tmp_path)
    assert read_and_drop(path, open_matrix(path).bounds) == SMALL.nbytes


@pytest.mark.parametrize("strategy", ["gram", "tsqr"])
def test_the_fit_that_is_timed_is_a_whole_fit_in_one_read(tmp_path: Path, strategy: str) -> None:
    clock = PassClock()
    certificate = fit(SMALL.make(tmp_path), strategy, clock).certificate_
    X = np.concatenate([SMALL.chunk(i) for i in range(SMALL.n_chunks)]).astype(np.float64)
    spectrum = np.linalg.svd(X - X.mean(axis=0), compute_uv=False)
    assert certificate.pca_loss == pytest.approx((spectrum[5:] ** 2).sum())
    assert certificate.passes == 1
    assert certificate.bytes_read == SMALL.nbytes
    assert clock.seconds.wall > 0


def test_the_arithmetic_is_the_gram_matrix_and_the_triangle_of_its_rows() -> None:
    rows = np.random.default_rng(0).standard_normal((PANEL_ROWS, 16))
    for strategy in ("gram", "tsqr"):
        add, summary = kernel(strategy, 16)
        for _ in range(3):
            add()
        upper = np.triu(summary)
        found = upper if strategy == "gram" else np.triu(upper.T @ upper)
        np.testing.assert_allclose(found, np.triu(3 * rows.T @ rows), rtol=1e-10, atol=1e-10)
        assert arithmetic_seconds(strategy, 16, 1e6, 2).wall > 0


def test_the_arithmetic_of_a_sketch_is_products_of_its_rows() -> None:
    rows = np.random.default_rng(0).standard_normal((PANEL_ROWS, SKETCH_COLUMNS))
    add, summary = kernel("sketch", 20_000)
    add()
    np.testing.assert_allclose(summary, rows.T @ rows[:, :SKETCH_ROWS], rtol=1e-10, atol=1e-10)


@pytest.mark.filterwarnings("ignore::spae_dask.errors.PrecisionWarning")
@pytest.mark.parametrize("options", [{"strategy": "gram", "precision": "fast"}, {"strategy": "sketch"}])
def test_a_fit_of_less_arithmetic_or_more_reads_is_compared_with_reading_once(
    tmp_path: Path, options: dict[str, Any]
) -> None:
    whole, passes, limit = StoreFit(SMALL, **options).run(tmp_path, 1)
    assert whole.other == passes.other
    reads = 2 if options["strategy"] == "sketch" else 1
    assert limit.other[0].wall > reads * whole.other[0].wall
    assert options.get("precision", options["strategy"]) in whole.case


def test_both_sides_factor_the_same_array() -> None:
    problem = GaussianBlocks(16, 4, 1 << 14)
    X = np.concatenate([problem.block(i) for i in range(4)]).astype(np.float64)
    theirs, mine = dasks(problem.in_memory()), ours(problem.made_when_read())
    np.testing.assert_allclose(theirs.T @ theirs, X.T @ X, rtol=1e-4, atol=1e-3)
    centered = X - X.mean(axis=0)
    np.testing.assert_allclose(mine.triangle.T @ mine.triangle, centered.T @ centered, rtol=1e-10, atol=1e-10)


def test_peak_memory_of_a_child_counts_its_blocks() -> None:
    assert 4 < peak_mib("ours", GaussianBlocks(16, 2, 4 << 20), 1) < 400


def test_workers_are_compared_on_the_triangle_of_the_same_store(tmp_path: Path) -> None:
    path = SMALL.make(tmp_path)
    with Client(processes=False, n_workers=1, threads_per_worker=1, dashboard_address=":0") as client:
        triangle = triangle_on(client, path).triangle
        (line,) = TwoWorkers(SMALL).compare(path, client, client, repetitions=1)
    X = np.concatenate([SMALL.chunk(i) for i in range(SMALL.n_chunks)]).astype(np.float64)
    centered = X - X.mean(axis=0)
    np.testing.assert_allclose(triangle.T @ triangle, centered.T @ centered, rtol=1e-10, atol=1e-3)
    assert len(line.ours) == len(line.other) == 1
    assert all(turn.cpu > 0 for turn in (*line.ours, *line.other))


def test_fits_with_and_without_folds_have_one_loss(tmp_path: Path) -> None:
    (line,) = FoldedPass(SMALL, 3).run(tmp_path, repetitions=1)
    assert len(line.ours) == len(line.other) == 1
    assert "3 folds" in line.case


def test_ratios_are_of_neighbours_and_speed_ups_are_upside_down() -> None:
    fast, slow = [Timed(1, 1), Timed(2, 2), Timed(1, 1)], [Timed(3, 2), Timed(4, 4), Timed(2, 2)]
    assert str(Line("a / b", "case", slow, fast, at_most=2).wall) == "2.00 (2.00 to 3.00)"
    assert Line("a / b", "case", slow, fast, at_most=2).met is True
    assert Line("b / a", "case", fast, slow, at_least=2.5).met is False
    assert Line("b / a", "case", fast, slow).met is None


def test_the_table_is_written_between_its_marks(tmp_path: Path) -> None:
    page = tmp_path / "README.md"
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    quickest = ["--size", "tiny", "--only", "fits", "--only", "finish", "--only", "r-factor", "--repetitions", "1"]
    main([*quickest, "--scratch", str(tmp_path), "--markdown", str(page)])
    text = page.read_text()
    assert text.startswith(f"before\n{BEGIN}\n")
    assert text.endswith(f"{END}\nafter\n")
    assert "old" not in text
    assert text.count("\n| ") == 1 + 2 * 3 + 1 + 1


def test_every_size_has_the_same_groups() -> None:
    assert cases("tiny").keys() == cases("quick").keys() == cases("full").keys()
