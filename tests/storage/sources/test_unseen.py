"""Data that the reading process does not see are an error, never fill values: other machines, lost mounts."""

import pickle
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import zarr

from spae_dask.blocks import RowBlocks
from spae_dask.errors import StorageError
from spae_dask.storage.open import open_matrix

X = np.random.default_rng(0).standard_normal((300, 6)).astype("f4")


def dense(path: Path) -> None:
    zarr.create_array(path, data=X, chunks=(50, 2))


def old_format(path: Path) -> None:
    zarr.create_array(path, data=X, chunks=(50, 2), zarr_format=2)


def sparse(path: Path) -> None:
    group, matrix = zarr.open_group(path, mode="w"), sp.csr_array(X)
    group.attrs.update({"encoding-type": "csr_matrix", "encoding-version": "0.1.0", "shape": list(X.shape)})
    for name in ("data", "indices", "indptr"):
        group.create_array(name, data=getattr(matrix, name), chunks=(100,))


def npy(path: Path) -> None:
    np.save(path, X)


def table(path: Path) -> None:
    pd.DataFrame(X, columns=list("abcdef")).to_parquet(path)


KINDS: dict[str, tuple[str, Callable[[Path], None]]] = {
    "zarr 3": ("x.zarr", dense),
    "zarr 2": ("x.zarr", old_format),
    "csr": ("x.zarr", sparse),
    "npy": ("x.npy", npy),
    "parquet": ("x.parquet", table),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("read_before", [False, True])
def test_data_that_a_process_does_not_see_are_refused_and_not_read_as_zeros(
    kind: str, read_before: bool, tmp_path: Path
) -> None:
    name, make = KINDS[kind]
    make(tmp_path / name)
    source = open_matrix(str(tmp_path / name))
    assert source.bounds[-1] == len(X)
    if read_before:
        source.read(0)
    sent: RowBlocks = pickle.loads(pickle.dumps(source))  # as it comes to a worker
    shutil.move(tmp_path / name, tmp_path / "elsewhere")
    with pytest.raises(
        StorageError, match=r"does not exist for a process of \S+\. Give data at a path or a URL that all"
    ):
        sent.read(0)


def test_columns_of_an_array_that_is_not_seen_are_refused_as_well(tmp_path: Path) -> None:
    dense(tmp_path / "x.zarr")
    chosen = open_matrix(str(tmp_path / "x.zarr")).of_columns(np.array([0]))  # type: ignore[attr-defined]
    shutil.move(tmp_path / "x.zarr", tmp_path / "elsewhere")
    with pytest.raises(StorageError, match="does not exist for a process"):
        chosen.read(0)


def test_chunks_that_were_never_written_still_read_as_the_fill_value(tmp_path: Path) -> None:
    array = zarr.create_array(tmp_path / "x.zarr", shape=(300, 6), chunks=(50, 6), dtype="f4", fill_value=2.0)
    array[:50] = X[:50]
    read = open_matrix(str(tmp_path / "x.zarr")).read(0)
    np.testing.assert_array_equal(read[:50], X[:50])
    np.testing.assert_array_equal(read[50:], np.full((250, 6), 2, "f4"))
