"""The image, built for real and run as a cluster would: no rights, a root that cannot be written, limited memory."""

import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import zarr

from spae_dask import __version__
from spae_dask.cli.main import main
from tests.cli.conftest import write_zarr
from tests.clusters.conftest import ROOT, wait_until
from tests.integration.conftest import bits_of, ended

PROGRAMS = ("buildah", "podman", "mmdebstrap", "runc")
MISSING = [each for each in PROGRAMS if shutil.which(each) is None] + ["root"] * (os.getuid() != 0)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(1800),  # most of it is the fetching of packages, once for all tests
    pytest.mark.skipif(bool(MISSING), reason=f"needs root and {', '.join(PROGRAMS)}; not here: {', '.join(MISSING)}"),
]

IMAGE = "localhost/spae-test:latest"
MIB = 1 << 20
USER = 1000


@pytest.fixture(scope="module")
def image() -> Iterator[str]:
    """The image of ``deploy/Dockerfile``; what it is made on stays for the next time."""
    built = subprocess.run([ROOT / "deploy/container/build.sh", IMAGE], capture_output=True, text=True)
    assert built.returncode == 0, (built.stdout + built.stderr)[-3000:]
    yield IMAGE
    subprocess.run(["podman", "rmi", "--force", IMAGE], check=False, capture_output=True)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """What is mounted at ``/work``: it belongs to the user of the image."""
    path = tmp_path / "work"
    path.mkdir()
    os.chown(path, USER, USER)
    return path


@pytest.fixture
def name() -> str:
    """Of a test's container."""
    return f"spae-test-{os.getpid()}"


def remove(name: str) -> None:
    subprocess.run(["podman", "rm", "--force", "--ignore", "--time", "0", name], check=True, capture_output=True)


Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def start(image: str, folder: Path, name: str) -> Iterator[Start]:
    """Start words in the image, with ``folder`` at ``/work`` and without any network; one container at a time."""
    started: list[subprocess.Popen[str]] = []

    def run(*words: object, memory: str = "1g", options: tuple[str, ...] = ()) -> subprocess.Popen[str]:
        remove(name)
        command = ["podman", "--runtime", "runc", "run", "--name", name, "--read-only", "--network", "none"]
        command += ["--cap-drop", "all", "--security-opt", "no-new-privileges", "--memory", memory]
        command += ["--no-healthcheck"]  # podman wants systemd to repeat it
        # podman asks for more than a process without rights of its own over limits may have
        command += ["--ulimit", "nofile=1024:1024", "--ulimit", "nproc=4096:4096"]
        command += ["--volume", f"{folder}:/work", "--workdir", "/work", *options, image, *map(str, words)]
        started.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
        return started[-1]

    yield run
    remove(name)
    for process in started:
        if process.stdout is not None and not process.stdout.closed:
            process.communicate(timeout=60)


def fit(*more: object, strategy: str = "auto") -> list[object]:
    return ["spae", "fit", "x.zarr", "-k", 3, "-r", 5, "-o", "e.zarr", "--strategy", strategy, *more]


def names_in(folder: Path) -> set[str]:
    return {each.name for each in folder.iterdir()}


@pytest.mark.parametrize("where", ["none", "local:2"])
def test_a_fit_finds_the_same_bits_as_outside(
    start: Start, folder: Path, data: Path, serial: list[bytes], where: str
) -> None:
    options = ("--volume", f"{data}:/work/x.zarr:ro")
    code, _, err = ended(start(*fit("--cluster", where), options=options))
    assert code == 0, err
    assert bits_of(folder / "e.zarr") == serial
    inside, outside = (
        dict(zarr.open_group(path, mode="r").attrs["certificate"])
        for path in (folder / "e.zarr", data.with_name("e.zarr"))
    )
    assert inside == outside
    assert (folder / "e.zarr").stat().st_uid == USER


def test_the_limit_of_the_container_is_the_limit_of_the_plan(start: Start, folder: Path) -> None:
    write_zarr(folder / "x.zarr", np.random.default_rng(0).normal(size=(64, 8)), chunk_rows=16)
    for memory, limit in (("512m", 512 * MIB), ("768m", 768 * MIB)):
        words = ["spae", "plan", "x.zarr", "-k", "1", "-r", "2", "--json"]
        code, out, err = ended(start(*words, memory=memory))
        assert code == 0, err
        assert json.loads(out)["plan"]["resources"]["memory_limit"] == limit


def test_a_plan_beyond_the_limit_is_refused_before_anything_is_read(start: Start, folder: Path) -> None:
    write_zarr(folder / "x.zarr", np.ones((512, 4096), dtype="f4"), chunk_rows=256)
    chunks = [each for each in (folder / "x.zarr" / "c").rglob("*") if each.is_file()]
    assert len(chunks) == 2
    for each in chunks:
        each.chmod(0)
    words = fit("--cluster", "none", strategy="gram")
    code, _, err = ended(start(*words, memory="8g"))
    assert code == 5, "reading would have gone unnoticed: " + err
    code, _, err = ended(start(*words, memory="512m"))
    assert code == 4, err
    assert "158 MiB may be used beside an idle process. Nothing was read." in err
    assert names_in(folder) == {"x.zarr"}


