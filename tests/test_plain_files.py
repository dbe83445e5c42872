"""Pipes in the place of any file that is read: an error at once, not a wait without end."""

import os
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from spae_dask import open_matrix
from spae_dask.cli.main import main
from spae_dask.errors import InvalidInput
from spae_dask.plain_files import in_shell, refuse_pipes
from spae_dask.storage.checkpoints.checkpoint_record import states_at
from spae_dask.storage.ingesting.ingest import ingest

pytestmark = pytest.mark.timeout(60)


@pytest.fixture
def pipe(tmp_path: Path) -> Callable[[str], Path]:
    """Function that makes a pipe of some name."""

    def make(name: str) -> Path:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        os.mkfifo(tmp_path / name)
        return tmp_path / name

    return make


@pytest.mark.parametrize("name", ["x.npy", "x.h5ad", "x.parquet", "x.feather", "x.zarr", "x", "folder/part.parquet"])
@pytest.mark.parametrize("scheme", ["", "file://"])
def test_a_pipe_is_no_matrix(pipe: Callable[[str], Path], name: str, scheme: str) -> None:
    path = pipe(name)
    with pytest.raises(InvalidInput, match=rf"{path.name} is a pipe, but spae_dask reads files"):
        open_matrix(f"{scheme}{path.parent if '/' in name else path}")


@pytest.mark.parametrize("name", ["x.csv", "x.tsv.gz", "x.nc", "x.npy"])
def test_a_pipe_is_not_ingested(pipe: Callable[[str], Path], name: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"is a pipe.*Write its content to a file"):
        ingest(pipe(name), tmp_path / "y.zarr")
    assert not (tmp_path / "y.zarr").exists()


def test_a_link_to_a_pipe_is_one(pipe: Callable[[str], Path], tmp_path: Path) -> None:
    (tmp_path / "link.npy").symlink_to(pipe("x.npy"))
    with pytest.raises(InvalidInput, match=r"link.npy is a pipe"):
        open_matrix(tmp_path / "link.npy")


@pytest.mark.parametrize(
    "words",
    [
        ["run", "{pipe}"],
        ["submit", "slurm", "{pipe}"],
        ["check", "x.zarr", "--cluster", "{pipe}"],
        ["report", "e.zarr", "-o", "r.html", "--path", "{pipe}"],
    ],
)
def test_a_pipe_is_no_file_that_a_command_reads(
    words: list[str], pipe: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    monkeypatch.chdir(tmp_path)
    small = Path("small.csv")
    small.write_text("a,b,c\n" + "\n".join(f"{i},{i * i % 7},{i % 3}" for i in range(20)))
    assert main(["ingest", str(small), "x.zarr", "-q"]) == 0
    assert main(["fit", "x.zarr", "-k", "1", "-r", "2", "-o", "e.zarr", "-q"]) == 0
    path = pipe("odd.toml")
    assert main([word.format(pipe=path) for word in words]) == 3
    assert f"{path.name} is a pipe" in capsys.readouterr().err


def test_a_state_that_is_a_pipe_is_not_waited_for(pipe: Callable[[str], Path]) -> None:
    path = pipe("kept/record.json")
    with pytest.raises(InvalidInput, match="is a pipe"), states_at(path.parent).open("record.json"):
        pass


def test_devices_and_sockets_are_told_apart_from_files(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="/dev/null is a device"):
        refuse_pipes("/dev/null")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "s"))
        with pytest.raises(InvalidInput, match="s is a socket"):
            refuse_pipes(tmp_path / "s")
    for path in (tmp_path, tmp_path / "absent", "with\0null", __file__):
        refuse_pipes(path)


@pytest.mark.parametrize("name", ["plain.zarr", "-dash.zarr", "--force", "with space.zarr", "it's.zarr", "$HOME;x"])
def test_a_path_in_a_command_is_one_word_that_no_program_takes_for_an_option(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("found")
    ended = subprocess.run(["sh", "-c", f"cat {in_shell(name)}"], cwd=tmp_path, capture_output=True, text=True)
    assert (ended.stdout, ended.stderr) == ("found", "")
