"""On real ranks of Open MPI."""

import shutil
import sys

import pytest

from tests.integration.conftest import bits_of, ended

MPI_PROGRAM = "mpirun"
MPIRUN = (
    MPI_PROGRAM, "-n", "3", "--oversubscribe", "--mca", "btl", "self,vader,tcp", "--mca", "btl_tcp_if_include", "lo",
    "--mca", "oob_tcp_if_include", "lo", sys.executable, "-m", "spae_dask", "mpi",
)  # fmt: skip
FIT = ("fit", "x.zarr", "-k", 3, "-r", 5)


@pytest.fixture
def ranks(start, place, monkeypatch):
    """Run a command on three ranks."""
    if shutil.which(MPI_PROGRAM) is None:
        pytest.skip("needs mpirun (openmpi-bin of Debian)")
    monkeypatch.setenv("OMPI_ALLOW_RUN_AS_ROOT", "1")
    monkeypatch.setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")
    (place / "mpi.toml").write_text('kind = "mpi"\nmemory = "1GB"\ninterface = "lo"\n')
    return lambda *words: ended(start("--cluster", "mpi.toml", *words, command=MPIRUN))


def test_a_fit_on_ranks_has_the_bits_of_one_process(ranks, place, serial):
    code, out, err = ranks(*FIT, "-o", "e.zarr")
    assert code == 0, err
    assert out.count("x PCA's loss") == 1
    assert "Traceback" not in err
    assert bits_of(place / "e.zarr") == serial


def test_the_exit_code_of_the_command_is_that_of_mpirun(ranks):
    code, _, err = ranks("fit", "nothing.zarr", "-k", 3, "-r", 5, "-o", "e.zarr")
    assert code == 3
    assert err.count("error: there is nothing at nothing.zarr") == 1
