"""Memory that the listing of stored chunks takes is in the plan: measured in a process of its own, for 10^6 chunks."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

from spae_dask import open_matrix, plan
from spae_dask.errors import DataChanged, MemoryBudgetExceeded
from spae_dask.passes.memory import IDLE_NBYTES, LIMIT_SHARE
from spae_dask.passes.plan import Resources
from spae_dask.storage.sources.stored_chunks import LISTED_NBYTES, check_chunks, listing_nbytes
from tests.storage.anndata_stores import sparse_counts

MILLION = 1_000_000

MEASURED = """
import json, sys, warnings
from pathlib import Path
import numpy as np
from spae_dask.machine import return_freed_arrays
return_freed_arrays()
from spae_dask import SparseEncoder, open_matrix, plan
from spae_dask.errors import DataChanged
from spae_dask.storage.remote.object_requests import StoredFile
from spae_dask.storage.sources import snapshot, zarr_blocks
from spae_dask.storage.sources.stored_chunks import check_chunks

small, large, what, n = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
changed = []

def peak():
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * int(next(line for line in lines if line.startswith("VmHWM")).split()[1])

def begin():
    Path("/proc/self/clear_refs").write_text("5")
    return peak()

def listed(folder, prefix=""):
    yield StoredFile("zarr.json", 100, 0.0)
    for number in range(n):
        if number % 97 or what != "gaps":
            yield StoredFile(f"c/{number}/0", 4, 0.0, "other" if number in changed else "same")

def fit(path):
    SparseEncoder(n_components=1, n_nonzero=2, memory_limit="8GB").fit(path)

def count(path):
    counted = check_chunks(open_matrix(path))
    counted.refuse_changed()
    counted.snapshot.to_bytes() if what == "kept" else None
    changed.append(n - 1)
    try:
        counted.refuse_changed()
    except DataChanged as error:
        assert f"chunk 'c/{n - 1}/0'" in str(error), error
    changed.clear()

warnings.simplefilter("ignore")
work = fit if what == "fit" else count
real = snapshot._files_below
fit(small)
check_chunks(open_matrix(small)).refuse_changed()
snapshot._files_below = listed
if what == "fit":
    rng = np.random.default_rng(0)
    zarr_blocks.ZarrBlocks.read = lambda self, i: rng.normal(
        size=(self.bounds[i + 1] - self.bounds[i], self.shape[1])).astype("f4")
before = begin()
work(large)
print(json.dumps(peak() - before))
"""


def stores(tmp_path: Path, n: int) -> tuple[Path, Path]:
    """A small array with its chunks, and the metadata of one with many."""
    small = zarr.create_array(tmp_path / "small.zarr", shape=(60, 4), chunks=(20, 4), dtype="f4")
    small[...] = np.random.default_rng(0).normal(size=(60, 4))
    zarr.create_array(tmp_path / "large.zarr", shape=(n, 4), chunks=(1, 4), dtype="f4")
    return tmp_path / "small.zarr", tmp_path / "large.zarr"


def measured(tmp_path: Path, what: str, n: int = MILLION) -> int:
    """Bytes by which a process grows that lists so many chunks, and lists them again."""
    command = [sys.executable, "-c", MEASURED, *map(str, stores(tmp_path, n)), what, str(n)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    return int(json.loads(ended.stdout))


@pytest.mark.slow
@pytest.mark.parametrize("what", ["all", "gaps", "kept"])
def test_a_listing_of_a_million_chunks_takes_no_more_than_is_promised(tmp_path: Path, what: str) -> None:
    found = measured(tmp_path, what)
    promised = listing_nbytes(open_matrix(tmp_path / "large.zarr"))
    assert promised == MILLION * LISTED_NBYTES
    assert promised / 3 < found <= promised


@pytest.mark.slow
def test_a_fit_of_a_million_chunks_takes_no_more_than_its_plan_says(tmp_path: Path) -> None:
    found = measured(tmp_path, "fit")
    planned = plan(tmp_path / "large.zarr", 1, n_nonzero=2, calibrate=False, memory_limit="8GB")
    assert found <= planned.worker_nbytes


def planned(path: Path, **options: Any) -> Any:
    return plan(path, 1, n_nonzero=2, calibrate=False, **options)


def test_the_plan_counts_the_listing_in_this_process_and_says_so(tmp_path: Path) -> None:
    small, large = stores(tmp_path, MILLION)
    few, many = planned(small), planned(large)
    nbytes = MILLION * LISTED_NBYTES
    assert many.resources.listing_nbytes == nbytes
    assert "listing of stored chunks: 91.6 MiB of the memory of this process" in str(many)
    assert "listing of stored chunks" not in str(few)
    there = Resources("elsewhere", 4, 1, 8 << 30)
    elsewhere, none = (planned(large, resources=each) for each in (there, replace(there, in_process=True)))
    assert none.worker_nbytes - elsewhere.worker_nbytes == nbytes
    assert elsewhere.finish_nbytes == none.finish_nbytes > nbytes
    assert {each.finish_nbytes > nbytes for each in many.alternatives if each.finish_nbytes} == {True}


def test_a_plan_without_room_for_the_listing_is_refused_before_anything_is_listed(tmp_path: Path) -> None:
    _, large = stores(tmp_path, 1 << 26)
    assert planned(large, memory_limit="16GiB").strategy
    with pytest.raises(MemoryBudgetExceeded, match="a memory limit of") as caught:
        planned(large, memory_limit="6GiB")
    assert "smaller chunks" not in str(caught.value)
    limit = int((IDLE_NBYTES + (LISTED_NBYTES << 26)) / LIMIT_SHARE)
    with pytest.raises(MemoryBudgetExceeded):
        planned(large, resources=Resources("elsewhere", 1, 1, limit))


def test_the_chunks_of_all_arrays_of_a_source_are_counted(tmp_path: Path) -> None:
    import scipy.sparse as sp

    x = sp.csr_array(sparse_counts())
    group = zarr.create_group(tmp_path / "x.zarr", attributes={"encoding-type": "csr_matrix", "shape": list(x.shape)})
    n_chunks = 0
    for name in ("data", "indices", "indptr"):
        group.create_array(name, data=getattr(x, name), chunks=(50,))
        n_chunks += -(-getattr(x, name).size // 50)
    assert listing_nbytes(open_matrix(tmp_path / "x.zarr")) == LISTED_NBYTES * n_chunks
    assert listing_nbytes(open_matrix(np.ones((3, 2)))) == 0
    np.save(tmp_path / "x.npy", np.ones((3, 2)))
    assert listing_nbytes(open_matrix(tmp_path / "x.npy")) == LISTED_NBYTES


@pytest.mark.parametrize("number", [0, 3, 5])
@pytest.mark.parametrize("happened", ["was written again", "was removed", "appeared"])
def test_a_change_is_named_by_the_first_chunk_and_the_number_of_others(
    tmp_path: Path, number: int, happened: str
) -> None:
    array = zarr.create_array(tmp_path / "x.zarr", data=np.ones((7, 2)), chunks=(1, 2))
    first, last = (tmp_path / "x.zarr" / "c" / str(each) / "0" for each in (number, 6))
    content = first.read_bytes()
    if happened == "appeared":
        first.unlink()
    counted = check_chunks(open_matrix(tmp_path / "x.zarr"))
    if happened == "appeared":
        first.write_bytes(content)
    if happened == "was removed":
        first.unlink()
    if happened == "was written again":
        array[number] = 2
    last.unlink()
    with pytest.raises(DataChanged, match=rf"chunk 'c/{number}/0' of .* {happened}, and 1 more changed"):
        counted.refuse_changed()
