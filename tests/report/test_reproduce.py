"""What a report says to type makes the very encoder again."""

import shlex

import numpy as np
import pytest
import scipy.sparse as sp

from spae_dask import SparseEncoder, load_encoder, open_matrix
from spae_dask.cli.main import main
from spae_dask.estimators.record import provenance_of
from spae_dask.estimators.saved import save_encoder
from spae_dask.report.reproduce import fit_command, python_lines
from tests.cli.conftest import D, planted, write_zarr
from tests.storage.anndata_stores import anndata_store

PATH = {"source": "/data/my X.zarr", "strategy": "gram"}


def test_paths_with_spaces_are_quoted_and_the_strategy_is_named():
    assert fit_command({"n_components": 3, "n_nonzero": 4}, PATH) == (
        "spae fit '/data/my X.zarr' -k 3 -r 4 --strategy gram -o encoder.zarr"
    )


def test_data_that_were_no_file_have_no_command():
    for source in ("the array", "dask array (3, 4) of chunks (1, 4)", None, 7):
        assert fit_command({"n_components": 2, "n_nonzero": 3}, {"source": source}) is None
        assert python_lines({"n_components": 2, "n_nonzero": 3}, {"source": source})[-1].startswith("encoder.fit(x)")


def test_a_source_cannot_end_its_comment():
    lines = python_lines({}, {"source": "array\nimport os"})
    assert all("\n" not in line for line in lines)
    compile("\n".join(lines), "lines", "exec")


def test_a_stream_is_fed_again():
    assert "partial_fit(rows)" in python_lines({}, {"source": "rows given to partial_fit"})[-1]


FITS = [
    {"n_nonzero": 4},
    {"n_nonzero": (5, 3), "method": "iterative", "scale": True, "center": False},
    {"effort": 0},
    {"keep": 0.8, "effort": 0},
    {"eps": 0.2, "effort": 0, "selection": "leverage", "random_state": 7},
    {"n_nonzero": 4, "strategy": "sketch", "n_candidates": 10, "sketch_rows": 60, "certified": True, "effort": 0},
    {"n_nonzero": 4, "strategy": "paper", "method": "batch", "n_repeats": 2, "power_iterations": 1},
    {"n_nonzero": 4, "strategy": "paper", "oversampling": 3, "projection": "frequent-directions", "split": "dual-set"},
    {"n_nonzero": 4, "method": "iterative", "selection": "adaptive-paper", "n_repeats": 3},
    {"n_nonzero": 4, "orthonormal": True, "precision": "fast", "missing": "zero", "missing_value": -1.0, "effort": 0},
    {"n_nonzero": 4, "method": "doubly-sparse", "n_rows": 5},
    {"n_nonzero": 4, "shared_support": True, "tolerance": 0.05, "effort": 0},
]


@pytest.mark.parametrize("options", FITS, ids=str)
def test_the_command_and_the_lines_make_the_same_bits(tmp_path, options):
    store = write_zarr(tmp_path / "x y.zarr", planted())
    save_encoder(SparseEncoder(2, **options).fit(str(store)), tmp_path / "e.zarr", source=str(store))
    first = load_encoder(tmp_path / "e.zarr")
    command = fit_command({**first.get_params(), "random_state": first.seed_}, first.provenance_)
    words = shlex.split(command)[1:]
    assert main([*words[:-1], str(tmp_path / "again.zarr"), "-q"]) == 0
    scope = {}
    exec("\n".join(python_lines(first.get_params(), first.provenance_)), scope)
    for again in (load_encoder(tmp_path / "again.zarr"), scope["encoder"]):
        np.testing.assert_array_equal(again.components_, first.components_)
        np.testing.assert_array_equal(again.decoder_, first.decoder_)
        assert again.certificate_ == first.certificate_


@pytest.mark.parametrize("name", ["x.h5ad", "x.zarr"])
@pytest.mark.parametrize("array", [None, "layers/counts"])
def test_a_store_is_named_by_its_path_and_its_array(tmp_path, name, array):
    path = str(cells(tmp_path / name))
    source = open_matrix(path, array=array)
    first = SparseEncoder(2, n_nonzero=3, method="batch").fit(source)
    save_encoder(first, tmp_path / "e.zarr", source=source)
    command = fit_command(first.get_params(), load_encoder(tmp_path / "e.zarr").provenance_)
    words = shlex.split(command)
    assert words[:3] == ["spae", "fit", path]
    assert main([*words[1:-1], str(tmp_path / "again.zarr"), "-q"]) == 0
    again = load_encoder(tmp_path / "again.zarr")
    np.testing.assert_array_equal(again.components_, first.components_)
    assert again.feature_names_in_.tolist() == first.feature_names_in_.tolist() == [f"g{i}" for i in range(D)]


def test_an_object_of_a_file_has_no_command(tmp_path):
    anndata = pytest.importorskip("anndata")
    backed = anndata.read_h5ad(cells(tmp_path / "x.h5ad"), backed="r")
    for data in (backed, backed[:200], backed.X):
        encoder = SparseEncoder(2, n_nonzero=3, method="batch").fit(data)
        record = provenance_of(encoder)
        assert fit_command(encoder.get_params(), record) is None, "which rows of the file it is, no record says"
        assert python_lines(encoder.get_params(), record)[-1].startswith("encoder.fit(x)  # the same data: ")
    backed.file.close()


def cells(path):
    """An AnnData store of planted rows, and of others as a layer."""
    X, names = planted()[:300], [f"g{i}" for i in range(D)]
    counts = sp.csr_array(np.round(np.abs(X)))
    if path.suffix == ".zarr":
        return anndata_store(path, X, names, {"counts": counts})
    anndata = pytest.importorskip("anndata")
    made = anndata.AnnData(X, layers={"counts": counts.toarray()})
    made.var_names = names
    made.write_h5ad(path)
    return path
