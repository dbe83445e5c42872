"""What a report says to type makes the very encoder again."""

import shlex

import numpy as np
import pytest

from spae_dask import SparseEncoder, load_encoder
from spae_dask.cli.main import main
from spae_dask.estimators.saved import save_encoder
from spae_dask.report.reproduce import fit_command, python_lines
from tests.cli.conftest import planted, write_zarr

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
