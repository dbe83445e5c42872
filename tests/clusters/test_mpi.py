"""On real ranks of Open MPI."""

import shutil
import sys

import pytest

from spae_dask.cli.main import main
from tests.clusters.conftest import MPI_PROGRAM, ROOT, bits_of, ended, loaded_mpi

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


def test_a_machine_without_a_library_of_mpi_is_told_what_to_install(capsys, monkeypatch):
    pytest.importorskip("mpi4py")

    class Absent:
        @staticmethod
        def find_spec(name, path=None, target=None):
            if name == "mpi4py.MPI":
                raise RuntimeError("cannot load MPI library\nlibmpi.so: cannot open shared object file")

    monkeypatch.setattr(sys, "meta_path", [Absent, *sys.meta_path])
    for name in ("mpi4py.MPI", "spae_dask.clusters.mpi"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.delattr("mpi4py.MPI", raising=False)
    assert main(["mpi", "fit", "x.zarr"]) == 3
    said = capsys.readouterr().err
    assert "cannot load MPI library libmpi.so: cannot open shared object file" in said
    assert "openmpi-bin" in said


def test_a_rank_alone_is_too_few(capsys):
    loaded_mpi()
    assert main(["mpi", "fit", "x.zarr"]) == 3
    assert "at least 3 MPI ranks, but has 1" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["mpi"], 2, "Missing argument"),
        (["mpi", "--cluster", "x", "fit"], 2, "not a cluster file"),
        (["mpi", "fit", "--cluster", "local"], 2, "before VERB"),
        (["mpi", "--cluster", "deploy/slurm/lab.toml", "fit"], 3, "takes files of kind 'mpi'"),
    ],
)
def test_mistakes_are_told(capsys, monkeypatch, words, code, said):
    monkeypatch.chdir(ROOT)
    assert main(words) == code
    assert said in capsys.readouterr().err
