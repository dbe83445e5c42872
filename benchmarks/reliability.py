"""How the package behaves when workers die, stores fail, files are damaged, and a process lives long.

Run from the repository's root::

    python -m benchmarks.reliability [chaos resume changed faults fuzz soak memory slurm peers] [--runs N] [--markdown]

``chaos`` kills or stops a worker of two at a random moment of a fit: the bits must be those of a serial fit.
``resume`` kills a whole run, workers and all, at a random moment, and runs it again: the same bits, and no more is
read again than what workers were at. ``changed`` writes to the data under a run, see ``changed_data``. ``faults``
makes stores fail: a right result, or the right error, and nothing half-written. ``fuzz`` damages files, see
``fuzzing``. ``soak`` fits again and again in one process, which must not grow. ``memory`` measures what plans
promise, see ``promised_memory``. ``slurm`` ends jobs of pipelines on a real Slurm, see ``slurm_runs``. ``peers`` does
to a cluster what made other packages fail, see ``peer_bugs``. The exit code is 1 if anything went wrong.
``--markdown`` replaces the rows of the groups that were run.
"""

import argparse
import contextlib
import gc
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import dask
import psutil
import zarr
from distributed import Client

from benchmarks.changed_data import changed
from benchmarks.faulty import (
    CHUNK_ROWS,
    N_ROWS,
    SlowBlocks,
    faulty,
    fitted,
    forbidden,
    make_store,
    no_fault,
    outcome,
    throttled_for_ever,
    throttled_once,
)
from benchmarks.fuzzing import KINDS, judged
from benchmarks.peer_bugs import peers
from benchmarks.promised_memory import memory
from benchmarks.resuming import N_WORKERS
from benchmarks.rows import HEAD, Row, rewritten
from benchmarks.slurm_runs import slurm
from spae_dask.clusters.local import local_cluster
from spae_dask.passes.options import pass_options

RUNS = {"chaos": 25, "resume": 20, "changed": 25, "faults": 1, "fuzz": 1000, "soak": 500}
RUNS |= {"memory": 2, "slurm": 1, "peers": 1}
"""By default: runs of each case, damaged files of each kind, fits."""

TARGET = Path(__file__).with_name("reliability.md")

WORKER_NBYTES = 1 << 30

GROWTH_NBYTES = 16 << 20
"""A process may grow by this over a soak: allocators keep what they were given."""

WARM_FITS = 20
"""Fits before the first look at memory."""


@contextlib.contextmanager
def a_span_a_block() -> Iterator[None]:
    """Have passes cut into as many spans as there are blocks, for a ``with`` block."""
    with pass_options(min_span_nbytes=1, states_per_span=0):
        yield


@contextlib.contextmanager
def little_patience() -> Iterator[None]:
    """Look at stalled passes, and replace workers that stand still, after seconds; for a ``with`` block."""
    replaced = dask.config.set({"distributed.scheduler.worker-ttl": "5s"})
    with replaced, pass_options(backup_seconds=2.0, check_seconds=0.5):
        yield


def chaos(runs: int, scratch: Path) -> Iterator[Row]:
    """A worker of two is ended in four ways, or stopped, each time at a random moment."""
    with a_span_a_block(), little_patience():
        yield from _chaos(runs, scratch)


def _chaos(runs: int, scratch: Path) -> Iterator[Row]:
    make_store(scratch / "x.zarr")
    source = SlowBlocks(zarr.open_array(scratch / "x.zarr", mode="r"), target_nbytes=1)
    expected = fitted(SlowBlocks(source.array, target_nbytes=1, seconds=0.0))
    rng = random.Random(0)  # noqa: S311 - no secret
    ends = {"SIGKILL": _signal(signal.SIGKILL), "SIGTERM": _signal(signal.SIGTERM)}
    ends |= {"segmentation fault": _signal(signal.SIGSEGV), "memory overrun": _overrun}
    ends |= {"stopped (SIGSTOP)": _signal(signal.SIGSTOP)}
    for name, end in ends.items():
        wrong, ended = 0, 0
        for _ in range(runs):
            # a cluster for each: a worker that is asked to end takes its nanny with it
            with local_cluster(2, WORKER_NBYTES) as client:
                client.wait_for_workers(2, timeout=60)
                pids = list(client.run(os.getpid).values())
                timer = threading.Timer(rng.uniform(0.05, 0.6), end, (client, pids[0]))
                timer.daemon = True
                timer.start()
                wrong += fitted(source) != expected
                timer.join(30)
                ended += _is_gone(pids[0])
        yield Row("chaos", name, runs, wrong, f"{ended} workers ended; bits as on threads of one process")


