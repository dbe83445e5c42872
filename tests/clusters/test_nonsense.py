"""What nobody can mean, and what is no scheduler: refused in the user's words and in time."""

import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from distributed import Client

from spae_dask.cli.main import main
from spae_dask.clusters import running
from spae_dask.clusters.connect import connect
from spae_dask.clusters.specs import read_cluster
from spae_dask.errors import ClusterUnavailable, InvalidInput


@pytest.fixture
def mute() -> Iterator[str]:
    """Something that takes connections, and reads, but says nothing that dask understands."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        kept = []

        def take() -> None:
            while True:
                try:
                    kept.append(server.accept()[0])
                    kept[-1].sendall(b"HTTP/1.0 400 Bad request syntax\r\n\r\n" * 20)
                except OSError:
                    return

        threading.Thread(target=take, daemon=True).start()
        yield f"tcp://127.0.0.1:{server.getsockname()[1]}"
        for each in kept:
            each.close()


@pytest.mark.timeout(60)
def test_what_is_no_scheduler_is_found_out_within_the_time_for_an_answer(
    mute: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "TIMEOUT_SECONDS", 1)
    with pytest.raises(ClusterUnavailable, match=r"no Dask scheduler answers at .* within 1\.0 s"), connect(mute):
        pass


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('kind = "slurm"\njobs = 99999999999999999999', "line 2: jobs: 99999999999999999999 is not allowed: give a"),
        ('kind = "local"\nworkers = 100001', "line 2: workers: 100001 is not allowed"),
        ('kind = "local"\nworkers = 1\nmemory = "\u0663GB"', "line 3: memory: '\u0663GB' is not allowed"),
        ('kind = "slurm"\njobs = 1\nwalltime = "\u0663h"', "line 3: walltime: '\u0663h' is not allowed"),
        ('kind = "scheduler"\naddress = "tcp://a:99999"', "line 2: address: 'tcp://a:99999' is not allowed"),
        ('kind = "slurm"\njobs = 1\noptions = "--x"', "give a list, such as ['one', 'two']"),
    ],
)
def test_numbers_and_types_that_nobody_can_mean_are_refused_with_their_line(
    text: str, said: str, tmp_path: Path
) -> None:
    (tmp_path / "c.toml").write_text(text, encoding="utf-8")
    with pytest.raises(InvalidInput) as found:
        read_cluster(tmp_path / "c.toml")
    assert said in str(found.value)


@pytest.mark.parametrize("where", ["tcp://127.0.0.1:99999", "tls://127.0.0.1:0", "local:100000"])
def test_ports_and_processes_that_there_cannot_be_are_mistakes_of_usage(
    where: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    np.save(tmp_path / "x.npy", np.eye(4))
    assert main(["plan", str(tmp_path / "x.npy"), "-k", "1", "-r", "1", "--cluster", where]) == 2
    assert "is not a cluster. Give" in capsys.readouterr().err


def test_a_file_for_ranks_of_mpi_is_refused_with_the_command_that_takes_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mpi.toml").write_text('kind = "mpi"')
    np.save(tmp_path / "x.npy", np.eye(4))
    words = ["plan", str(tmp_path / "x.npy"), "-k", "1", "-r", "1", "--cluster", str(tmp_path / "mpi.toml")]
    assert main(words) == 3
    said = capsys.readouterr().err
    assert "spae mpi --cluster FILE.toml" in said
    assert "timeout=" not in said


def test_a_job_whose_workers_could_not_have_certificates_is_refused_before_it_is_submitted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "a b"
    folder.mkdir()
    monkeypatch.chdir(folder)
    np.save("x.npy", np.eye(4))
    Path("p.toml").write_text(
        'output = "out"\n[[step]]\nkind = "fit"\nname = "e"\ndata = "x.npy"\nn_components = 1\nn_nonzero = 1\n'
    )
    cluster = 'kind = "slurm"\njobs = 1\nmemory = "1GB"\n'
    Path("c.toml").write_text(cluster)
    assert main(["submit", "slurm", "p.toml", "--cluster", "c.toml", "--dry-run"]) == 3
    assert "a job script cannot contain that path" in capsys.readouterr().err
    Path("c.toml").write_text(f'{cluster}logs = "{tmp_path}/logs"\n')
    assert main(["submit", "slurm", "p.toml", "--cluster", "c.toml", "--dry-run"]) == 0


def test_a_scheduler_of_another_release_of_distributed_is_refused_in_words(
    monkeypatch: pytest.MonkeyPatch, open_cluster: Callable[[int], Client]
) -> None:
    address = open_cluster(1).scheduler.address

    def client(*_: object, **__: object) -> None:
        raise TypeError("Scheduler.identity() got an unexpected keyword argument 'n_workers'")

    monkeypatch.setattr("spae_dask.clusters.running.Client", client)
    with pytest.raises(ClusterUnavailable, match="another release of distributed than"), connect(address):
        pass
