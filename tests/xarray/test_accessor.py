"""The accessor gives the encoder that GridEncoder gives, and is there only where spae_dask.xarray is imported."""

import numpy as np
import pytest
import xarray as xr

from spae_dask.errors import InvalidInput
from spae_dask.xarray import GridEncoder
from tests.forked import forked_program
from tests.xarray.grids import field

HOW = {"n_components": 3, "n_nonzero": 4, "method": "batch", "weights": "coslat"}


def test_the_encoder_is_that_of_the_class() -> None:
    sea = xr.DataArray(np.arange(20).reshape(4, 5) % 3 > 0, dims=("lat", "lon"))
    found = field().spae.fit("time", mask=sea, **HOW)
    wanted = GridEncoder(**HOW).fit(field(), "time", mask=sea)
    assert isinstance(found, GridEncoder)
    assert found.get_params() == wanted.get_params()
    assert found.certificate_ == wanted.certificate_
    xr.testing.assert_identical(found.components(), wanted.components())
    assert found.components().isnull().any(), "the mask leaves cells out"


def test_the_samples_are_those_of_time_by_default() -> None:
    run = field().assign_coords(time=np.datetime64("2000-01-01", "ns") + np.arange(60) * np.timedelta64(1, "D"))
    found = run.transpose("lat", "time", "lon").spae.fit(**HOW)
    xr.testing.assert_allclose(found.components(), run.spae.fit("time", **HOW).components())


def test_faults_are_those_of_the_class() -> None:
    with pytest.raises(TypeError, match=r"takes no parameter 'n_nonzeros'\. Did you mean 'n_nonzero'\?"):
        field().spae.fit("time", n_nonzeros=3)
    with pytest.raises(InvalidInput, match="'tme' is not a dimension"):
        field().spae.fit("tme", **HOW)


def test_the_package_alone_adds_no_accessor() -> None:
    script = "import xarray, spae_dask; spae_dask.SparseEncoder; print(hasattr(xarray.DataArray, 'spae'))"
    out, err = forked_program(script).communicate(timeout=60)
    assert out == "False\n", err
