"""Fits that are killed again and again, and the same fit wherever it runs, each in a process of its own."""

import numpy as np
import pytest
import zarr

from tests.cli.conftest import QUICK, write_zarr
from tests.cli.test_checkpoint import killed_and_given_again, wide  # noqa: F401 - a fixture


@pytest.mark.chaos
@pytest.mark.parametrize("where", ["none", "local:2"])
def test_a_fit_that_is_killed_at_any_moment_comes_to_the_same_bits(where, spae, spae_process, wide, tmp_path):  # noqa: F811
    killed_and_given_again(where, [1, 2, 3], spae, spae_process, wide, tmp_path)


def test_components_have_the_same_bytes_wherever_they_are_found(spae_process, tmp_path):
    rng = np.random.default_rng(3)
    # 96 MiB, so that there are three spans to be merged
    store = write_zarr(tmp_path / "x.zarr", rng.normal(size=(196_608, 128)).astype(np.float32), chunk_rows=16_384)
    found = []
    for where in ("none", "local:1", "local:2"):
        encoder = tmp_path / f"{where.replace(':', '')}.zarr"
        process = spae_process("fit", store, "-k", 3, "-r", 5, *QUICK, "-o", encoder, "--cluster", where, "--json")
        out, err = process.communicate(timeout=120)
        assert process.returncode == 0, err
        assert '"spans": 3' in out.replace("n_spans", "spans")
        group = zarr.open_group(encoder, mode="r")
        found.append([group[name][...].tobytes() for name in ("indptr", "indices", "values", "decoder", "mean")])
    assert found[0] == found[1] == found[2]
