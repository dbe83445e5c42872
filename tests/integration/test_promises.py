"""Plans promise the memory of fits, in every place that fits can run in: measured by the kernel, in real processes."""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import zarr

from spae_dask import SparseEncoder, plan
from spae_dask.clusters.local import local_cluster
from spae_dask.passes.memory import IDLE_NBYTES
from spae_dask.passes.plan import Resources
from tests.engine.resident import PeakAboveIdle
from tests.storage.genotypes import dosages, write_bed

STRATEGIES = ["gram", "tsqr", "sketch", "stream", "sample", "paper"]
MB = 10**6

FIT = """
import json, sys
from pathlib import Path
from spae_dask import SparseEncoder, evaluate, open_matrix
from spae_dask.estimators.evaluation import plan_evaluation
from spae_dask.estimators.runtime import resources_for
from spae_dask.machine import return_freed_arrays

path, small, strategy, ours = json.loads(sys.argv[1])

def resident(field):
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith(field))

def fit(path):
    # a tolerance that no part of the data reaches, so that a sample reads on
    more = {"tolerance": 1e-6} if strategy == "sample" else {}
    if strategy == "recipe":
        more = {"recipe": "normalize_total(1e4), log1p"}
    how = "gram" if strategy in ("rows", "recipe") else strategy
    return SparseEncoder(n_components=5, n_nonzero=10, strategy=how, **more).fit(path)

if ours:
    return_freed_arrays()
encoder = fit(small)
if strategy == "rows":
    evaluate(small, encoder)
    encoder = fit(path)
idle = resident("VmRSS")
Path("/proc/self/clear_refs").write_text("5")
if strategy == "rows":
    plan = plan_evaluation(open_matrix(path), encoder.autoencoder(), "auto", resources_for(None, None))
    evaluate(path, encoder)
else:
    plan = fit(path).plan_
print(json.dumps([resident("VmHWM") - idle, max(plan.worker_nbytes, plan.finish_nbytes), idle]))
"""


def store(path: Path, n: int, d: int, chunk_rows: int, dtype: str = "float32") -> str:
    rng = np.random.default_rng(0)
    x = zarr.create_array(path, shape=(n, d), chunks=(chunk_rows, d), dtype=dtype)
    for first in range(0, n, chunk_rows):
        rows = rng.standard_normal((min(chunk_rows, n - first), d), dtype=np.float32)
        x[first : first + chunk_rows] = rows if dtype == "float32" else np.clip(100 + 20 * rows, 0, 255).astype(dtype)
    return str(path)


def counts(path: Path, n: int, d: int, chunk_rows: int) -> str:
    """Raw counts, whose float64 values take four times their bytes."""
    rng = np.random.default_rng(0)
    x = zarr.create_array(path, shape=(n, d), chunks=(chunk_rows, d), dtype="uint16")
    for first in range(0, n, chunk_rows):
        x[first : first + chunk_rows] = rng.integers(0, 90, (min(chunk_rows, n - first), d), dtype=np.uint16)
    return str(path)


def columns_of_noise(path: Path, n: int, d: int, chunk_columns: int) -> str:
    """Numbers that do not compress, in chunks of all rows."""
    x = np.random.default_rng(0).standard_normal((n, d), dtype=np.float32)
    zarr.create_array(path, data=x, chunks=(n, chunk_columns))
    return str(path)


def table(path: Path, n: int, d: int) -> str:
    x = np.random.default_rng(0).standard_normal((n, d), dtype=np.float32)
    pd.DataFrame(x, columns=[str(j) for j in range(d)]).to_parquet(path)
    return str(path)


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return stores_in(tmp_path_factory.mktemp("stores"))


def stores_in(folder: Path) -> dict[str, str]:
    """Paths of a tall and a wide matrix, and of a small one that loads all libraries."""
    return {
        "tall": store(folder / "tall.zarr", 32768, 512, 4096),
        "wide": store(folder / "wide.zarr", 8192, 1024, 1024),
        "bytes": store(folder / "bytes.zarr", 32768, 1024, 4096, "uint8"),
        "of 16 bits": store(folder / "of 16 bits.zarr", 16384, 1024, 2048, "uint16"),
        "small": store(folder / "small.zarr", 600, 32, 100),
        "counts": counts(folder / "counts.zarr", 32768, 512, 4096),
        "few counts": counts(folder / "few.zarr", 600, 32, 100),
        "columns": columns_of_noise(folder / "columns.zarr", 20_000, 1000, 100),
        "table": table(folder / "table.parquet", 1500, 1000),
        "few rows": table(folder / "few rows.parquet", 600, 60),
    }