def test_a_process_that_takes_more_than_the_limit_is_killed(start: Start) -> None:
    take = "import numpy; print(numpy.ones(400 << 20, dtype='u1').sum())"
    assert ended(start("python", "-c", take, memory="1g"))[:2] == (0, f"{400 * MIB}\n")
    assert ended(start("python", "-c", take, memory="256m"))[0] == 137


def test_the_health_check_works(start: Start, image: str, name: str) -> None:
    process = start("sleep", "infinity")
    words = ["podman", "inspect", "--format", "{{.State.Running}}", name]
    wait_until(lambda: subprocess.run(words, capture_output=True, text=True).stdout == "true\n", 60, "it runs")
    shown = subprocess.run(["podman", "image", "inspect", image], check=True, capture_output=True, text=True).stdout
    check = json.loads(shown)[0]["Healthcheck"]["Test"]
    assert check[0] == "CMD"
    said = subprocess.run(["podman", "exec", name, *check[1:]], check=True, capture_output=True, text=True)
    assert said.stdout == f"spae {__version__}\n"
    subprocess.run(["podman", "stop", "--time", "20", name], check=True, capture_output=True)
    assert ended(process)[0] == 143


@pytest.fixture
def long(folder: Path) -> Path:
    """A matrix whose reading takes a while: 4 GB, of which few chunks are stored."""
    path = folder / "x.zarr"
    array = zarr.create_array(str(path), shape=(16_000_000, 64), chunks=(100_000, 64), dtype="f4")
    array[:300_000] = np.random.default_rng(5).normal(size=(300_000, 64)) * np.arange(1, 65)
    return path


def stop(name: str, patience: int = 60) -> None:
    """``podman stop``, which kills after ``patience`` seconds."""
    subprocess.run(["podman", "stop", "--time", str(patience), name], check=True, capture_output=True)


@pytest.mark.chaos
@pytest.mark.parametrize("where", ["none", "local:2"])
def test_a_stopped_fit_leaves_nothing(start: Start, folder: Path, long: Path, name: str, where: str) -> None:
    process = start(*fit("--cluster", where), memory="2g")
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith("warning: "):  # of chunks not stored, given just before the pass
            break
    time.sleep(0.3)
    stop(name, 10)  # docker and podman kill after 10 seconds by default, Kubernetes after 30
    code, _, err = ended(process)
    assert code == 143, "it was killed"
    assert "error: interrupted (SIGTERM)" in err
    assert names_in(folder) == {"x.zarr"}


@pytest.mark.chaos
def test_a_stopped_fit_goes_on_from_its_checkpoint(
    start: Start, folder: Path, long: Path, name: str, tmp_path: Path
) -> None:
    words = fit("--cluster", "none", "--checkpoint", "kept")
    process = start(*words, memory="2g")
    wait_until(
        lambda: process.poll() is not None or list((folder / "kept").rglob("*.state")), 120, "a state in the checkpoint"
    )
    stop(name)
    assert ended(process)[0] == 143
    assert names_in(folder) == {"x.zarr", "kept"}
    code, _, err = ended(start(*words, memory="2g"), seconds=300)
    assert code == 0, err
    assert "resumed: " in err
    assert names_in(folder) == {"x.zarr", "e.zarr"}
    outside = tmp_path / "outside.zarr"
    assert main(["fit", str(long), "-k", "3", "-r", "5", "-o", str(outside), "--cluster", "none", "-q"]) == 0
    assert bits_of(folder / "e.zarr") == bits_of(outside)


WRITES = """
import os, pathlib
status = dict(line.split(":\\t", 1) for line in pathlib.Path("/proc/self/status").read_text().splitlines())
print(os.getuid(), os.getgid(), int(status["CapEff"], 16), status["NoNewPrivs"])
for place in ("/", "/opt/venv", "/etc", "/usr/bin", "/root", "/home", "/var/lib", "/data", "/work"):
    try:
        (pathlib.Path(place) / "new").write_text("x")
    except OSError as error:
        print(place, type(error).__name__)
    else:
        print(place, "written")
"""


def test_a_process_is_nobody_and_writes_nowhere_but_in_the_folder(start: Start, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir(mode=0o777)
    code, out, err = ended(start("python", "-c", WRITES, options=("--volume", f"{tmp_path / 'data'}:/data:ro")))
    assert code == 0, err
    who, *places = out.splitlines()
    assert who == f"{USER} {USER} 0 1"
    assert places[-1] == "/work written"
    assert all(each.endswith((" OSError", " PermissionError")) for each in places[:-1]), places
    assert names_in(folder) == {"new"}


def test_even_a_root_that_can_be_written_has_nothing_that_the_user_may_change(start: Start) -> None:
    words = ["find", "/", "-xdev", "-writable", "!", "-type", "l", "!", "-path", "/proc/*"]
    _, out, _ = ended(start(*words, options=("--read-only=false",)))
    assert set(out.split()) <= {"/tmp", "/var/tmp", "/run/lock", "/work"}


def test_nothing_of_where_it_was_built_is_in_the_image(start: Start) -> None:
    code, out, err = ended(start("sh", "-c", "ls -A /src /etc/pip.conf /run/secrets; ls -A /tmp; command -v pip"))
    assert (code, out) == (127, ""), out
    assert err.count("No such file or directory") == 3