def resume(runs: int, scratch: Path) -> Iterator[Row]:
    """A run is killed with all its processes at a random moment, and run again to its end."""
    with a_span_a_block():
        yield _resume(runs, scratch)


def _resume(runs: int, scratch: Path) -> Row:
    make_store(scratch / "x.zarr")
    expected = fitted(SlowBlocks(zarr.open_array(scratch / "x.zarr", mode="r"), target_nbytes=1, seconds=0.0))
    n_blocks = N_ROWS // CHUNK_ROWS
    rng = random.Random(0)  # noqa: S311 - no secret
    wrong, unfinished, most_again, saved = 0, 0, 0, 0
    for number in range(runs):
        folder = scratch / str(number)
        folder.mkdir()
        places = [scratch / "x.zarr", *(folder / name for name in ("checkpoint", "told", "encoder"))]
        first = _start_fit(places)
        while not (folder / "told").exists() and first.poll() is None:
            time.sleep(0.01)
        time.sleep(rng.uniform(0.0, 0.6))
        os.killpg(first.pid, signal.SIGKILL)  # a group of its own: this process, its scheduler, nannies and workers
        first.wait()
        _wait_for_group(first.pid)
        unfinished += not (folder / "encoder").exists()
        read_first = len((folder / "told").read_text().splitlines()) if (folder / "told").exists() else 0
        second = _start_fit(places)
        second.wait()
        read = len((folder / "told").read_text().splitlines())
        most_again = max(most_again, read - n_blocks)
        saved += n_blocks - (read - read_first)
        # a block a span, and no worker is at more than one
        wrong += (folder / "encoder").read_bytes() != expected or read - n_blocks > N_WORKERS
    said = (
        f"{unfinished} were killed before their end; at most {most_again} of {n_blocks} spans were read twice, "
        f"{saved / max(1, runs):.1f} on average were not read again; bits as of a serial fit"
    )
    return Row("resume", "kill -9 of all processes of a run", runs, wrong, said)


def _start_fit(places: list[Path]) -> "subprocess.Popen[bytes]":
    words = [sys.executable, "-m", "benchmarks.resuming", *map(str, places)]
    return subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)


def _wait_for_group(number: int) -> None:
    """Until no process of a group is left."""
    with contextlib.suppress(ProcessLookupError):
        for _ in range(500):
            os.killpg(number, 0)
            time.sleep(0.01)


def _is_gone(pid: int) -> bool:
    """Whether the process ends within a few seconds."""
    try:
        psutil.Process(pid).wait(10)
    except psutil.NoSuchProcess:
        return True
    except psutil.TimeoutExpired:
        return False
    return True


def _signal(number: int) -> Callable[[Client, int], None]:
    def send(client: Client, pid: int) -> None:  # noqa: ARG001
        os.kill(pid, number)

    return send


def _overrun(client: Client, pid: int) -> None:
    worker = next((address for address, found in client.run(os.getpid).items() if found == pid), None)
    if worker is not None:
        with contextlib.suppress(Exception):  # it dies before it answers
            client.run(_hog, workers=[worker])


def _hog() -> int:
    held = bytearray(b"x" * int(1.2 * WORKER_NBYTES))
    time.sleep(2)  # so that the nanny, which looks now and then, sees it
    return len(held)


def faults(runs: int, scratch: Path) -> Iterator[Row]:
    """Stores fail in seven ways."""
    path = scratch / "x.zarr"
    make_store(path)
    expected = fitted(faulty(path, no_fault))

    def damaged(damage: Callable[[Path], object]) -> Callable[[], bytes]:
        def fit() -> bytes:
            chunk = path / "c" / "7" / "0"
            content = chunk.read_bytes()
            damage(chunk)
            try:
                return fitted(str(path))
            finally:
                chunk.write_bytes(content)

        return fit

    def cut(chunk: Path) -> None:
        chunk.write_bytes(chunk.read_bytes()[:100])

    cases: dict[str, tuple[Callable[[], bytes], str]] = {
        "slow reads": (lambda: fitted(faulty(path, no_fault, delay=0.02)), "same bits"),
        "throttled now and then": (lambda: fitted(faulty(path, throttled_once)), "same bits"),
        "throttled for ever": (
            lambda: fitted(faulty(path, throttled_for_ever)),
            "TransientStorageError: chunk 'c/7/0'",
        ),
        "permission denied": (lambda: fitted(faulty(path, forbidden)), "StorageError: chunk 'c/7/0'"),
        "object cut short": (damaged(cut), "StorageError: chunk 'c/7/0'"),
        "object missing": (damaged(Path.unlink), "MissingChunksWarning"),
    }
    for name, (fit, wanted) in cases.items():
        said = [outcome(fit, expected) for _ in range(runs)]
        wrong = sum(not each.startswith(wanted) for each in said)
        yield Row("faults", name, runs, wrong, said[0].replace(f"{scratch}/", "").partition(". ")[0])
    said = [_full(path, scratch) for _ in range(runs)]
    yield Row("faults", "disk full", runs, sum(each != "exit code 5, nothing left" for each in said), said[0])


