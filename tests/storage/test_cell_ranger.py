"""Feature-barcode matrices of Cell Ranger: the same cells, names and labels as ``scanpy.read_10x_h5`` reads."""

import warnings
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import scipy.sparse as sp

from spae_dask import SparseEncoder, open_matrix
from spae_dask.errors import InvalidInput, SpaeWarning
from spae_dask.storage.ingesting.ingest import ingest
from tests.storage.anndata_stores import sparse_counts

COUNTS = sp.csr_matrix(sparse_counts()).astype("i4")
N, D = COUNTS.shape
SYMBOLS = [f"GENE{column // 2}" for column in range(D)]
SYMBOLS[3] = "GENE0-1"  # the name that the first copy of GENE0 would have
TYPES = ["Gene Expression"] * (D - 4) + ["Antibody Capture"] * 4


def of_bytes(texts: list[str]) -> np.ndarray:
    return np.array([each.encode() for each in texts])


def write(path: Path, *genomes: str, types: list[str] | None = TYPES) -> Path:
    """Write one matrix as Cell Ranger does; of genomes as it did before version 3."""
    with h5py.File(path, "w") as file:
        for name in genomes or ("matrix",):
            group = file.create_group(name)
            group["barcodes"] = of_bytes([f"AAAC{row}-1" for row in range(N)])
            group["data"], group["shape"] = COUNTS.data, np.array([D, N], "i4")
            group["indices"], group["indptr"] = COUNTS.indices.astype("i8"), COUNTS.indptr.astype("i8")
            ids = of_bytes([f"ENSG{column:05}" for column in range(D)])
            if genomes:
                group["genes"], group["gene_names"] = ids, of_bytes(SYMBOLS)
                continue
            group["features/id"], group["features/name"] = ids, of_bytes(SYMBOLS)
            group["features/genome"] = of_bytes(["GRCh38"] * D)
            group["features/feature_type"] = of_bytes(types or ["Gene Expression"] * D)
            group["features/_all_tag_keys"] = of_bytes(["genome"])
    return path


def rows_of(source: Any) -> np.ndarray:
    return np.concatenate([source.read(number).toarray() for number in range(len(source.bounds) - 1)])


@pytest.mark.parametrize("genomes", [(), ("GRCh38",)], ids=["version 3", "version 2"])
def test_cells_and_names_are_those_that_scanpy_reads(genomes: tuple[str, ...], tmp_path: Path) -> None:
    path = write(tmp_path / "cells.h5", *genomes, types=None)
    scanpy = pytest.importorskip("scanpy")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        read = scanpy.read_10x_h5(path)
        read.var_names_make_unique()

    source = open_matrix(path)

    np.testing.assert_array_equal(rows_of(source), read.X.toarray())
    assert list(source.feature_names) == list(read.var_names)
    assert source.dtype == np.int32  # sums of whole numbers are exact


def test_types_of_features_are_warned_of_and_can_be_chosen(tmp_path: Path) -> None:
    path = write(tmp_path / "cells.h5")
    genes = "feature_types == 'Gene Expression'"

    with pytest.warns(
        SpaeWarning, match=r"2 types: Antibody Capture, Gene Expression.*--mask \"feature_types == 'Gene"
    ):
        assert open_matrix(path).shape == (N, D)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert open_matrix(path, mask="none").shape == (N, D)
        chosen = open_matrix(path, mask=genes, rows="index != 'AAAC3-1'")

    kept = np.delete(COUNTS.toarray(), 3, axis=0)[:, : D - 4]
    assert chosen.shape == kept.shape
    np.testing.assert_array_equal(rows_of(chosen), kept)


def test_a_fit_of_the_file_is_that_of_its_matrix(tmp_path: Path) -> None:
    path, recipe = write(tmp_path / "cells.hdf5", types=None), "normalize_total(1e4), log1p"
    with h5py.File(write(tmp_path / "open.h5", types=None)) as file:
        opened = SparseEncoder(n_components=2, n_nonzero=5, recipe=recipe).fit(file)
    of_file = SparseEncoder(n_components=2, n_nonzero=5, recipe=recipe).fit(path)
    of_matrix = SparseEncoder(n_components=2, n_nonzero=5, recipe=recipe).fit(COUNTS)

    for fitted in (opened, of_file):
        np.testing.assert_allclose(fitted.certificate_.loss, of_matrix.certificate_.loss, rtol=1e-12)
        assert fitted.feature_names_in_[0] == "GENE0"

    ingest(path, tmp_path / "cells.zarr")
    np.testing.assert_array_equal(rows_of(open_matrix(tmp_path / "cells.zarr")), COUNTS.toarray())


def test_several_genomes_and_features_without_names_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"matrices of 2 genomes: hg19, mm10\. Read one with scanpy"):
        open_matrix(write(tmp_path / "two.h5", "hg19", "mm10"))

    short = write(tmp_path / "short.h5")
    with h5py.File(short, "a") as file:
        del file["matrix/features/name"]
        file["matrix/features/name"] = of_bytes(SYMBOLS[:-1])
    with pytest.raises(InvalidInput, match="names of its features are missing or do not fit"):
        open_matrix(short)


def test_a_plain_file_is_a_group_of_arrays(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "plain.h5", "w") as file:
        file["x"], file["more/y"] = COUNTS.toarray(), np.eye(4)

    only = open_matrix(tmp_path / "plain.h5")
    np.testing.assert_array_equal(only.read(0), COUNTS.toarray())
    np.testing.assert_array_equal(open_matrix(tmp_path / "plain.h5", array="more/y").read(0), np.eye(4))
    with pytest.raises(ValueError, match=r"no array 'z'; it has x"):
        open_matrix(tmp_path / "plain.h5", array="z")