def measured(strategy: str, stores: dict[str, str], shape: str, *, ours: bool, small: str = "small") -> Sequence[int]:
    """Peak above the idle size, what was promised, and the idle size, of a fit in a process of its own."""
    given = json.dumps([stores[shape], stores[small], strategy, ours])
    ended = subprocess.run([sys.executable, "-c", FIT, given], capture_output=True, text=True, timeout=200, check=False)
    assert ended.returncode == 0, ended.stderr
    found: list[int] = json.loads(ended.stdout.splitlines()[-1])
    return found


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="peaks are Linux's")
@pytest.mark.parametrize("shape", ["tall", "wide"])
@pytest.mark.parametrize("strategy", [*STRATEGIES, "rows"])
@pytest.mark.parametrize("ours", [True, False], ids=["as a command", "in a user's Python"])
@pytest.mark.slow
def test_a_fit_in_this_process_takes_no_more_than_its_plan_says(
    ours: bool, strategy: str, shape: str, stores: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_"):
        monkeypatch.delenv(name, raising=False)
    above, promised, _ = measured(strategy, stores, shape, ours=ours)
    assert above <= promised, f"{above / MB:.0f} MB measured, {promised / MB:.0f} MB promised"


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="peaks are Linux's")
@pytest.mark.parametrize(("strategy", "shape", "small"), [("gram", "columns", "small"), ("gram", "table", "few rows")])
def test_a_fit_of_other_formats_takes_no_more_than_its_plan_says(
    strategy: str, shape: str, small: str, stores: dict[str, str]
) -> None:
    above, promised, _ = measured(strategy, stores, shape, ours=True, small=small)
    assert above <= promised, f"{above / MB:.0f} MB measured, {promised / MB:.0f} MB promised"


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="peaks are Linux's")
@pytest.mark.parametrize("ours", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_a_fit_of_raw_counts_takes_no_more_than_its_plan_says(ours: bool, stores: dict[str, str]) -> None:
    above, promised, _ = measured("recipe", stores, "counts", ours=ours, small="few counts")
    assert above <= promised, f"{above / MB:.0f} MB measured, {promised / MB:.0f} MB promised"


@pytest.mark.slow
@pytest.mark.parametrize("shape", ["tall", "wide"])
def test_fits_on_local_workers_take_no_more_than_their_plans_say(shape: str, stores: dict[str, str]) -> None:
    with local_cluster(2, 2 << 30) as client:
        for strategy in STRATEGIES:
            fitted(strategy, stores[shape])  # a small one has one span, and one worker would load libraries later
            with PeakAboveIdle(client) as peak:
                plan = fitted(strategy, stores[shape]).plan_
            promised = plan.worker_nbytes
            assert peak.nbytes <= promised, f"{strategy}: {peak.nbytes / MB:.0f} MB, {promised / MB:.0f} MB promised"


def fitted(strategy: str, path: str) -> SparseEncoder:
    more = {"tolerance": 1e-6} if strategy == "sample" else {}
    return SparseEncoder(n_components=5, n_nonzero=10, strategy=strategy, **more).fit(path)


COMMAND = """
import sys
from pathlib import Path
from spae_dask.cli import main

end = sys.exit
def told(code):
    lines = Path("/proc/self/status").read_text().splitlines()
    print(next(1024 * int(line.split()[1]) for line in lines if line.startswith("VmHWM")))
    end(code)

main.sys.exit = told
main.run()
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peaks are Linux's")
@pytest.mark.parametrize(
    ("strategy", "shape"),
    [
        *(
            (each, "wide") if each in ("gram", "sketch") else pytest.param(each, "wide", marks=pytest.mark.slow)
            for each in STRATEGIES
        ),
        ("gram", "bytes"),
        ("gram", "of 16 bits"),
    ],
)
def test_a_command_takes_no_more_than_an_idle_process_and_its_plan(
    strategy: str, shape: str, stores: dict[str, str]
) -> None:
    more = ["--tolerance", "1e-6"] if strategy == "sample" else []
    out = str(Path(stores[shape]).with_name(f"{strategy} of {shape}.zarr"))
    words = ["fit", stores[shape], "-k", "5", "-r", "10", "-o", out, "--strategy", strategy, *more]
    words += ["--cluster", "none", "--json", "--quiet"]
    ended = subprocess.run([sys.executable, "-c", COMMAND, *words], capture_output=True, text=True, timeout=200)
    assert ended.returncode == 0, ended.stderr
    text, _, peak = ended.stdout.strip().rpartition("\n")
    plan = json.loads(text)["plan"]
    promised = IDLE_NBYTES + max(plan["worker_nbytes"], plan["finish_nbytes"])
    assert int(peak) <= promised, f"{int(peak) / MB:.0f} MB measured, {promised / MB:.0f} MB promised"


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peaks are Linux's")
def test_a_wide_cohort_is_fitted_within_the_smallest_limit_that_its_plan_accepts(tmp_path: Path) -> None:
    path = write_bed(tmp_path / "cohort.bed", dosages(1200, 20_000))
    least = Resources("here", 1, 1, 1 << 40, in_process=True, limit_is_given=True)
    planned = plan(path, 4, n_nonzero=15, missing="mean", strategy="sketch", calibrate=False, resources=least)
    limit = least.limit_for(max(planned.worker_nbytes, planned.finish_nbytes))
    words = ["fit", str(path), "-k", "4", "-r", "15", "--missing", "mean", "--strategy", "sketch"]
    words += ["--memory", str(limit), "--cluster", "none", "-o", str(tmp_path / "E.zarr"), "--json", "--quiet"]
    ended = subprocess.run([sys.executable, "-c", COMMAND, *words], capture_output=True, text=True, timeout=200)
    assert ended.returncode == 0, ended.stderr
    text, _, peak = ended.stdout.strip().rpartition("\n")
    made = json.loads(text)["plan"]
    promised = IDLE_NBYTES + max(made["worker_nbytes"], made["finish_nbytes"])
    assert "up to 90% may be used" in " ".join(made["notes"])
    assert int(peak) <= promised <= limit, f"{int(peak) / MB:.0f} MB measured, {promised / MB:.0f} MB promised"