def _full(path: Path, scratch: Path) -> str:
    """Fit with an output that may not grow: the system refuses to write on, as a full disk or a quota does."""
    output = scratch / "full"
    output.mkdir(exist_ok=True)

    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (64, 64))

    child = subprocess.run(
        [
            sys.executable,
            "-m",
            "spae_dask",
            "fit",
            str(path),
            *["-k", "2", "-r", "4", "-q", "-o"],
            str(output / "enc.zarr"),
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        preexec_fn=limit,
        check=False,
    )
    left = sorted(each.name for each in output.iterdir())
    return f"exit code {child.returncode}, {', '.join(left) or 'nothing'} left"


def fuzz(runs: int, scratch: Path) -> Iterator[Row]:
    """Damaged files of every kind."""
    del scratch
    for kind in KINDS:
        counts = judged(kind, 0, runs)
        said = ", ".join(f"{name} {number:,}" for name, number in counts.outcomes.most_common())
        seeds = f"; seeds {[record['seed'] for record in counts.wrong[:10]]}" if counts.wrong else ""
        yield Row("fuzz", kind, runs, len(counts.wrong), said + seeds)


def soak(runs: int, scratch: Path) -> Iterator[Row]:
    """Fits in one process: memory, files, sockets, threads and child processes are as many after as before."""
    path = scratch / "x.zarr"
    make_store(path)
    for _ in range(min(WARM_FITS, runs)):
        fitted(str(path))
    before = _held(scratch)
    for _ in range(runs):
        fitted(str(path))
    after = _held(scratch)
    grown = after["bytes"] - before["bytes"]
    more = [name for name in before if name != "bytes" and after[name] > before[name]]
    leaked = [f"{name} {before[name]} -> {after[name]}" for name in more]
    said = f"grown by {grown / 2**20:.1f} MiB; {', '.join(leaked) or 'no file, socket, thread or process left over'}"
    yield Row("soak", "fits in one process", runs, int(grown > GROWTH_NBYTES) + len(leaked), said)


def _held(scratch: Path) -> dict[str, int]:
    gc.collect()
    process = psutil.Process()
    return {
        "bytes": process.memory_info().rss,
        "descriptors": process.num_fds(),
        "sockets": len(process.net_connections()),
        "threads": process.num_threads(),
        "children": len(process.children(recursive=True)),
        "scratch files": sum(1 for _ in scratch.rglob("*")),
    }


GROUPS = {
    "chaos": chaos,
    "resume": resume,
    "changed": changed,
    "faults": faults,
    "fuzz": fuzz,
    "soak": soak,
    "memory": memory,
    "slurm": slurm,
    "peers": peers,
}


def measure(groups: list[str], runs: int | None) -> Iterator[Row]:
    """The rows of the groups, as they come."""
    for group in groups:
        with tempfile.TemporaryDirectory(prefix="spae-reliability-") as scratch:
            yield from GROUPS[group](runs or RUNS[group], Path(scratch))


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Reliability, group by group.")
    parser.add_argument("groups", nargs="*", choices=[*GROUPS, []], help="default: all")
    parser.add_argument("--runs", type=int, help="of each case; default: " + str(RUNS))
    parser.add_argument("--markdown", action="store_true", help=f"put the rows into {TARGET.name}")
    given = parser.parse_args(argv)
    print(HEAD)
    rows = []
    for row in measure(given.groups or list(GROUPS), given.runs):
        rows.append(row)
        print(row, flush=True)
    if given.markdown:
        TARGET.write_text(rewritten(TARGET.read_text(), rows, list(GROUPS)))
    return int(any(row.wrong for row in rows))


if __name__ == "__main__":
    sys.exit(main())
