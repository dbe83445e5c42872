"""The demo: the image is split, the commands are run, the page is written."""

import os
import platform
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from spae_dask import __version__
from spae_dask.cli.demo_commands import K, Say, Walk, prepare, run_commands
from spae_dask.datasets.indian_pines import IndianPines, checkerboard, load_indian_pines
from spae_dask.estimators.sparse_encoder import SparseEncoder
from spae_dask.passes.stopwatch import peak_nbytes
from spae_dask.plain_files import in_shell
from spae_dask.report.demo_page import demo_page
from spae_dask.report.demo_results import DemoResults
from spae_dask.report.html import render
from spae_dask.report.spectral_image import DensePCA
from spae_dask.storage.open import open_matrix
from spae_dask.storage.writing.publish import publish
from spae_dask.strategies.certificate import Certificate

SIDE = 29
"""Side, in pixels, of the squares the image is split into: 5 x 5 of them make the image."""


@dataclass(frozen=True)
class DemoOutcome:
    """Results of a demo.

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
        Time of the whole demo, in seconds.
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


def run_demo(output: str, *, force: bool, say: Say) -> DemoOutcome:
    """Run the demo.

    Parameters
    ----------
    output : str
        Folder for everything written. An earlier demo's is replaced.
    force : bool
        True to write into a folder that holds other files. Files that do not have a name of the demo's stay as they
        are.
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
    encoder, fit_plan, held_out = run_commands(folder, walk)
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
            commands=(
                f'pip install "spae-dask[demo]=={__version__}"',
                f"spae demo --output {in_shell(output)}",
                "",
                "# which splits the image, writes this page, and in between does what these commands do",
                *commands,
            ),
        )
    )
    with publish(folder / "report.html", overwrite=True) as work:
        work.write_text(render(page), encoding="utf-8", errors="backslashreplace")
    return DemoOutcome(
        report=str(folder / "report.html"),
        training=encoder.certificate_,
        held_out=held_out,
        selected=tuple(int(band) for band in encoder.selected_features_),
        commands=commands,
        seconds=time.perf_counter() - began,
    )


def _write_matrices(folder: Path, data: IndianPines, inside: npt.NDArray[np.bool_], say: Say) -> None:
    height, width, d = data.image.shape
    say(
        f"Indian Pines, {data.source}: {height} x {width} pixels of {d} spectral bands.\n"
        f"Split like a chessboard into squares of {SIDE} x {SIDE} pixels, one colour to fit on, the other held out:"
    )
    for name, rows in (
        ("image", data.pixels),
        ("training", data.pixels[inside]),
        ("held-out", data.pixels[~inside]),
    ):
        path = folder / f"{name}.npy"
        with publish(path, overwrite=True) as work, work.open("wb") as file:
            np.save(file, rows)
        say(f"  {path}  {rows.shape[0]:,} x {d} {rows.dtype}")


def _facts(data: IndianPines, encoder: SparseEncoder) -> list[tuple[str, str]]:
    libraries = ", ".join(f"{name} {version(name)}" for name in ("numpy", "scipy", "dask", "zarr"))
    machine = f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores"
    record = encoder.provenance_
    choices = (
        f"method {encoder.method}, selection {encoder.selection}, strategy {record['strategy']}, seed {record['seed']}"
    )
    return [
        ("package", f"spae-dask {__version__}"),
        ("with", f"Python {platform.python_version()}, {libraries}; {machine}"),
        ("image", f"{data.source}; AVIRIS, 12 June 1992; Baumgardner, Biehl and Landgrebe, doi:10.4231/R7RX991C"),
        ("its SHA-256", data.sha256),
        ("training data", f"fingerprint {record['data_fingerprint']}"),
        ("encoder", choices),
        ("made", datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")),
    ]
