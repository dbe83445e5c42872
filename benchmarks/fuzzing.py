"""Damaged files of every kind that is read: made by a seed, given to the command line, and judged.

Right is a result, or an error of the package's own with its exit code. Wrong is an unforeseen exception, memory beyond
a budget that the system enforces, a crash, or a command that does not end.
"""

import io
import json
import multiprocessing
import resource
import shutil
import signal
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import zarr

from spae_dask.cli.main import main

FORKS = multiprocessing.get_context("forkserver")

BUDGET_NBYTES = 1 << 30
"""Address space beyond what the libraries take; files are of a few kB."""

SECONDS = 60
"""Most that one command may take."""

WRONG = ("unforeseen", "over the memory budget", "not an encoder's arrays", "crashed or did not end")

HUGE = (0, -1, 1 << 20, 1 << 31, 1 << 40, 1 << 62, 1 << 70, 1e308, 0.5, None, True, "8", [], {})
"""What a number in metadata becomes."""

OUTSIDE = ("/dev/null", "/proc/version")
"""Files that a link may lead to, which nothing harms."""
PLACES = ("", "../../etc/passwd", "/etc/passwd", "\x00", "\ud800", "$(id)")
TYPES = ("NaN", "float16", "<U8", "object", "|O", "complex128", "gzip")
WORDS = (*PLACES, *TYPES)
"""What a string becomes."""

SMALL_ROWS = 100_000
"""A store of more is planned for, and not read: its chunks that are missing are zeros, for as long as it takes."""

PIPELINE = """output = "results"

[[step]]
name = "fit"
kind = "fit"
data = "x.zarr"
n_components = 2
n_nonzero = 3

[[step]]
name = "codes"
kind = "transform"
data = "x.zarr"
encoder = "fit"
"""


@dataclass(frozen=True)
class Counts:
    """What came of damaged files of a kind.

    Attributes
    ----------
    outcomes : Counter
        How often each outcome: ``done``, the name of an error class, or one of `WRONG`.
    wrong : list of dict
        The records of those that are wrong; their seed makes them again.
    """

    outcomes: Counter[str]
    wrong: list[dict[str, Any]] = field(default_factory=list)


def judged(kind: str, first_seed: int, number: int) -> Counts:
    """Make ``number`` damaged files of ``kind``, each by its seed, and give them to commands in a child process."""
    counts = Counts(Counter())
    seed, last = first_seed, first_seed + number
    while seed < last:
        told, tell = FORKS.Pipe(duplex=False)
        child = FORKS.Process(target=_run, args=(kind, seed, last - seed, tell))
        child.start()
        tell.close()
        records = list(_received(told))
        child.join()
        if child.exitcode:  # it ended with the file after the last that it told of
            at = seed + len(records)
            records.append({"seed": at, "outcome": WRONG[3], "told": f"exit {child.exitcode}"})
        for record in records:
            counts.outcomes[record["outcome"]] += 1
            if record["outcome"] in WRONG:
                counts.wrong.append(record)
        seed += len(records)
    return counts


def _received(pipe: Connection) -> Iterator[dict[str, Any]]:
    with suppress(EOFError):
        while True:
            yield pipe.recv()


def commands(kind: str, folder: Path) -> Iterator[list[str]]:
    """What a user would do with the file, step by step."""
    if kind == "encoder":
        yield ["inspect", str(folder / "encoder.zarr"), "--json"]
    elif kind == "pipeline":
        yield ["run", str(folder / "pipeline.toml"), "--dry-run", "--json"]
    elif kind in ("csv", "npy"):
        yield ["ingest", str(folder / f"x.{kind}"), str(folder / "out.zarr"), "--json", "--force"]
    else:
        where = ["-k", "2", "-r", "3", "--method", "batch", "--cluster", "none", "--memory", "500MB", "--json"]
        yield ["plan", str(folder / "x.zarr"), *where]
        yield ["fit", str(folder / "x.zarr"), "-o", str(folder / "fitted.zarr"), "--force", *where]


