"""The demo itself: each step runs the function behind the command it shows."""

import os
import platform
import resource
import shlex
import shutil
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from dask.utils import format_bytes

from spae_dask import __version__
from spae_dask.algorithms.certificate import Certificate
from spae_dask.datasets.indian_pines import IndianPines, checkerboard, load_indian_pines
from spae_dask.engine.plan import Plan
from spae_dask.errors import OutputExists, StorageError
from spae_dask.estimators.checking import check
from spae_dask.estimators.evaluation import evaluate
from spae_dask.estimators.planning import plan
from spae_dask.estimators.saved import load_encoder, save_encoder
from spae_dask.estimators.sparse_encoder import SparseEncoder
from spae_dask.estimators.writing import transform_to_zarr
from spae_dask.report.demo_page import DemoResults, demo_page
from spae_dask.report.html import render
from spae_dask.report.sections import Step
from spae_dask.report.spectral_image import DensePCA
from spae_dask.storage.ingest import ingest
from spae_dask.storage.open import open_matrix
from spae_dask.storage.publish import publish

K, R, SELECTION = 5, 10, "exchange"
"""How the demo's encoder is made; the commands shown are written from these."""

SIDE = 29
"""Side, in pixels, of the squares the image is split into: 5 x 5 of them make the image."""

MARKER = ".spae-demo"
"""File that marks a folder as a demo's own."""

FILES = ("image.npy", "training.npy", "held-out.npy", "report.html")
STORES = ("training.zarr", "held-out.zarr", "encoder.zarr", "codes.zarr")
"""All that a demo writes, and all that it ever deletes."""

Say = Callable[[str], None]
T = TypeVar("T")


@dataclass(frozen=True)
class DemoOutcome:
    """What a demo leaves behind.

    Attributes
    ----------
    report : str
        The page.
    training, held_out : Certificate
        Losses on the pixels of the fit and on the others.
    selected : tuple of int
        Bands the encoder reads.
    commands : tuple of str
        The steps.
    seconds : float
        Of all of it.
    """

    report: str
    training: Certificate
    held_out: Certificate
    selected: tuple[int, ...]
    commands: tuple[str, ...]
    seconds: float

    def as_dict(self) -> dict[str, Any]:
        """The fields by name, for JSON."""
        return {
            "report": self.report,
            "training": self.training.as_dict(),
            "held_out": self.held_out.as_dict(),
            "selected": list(self.selected),
            "commands": list(self.commands),
            "seconds": self.seconds,
        }

    def describe(self) -> str:
        """A few lines for people."""
        return (
            f"loss      {self.training.ratio:.4f} x PCA's on the pixels of the fit, {self.held_out.ratio:.4f} x on "
            f"those held out\nreport    {self.report}\ntime      {self.seconds:.1f} s in all"
        )


class Walk:
    """Runs steps one after the other and keeps the record.

    Parameters
    ----------
    say : callable
        Told what is being done.
    """

    def __init__(self, say: Say) -> None:
        self.say = say
        self.steps: list[Step] = []

    def step(self, command: str, do: Callable[[], T], *, reads: str, show: Callable[[T], str]) -> T:
        """Show a command, do what it does, show what came of it."""
        self.say(f"\n$ {command}")
        began = time.perf_counter()
        done = do()
        self.steps.append(Step(command, time.perf_counter() - began, reads))
        self.say(show(done))
        return done


def run_demo(output: str, *, force: bool, say: Say) -> DemoOutcome:
    """Run the demo.

    Parameters
    ----------
    output : str
        Folder for everything written. An earlier demo's is replaced.
    force : bool
        Whether it may be a folder with other files in it; those that do not bear a name of the demo's are left alone.
    say : callable
        Told, a few lines at a time, what is being done.

    Raises
    ------
    NotFound
        If the image is not installed.
    OutputExists
        If the folder holds something else.
    StorageError
        If it cannot be written to.
    """
    began = time.perf_counter()
    folder = Path(output)
    data = load_indian_pines()
    prepare(folder, force=force)
    in_training = checkerboard(data.labels.shape, SIDE)
    _write_matrices(folder, data, in_training.ravel(), say)
    walk = Walk(say)
    encoder, fit_plan, held_out = _run_commands(folder, walk)
    commands = tuple(step.command for step in walk.steps)
    say("\nReport: the image decoded, dense PCA of the same pixels for comparison.")
    codes = open_matrix(folder / "codes.zarr")
    decoded = encoder.inverse_transform(np.vstack([codes.read(i) for i in range(len(codes.bounds) - 1)]))
    page = demo_page(
        DemoResults(
            data=data,
            in_training=in_training,
            side=SIDE,
            training=encoder.certificate_,
            held_out=held_out,
            plan=fit_plan,
            components=encoder.components_,
            explained=encoder.explained_variance_ratio_,
            spectrum=encoder.singular_values_,
            decoded=decoded.reshape(data.image.shape),
            pca=DensePCA.of(data.pixels[in_training.ravel()], K),
            steps=walk.steps,
            peak_nbytes=peak_nbytes(),
            facts=_facts(data, encoder),
            commands=commands,
        )
    )
    with publish(folder / "report.html", overwrite=True) as work:
        work.write_text(render(page), encoding="utf-8")
    return DemoOutcome(
        report=str(folder / "report.html"),
        training=encoder.certificate_,
        held_out=held_out,
        selected=tuple(int(band) for band in encoder.selected_features_),
        commands=commands,
        seconds=time.perf_counter() - began,
    )


