"""Without ranks of MPI: what is said then."""

import sys

import pytest

from spae_dask.cli.main import main
from tests.clusters.conftest import ROOT, loaded_mpi


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
        (["mpi", "--cluster", "deploy/slurm/slurm.toml", "fit"], 3, "takes files of kind 'mpi'"),
    ],
)
def test_mistakes_are_told(capsys, monkeypatch, words, code, said):
    monkeypatch.chdir(ROOT)
    assert main(words) == code
    assert said in capsys.readouterr().err