def make(folder: Path) -> None:
    """One good file of each kind."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 6)) @ rng.standard_normal((6, 6))
    zarr.create_array(folder / "x.zarr", data=X, chunks=(20, 6), attributes={"feature_names": list("abcdef")})
    old = zarr.create_array(folder / "x2.zarr", data=X.astype(np.float32), chunks=(20, 3), zarr_format=2)
    assert old.metadata.zarr_format == 2
    group = zarr.create_group(folder / "csr.zarr", attributes={"encoding-type": "csr_matrix", "shape": [60, 6]})
    rows, columns = np.nonzero(X > 0)
    pointers = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=60))])
    for name, values in (("data", X[rows, columns]), ("indices", columns), ("indptr", pointers)):
        group.create_array(name, data=values, chunks=(50,))
    np.save(folder / "x.npy", X)
    text = io.StringIO()
    np.savetxt(text, X, delimiter=",", header="a,b,c,d,e,f", comments="")
    (folder / "x.csv").write_text(text.getvalue())
    (folder / "pipeline.toml").write_text(PIPELINE)
    words = ["fit", str(folder / "x.zarr"), "-k", "2", "-r", "3", "-o", str(folder / "encoder.zarr"), "-q"]
    assert main(words) == 0


def damage(kind: str, folder: Path, rng: Random) -> str:
    """Damage the file of ``kind`` in one to three ways; gives back which."""
    if kind in ("pipeline", "csv", "npy"):
        target = folder / {"pipeline": "pipeline.toml", "csv": "x.csv", "npy": "x.npy"}[kind]
        ways: tuple[Callable[[Path, Random], str], ...] = (flip, cut, splice, repeat)
        if kind != "npy":
            ways = (*ways, swap_words)
        return "; ".join(rng.choice(ways)(target, rng) for _ in range(rng.randint(1, 3)))
    store = folder / ("encoder.zarr" if kind == "encoder" else "x.zarr")
    told = []
    for _ in range(rng.randint(1, 3)):
        files = _files(store)
        metadata = [path for path in files if path.name.startswith((".z", "zarr.json"))]
        way = rng.choice((edit_json, edit_json, edit_json, nest, flip, cut, remove, exchange, link_outside))
        about_metadata = way in (edit_json, nest)
        target = rng.choice((metadata if about_metadata else files) or [store / "zarr.json"])
        if target.is_file() and not target.is_symlink():  # not lost, nor made a folder, by what was done before
            told.append(way(target, rng))
    return "; ".join(told)


def flip(path: Path, rng: Random) -> str:
    """Flip a few bits."""
    content = bytearray(path.read_bytes())
    for _ in range(rng.randint(1, 4)):
        if content:
            content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    path.write_bytes(content)
    return f"bits of {path.name}"


def cut(path: Path, rng: Random) -> str:
    """Cut the file short."""
    content = path.read_bytes()
    path.write_bytes(content[: rng.randrange(len(content) + 1)])
    return f"{path.name} cut"


def splice(path: Path, rng: Random) -> str:
    """Put random bytes somewhere."""
    content, at = path.read_bytes(), rng.randrange(path.stat().st_size + 1)
    path.write_bytes(content[:at] + rng.randbytes(rng.randint(1, 40)) + content[at:])
    return f"bytes into {path.name}"


def repeat(path: Path, rng: Random) -> str:
    """Repeat one byte, or an opening bracket, ten thousand times."""
    content, at = path.read_bytes(), rng.randrange(path.stat().st_size + 1)
    path.write_bytes(content[:at] + rng.choice((b"[", b"{a=", b'"', b"9", b"\n", b",")) * 10_000 + content[at:])
    return f"repetition in {path.name}"


def swap_words(path: Path, rng: Random) -> str:
    """Put a hostile word, or number, in the place of a word."""
    words = path.read_text(errors="replace").split(" ")
    words[rng.randrange(len(words))] = str(rng.choice((*WORDS, *HUGE))).encode(errors="replace").decode()
    path.write_text(" ".join(words))
    return f"a word of {path.name}"


def edit_json(path: Path, rng: Random) -> str:
    """Put a hostile value in the place of one of the metadata's, or take a key out."""
    document = _document(path)
    places = list(_places(document))
    if not places:
        return flip(path, rng)
    holder, key = rng.choice(places)
    if rng.random() < 0.2 and isinstance(holder, dict):
        del holder[key]
    elif isinstance(holder[key], str) and rng.random() < 0.7:
        holder[key] = rng.choice(WORDS)
    else:
        holder[key] = rng.choice((*HUGE, float("nan"), float("inf")))
    path.write_text(json.dumps(document))
    return f"{key!r} of {path.name}"