def prepare(folder: Path, *, force: bool) -> None:
    """Have an empty place for everything: a new folder, an empty one, or an earlier demo's without the demo's files.

    Raises
    ------
    OutputExists
        If the folder holds other files and ``force`` is False, or is not a folder.
    StorageError
        If it cannot be written to.
    """
    if folder.exists() and not folder.is_dir():
        raise OutputExists(f"{folder} is a file. Give --output the name of a folder.")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()) and not (folder / MARKER).is_file() and not force:
            raise OutputExists(
                f"{folder} holds files that no demo wrote, and nothing was written to it. Give another folder with "
                "--output, or --force to write beside them."
            )
        for name in (*FILES, *STORES):
            _remove(folder / name)
        (folder / MARKER).write_text("`spae demo` writes here, and replaces what it wrote before.\n", encoding="utf-8")
    except OSError as error:
        if isinstance(error, OutputExists):
            raise
        raise StorageError(
            f"{folder} cannot be written to: {error.strerror or error}. Give another --output."
        ) from error


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _write_matrices(folder: Path, data: IndianPines, inside: npt.NDArray[np.bool_], say: Say) -> None:
    height, width, d = data.image.shape
    say(
        f"Indian Pines, {data.source}: {height} x {width} pixels of {d} spectral bands.\n"
        f"Split like a chessboard into squares of {SIDE} x {SIDE} pixels, one colour to fit on, the other held out:"
    )
    for name, rows in (("image", data.pixels), ("training", data.pixels[inside]), ("held-out", data.pixels[~inside])):
        path = folder / f"{name}.npy"
        with publish(path, overwrite=True) as work, work.open("wb") as file:
            np.save(file, rows)
        say(f"  {path}  {rows.shape[0]:,} x {d} {rows.dtype}")


def _run_commands(folder: Path, walk: Walk) -> tuple[SparseEncoder, Plan, Certificate]:
    """The steps from ``.npy`` files to an evaluated encoder."""
    paths = {name: str(folder / name) for name in (*FILES, *STORES)}
    typed = {name: shlex.quote(path) for name, path in paths.items()}
    size = {name: format_bytes(os.path.getsize(paths[name])) for name in FILES[:3]}
    training, encoder_path = paths["training.zarr"], paths["encoder.zarr"]
    for part in ("training", "held-out"):
        npy, store = f"{part}.npy", f"{part}.zarr"
        walk.step(
            f"spae ingest {typed[npy]} {typed[store]}",
            lambda npy=npy, store=store: ingest(paths[npy], paths[store]),  # type: ignore[misc]
            reads=size[npy],
            show=lambda report: report.describe(),
        )
    walk.step(f"spae check {typed['training.zarr']}", lambda: check(training), reads=size["training.npy"], show=str)
    fit_plan = walk.step(
        f"spae plan {typed['training.zarr']} -k {K} -r {R}",
        lambda: plan(training, K, n_nonzero=R),
        reads="metadata only",
        show=str,
    )

    def fit() -> SparseEncoder:
        fitted = SparseEncoder(K, n_nonzero=R, selection=SELECTION).fit(training)
        save_encoder(fitted, encoder_path, source=training)
        return fitted

    walk.step(
        f"spae fit {typed['training.zarr']} -k {K} -r {R} --selection {SELECTION} -o {typed['encoder.zarr']}",
        fit,
        reads=size["training.npy"],
        show=lambda fitted: str(fitted.certificate_),
    )
    encoder = load_encoder(encoder_path)
    walk.step(
        f"spae transform {typed['image.npy']} {typed['encoder.zarr']} -o {typed['codes.zarr']}",
        lambda: transform_to_zarr(paths["image.npy"], encoder, paths["codes.zarr"]),
        reads=size["image.npy"],
        show=lambda report: report.describe(),
    )
    held_out = walk.step(
        f"spae evaluate {typed['held-out.zarr']} {typed['encoder.zarr']}",
        lambda: evaluate(paths["held-out.zarr"], encoder),
        reads=size["held-out.npy"],
        show=str,
    )
    return encoder, fit_plan, held_out


def peak_nbytes() -> int:
    """Peak resident memory of this process so far."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _facts(data: IndianPines, encoder: SparseEncoder) -> list[tuple[str, str]]:
    libraries = ", ".join(f"{name} {version(name)}" for name in ("numpy", "scipy", "dask", "zarr"))
    return [
        ("package", f"spae-dask {__version__}"),
        (
            "with",
            f"Python {platform.python_version()}, {libraries}; {platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        ),
        ("image", f"{data.source}; AVIRIS, 12 June 1992; Baumgardner, Biehl and Landgrebe, doi:10.4231/R7RX991C"),
        ("its SHA-256", data.sha256),
        ("training data", f"fingerprint {encoder.provenance_['data_fingerprint']}"),
        (
            "encoder",
            f"method {encoder.method}, selection {encoder.selection}, strategy {encoder.provenance_['strategy']}, seed {encoder.random_state}",
        ),
        ("made", datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")),
    ]
