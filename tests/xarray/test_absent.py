"""Without xarray everything else works, and grids say what to install."""

from tests.forked import forked_program

BLOCK = """
import sys

assert "xarray" not in sys.modules

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "xarray":
            raise ModuleNotFoundError(name, name=name)

sys.meta_path.insert(0, Blocker())
import numpy as np
from spae_dask import SparseEncoder
from spae_dask.errors import InvalidInput
from spae_dask.storage.ingesting.ingest import ingest

SparseEncoder(1, n_nonzero=1).fit(np.random.default_rng(0).normal(size=(9, 3)))
for attempt in ("import spae_dask.xarray", "ingest('a.nc', 'x.zarr')"):
    try:
        exec(attempt)
    except InvalidInput as error:
        print(error)
"""


def test_grids_name_the_extra() -> None:
    process = forked_program(BLOCK)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    assert out.count('pip install "spae-dask[xarray]"') == 2