def nest(path: Path, rng: Random) -> str:
    """Nest brackets deeper than a parser can follow."""
    content, depth = path.read_text(errors="replace"), rng.choice((100, 2_000, 200_000))
    nested = '{"a":' * depth + "1" + "}" * depth
    path.write_text(content[:-1] + f',"attributes":{nested}}}')
    return f"{depth} brackets in {path.name}"


def remove(path: Path, rng: Random) -> str:  # noqa: ARG001 - of the form of the others
    """Lose a file."""
    path.unlink(missing_ok=True)
    return f"{path.name} lost"


def exchange(path: Path, rng: Random) -> str:
    """Exchange the contents of two files of the store."""
    root = next(parent for parent in path.parents if parent.suffix == ".zarr")
    other = rng.choice(_files(root) or [path])
    if path.exists():
        one, two = path.read_bytes(), other.read_bytes()
        path.write_bytes(two)
        other.write_bytes(one)
    return f"{path.name} and {other.name} exchanged"


def link_outside(path: Path, rng: Random) -> str:
    """Put a symbolic link to another file of the system, or a loop, in the place of a file."""
    path.unlink(missing_ok=True)
    target = rng.choice((*OUTSIDE, "nowhere", path.name, ".."))
    path.symlink_to(target)
    return f"{path.name} linked to {target}"


def _files(store: Path) -> list[Path]:
    """Its own: what is written to a link goes to where that leads, outside of the store."""
    return sorted(path for path in store.rglob("*") if path.is_file() and not path.is_symlink())


def _document(path: Path) -> Any:
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError, RecursionError):
        return {}


def _places(node: Any) -> Iterator[tuple[Any, Any]]:
    waiting = [node]  # a document may be nested deeper than functions may be
    while waiting:
        each = waiting.pop()
        items = each.items() if isinstance(each, dict) else enumerate(each) if isinstance(each, list) else ()
        for key, value in list(items):
            yield each, key
            waiting.append(value)


def judge(kind: str, folder: Path, original: Any) -> tuple[str, str]:
    """Outcome of the commands on the file, and what they said."""
    for argv in commands(kind, folder):
        if argv[0] == "fit" and _rows(folder / "x.zarr") > SMALL_ROWS:
            break
        printed, complaint = io.StringIO(), io.StringIO()
        with redirect_stdout(printed), redirect_stderr(complaint):
            try:
                code = main(argv)
            except BaseException as error:
                return WRONG[0], f"{' '.join(argv)}: {type(error).__name__}: {error}"
        told = (printed.getvalue() + complaint.getvalue())[-400:]
        if code == 1 or "Traceback" in told:
            return WRONG[0], told
        if "out of memory" in told:
            return WRONG[1], told
        if code:
            found = json.loads(printed.getvalue()).get("error")
            return str(found.get("class") if isinstance(found, dict) else f"exit {code}"), told
    if kind == "encoder" and not _same_arrays(folder / "encoder.zarr", original):
        return WRONG[2], ""
    return "done", ""


def _rows(path: Path) -> int:
    try:
        return int(getattr(zarr.open(path, mode="r"), "shape", (0,))[0])
    except Exception:
        return 0


def _arrays(path: Path) -> dict[str, bytes]:
    from spae_dask.storage.artifacts.artifact_reading import read_encoder

    return {name: array.tobytes() for name, array in read_encoder(path).arrays().items()}


def _same_arrays(path: Path, original: dict[str, bytes]) -> bool:
    return _arrays(path) == original


KINDS = ("encoder", "zarr", "zarr2", "csr", "pipeline", "csv", "npy")


def _run(kind: str, first_seed: int, number: int, tell: Connection) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        good, folder = Path(scratch) / "good", Path(scratch) / "damaged"
        good.mkdir()
        with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            make(good)
        original = _arrays(good / "encoder.zarr")
        if kind in ("zarr2", "csr"):
            shutil.rmtree(good / "x.zarr")
            (good / {"zarr2": "x2.zarr", "csr": "csr.zarr"}[kind]).rename(good / "x.zarr")
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        limit = pages * resource.getpagesize() + BUDGET_NBYTES
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        for seed in range(first_seed, first_seed + number):
            shutil.copytree(good, folder, symlinks=True)
            told = damage(kind, folder, Random(seed))  # noqa: S311 - no secret
            signal.alarm(SECONDS)
            outcome, said = judge(kind, folder, original)
            signal.alarm(0)
            tell.send({"seed": seed, "outcome": outcome, "damage": told, "told": said})
            shutil.rmtree(folder)
