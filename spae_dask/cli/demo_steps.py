"""The demo: an encoder of one half of an image. Each command is shown as a user types it, and its function runs."""

import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from spae_dask.datasets.indian_pines import IndianPines, checkerboard, load_indian_pines
from spae_dask.errors import OutputExists, StorageError
from spae_dask.estimators.evaluation import evaluate
from spae_dask.estimators.planning import plan
from spae_dask.estimators.reporting import write_report
from spae_dask.estimators.saved import load_encoder, save_encoder
from spae_dask.estimators.sparse_encoder import SparseEncoder
from spae_dask.estimators.writing import transform_to_zarr
from spae_dask.plain_files import in_shell
from spae_dask.quantities import format_seconds
from spae_dask.report.image_section import DensePCA, ImageResults, image_section
from spae_dask.storage.ingesting.ingest import ingest
from spae_dask.storage.open import open_matrix
from spae_dask.storage.writing.publish import ZARR_MARKERS, publish
from spae_dask.strategies.certificate import Certificate

K, R = 5, 10
"""Size of the demo's encoder; all other parameters have their defaults."""

SIDE = 29
"""Side, in pixels, of the squares the image is split into: 5 x 5 of them make the image."""

MARKER = ".spae-demo"
"""File that marks a folder as a demo's own."""

FILES = ("image.npy", "training.csv", "held-out.csv", "report.html")
STORES = ("training.zarr", "held-out.zarr", "encoder.zarr", "codes.zarr")
"""All that a demo writes, and all that it ever deletes."""

Say = Callable[[str], None]
T = TypeVar("T")


@dataclass(frozen=True)
class DemoOutcome:
    """Results of a demo.

    Attributes
    ----------
    report : str
        Path of the page.
    training, held_out : Certificate
        Losses on the pixels of the fit and on the others.
    selected : tuple of int
        Bands the encoder reads.
    commands : tuple of str
        Commands that were run.
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
        """Return the fields by name, for JSON."""
        return vars(self) | {"training": self.training.as_dict(), "held_out": self.held_out.as_dict()}

    def describe(self) -> str:
        """Return a few lines for people."""
        return (
            f"loss      {self.training.ratio:.4f} x PCA's on the pixels of the fit, {self.held_out.ratio:.4f} x on "
            f"those held out\nreport    {self.report}\ntime      {format_seconds(self.seconds)} in all"
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
        Function that receives the progress, a few lines at a time.

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
    paths = {name: str(folder / name) for name in (*FILES, *STORES)}
    typed = {name: in_shell(path) for name, path in paths.items()}
    commands: list[str] = []

    def step(command: str, do: Callable[[], T], describe: Callable[[T], str] = str) -> T:
        commands.append(f"spae {command}")
        say(f"\n$ spae {command}")
        done = do()
        say(describe(done))
        return done

    for part in ("training", "held-out"):
        file, store = f"{part}.csv", f"{part}.zarr"
        step(
            f"ingest {typed[file]} {typed[store]} --dtype {data.image.dtype}",
            partial(ingest, paths[file], paths[store], dtype=data.image.dtype),
            lambda it: it.describe(),
        )
    training, size = paths["training.zarr"], f"-k {K} -r {R}"
    step(f"plan {typed['training.zarr']} {size}", lambda: plan(training, K, n_nonzero=R))

    def fit() -> Certificate:
        fitted = SparseEncoder(K, n_nonzero=R).fit(training)
        save_encoder(fitted, paths["encoder.zarr"], source=training)
        return fitted.certificate_

    step(f"fit {typed['training.zarr']} {size} -o {typed['encoder.zarr']}", fit)
    encoder = load_encoder(paths["encoder.zarr"])
    held_out = step(
        f"evaluate {typed['held-out.zarr']} {typed['encoder.zarr']}", lambda: evaluate(paths["held-out.zarr"], encoder)
    )
    step(
        f"transform {typed['image.npy']} {typed['encoder.zarr']} -o {typed['codes.zarr']}",
        lambda: transform_to_zarr(paths["image.npy"], encoder, paths["codes.zarr"]),
        lambda it: it.describe(),
    )

    def report() -> str:
        codes = open_matrix(paths["codes.zarr"])
        decoded = encoder.inverse_transform(np.vstack([codes.read(i) for i in range(len(codes.bounds) - 1)]))
        results = ImageResults(
            data=data,
            in_training=in_training,
            side=SIDE,
            training=encoder.certificate_,
            held_out=held_out,
            selected=encoder.selected_features_,
            decoded=decoded.reshape(data.image.shape),
            pca=DensePCA.of(data.pixels[in_training.ravel()], K),
        )
        write_report(encoder, paths["encoder.zarr"], paths["report.html"], added=(image_section(results),))
        return "The demo adds a section to this report: the image decoded from its codes, beside dense PCA's."

    step(f"report {typed['encoder.zarr']} -o {typed['report.html']}", report)
    return DemoOutcome(
        report=paths["report.html"],
        training=encoder.certificate_,
        held_out=held_out,
        selected=tuple(int(band) for band in encoder.selected_features_),
        commands=tuple(commands),
        seconds=time.perf_counter() - began,
    )


def prepare(folder: Path, *, force: bool) -> None:
    """Have an empty place for everything: a new folder, an empty one, or an earlier demo's without the demo's files.

    Raises
    ------
    OutputExists
        If the folder holds other files and ``force`` is False, or is not a folder; or if something else bears a name of
        the demo's.
    StorageError
        If it cannot be written to.
    """
    if folder.exists() and not folder.is_dir():
        raise OutputExists(f"{folder} is a file. Give a folder with --output.")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()) and not (folder / MARKER).is_file() and not force:
            raise OutputExists(
                f"{folder} contains files that `spae demo` did not write. Nothing was written. Give another folder "
                "with --output, or --force to write beside them."
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
    if path.is_symlink() or not path.is_dir():
        path.unlink(missing_ok=True)
    elif any((path / marker).is_file() for marker in ZARR_MARKERS):
        shutil.rmtree(path)
    else:
        raise OutputExists(f"{path} is a folder that `spae demo` did not make. Move it away, or give another --output.")


def _write_matrices(folder: Path, data: IndianPines, inside: npt.NDArray[np.bool_], say: Say) -> None:
    height, width, d = data.image.shape
    say(
        f"Indian Pines, {data.source}: {height} x {width} pixels of {d} spectral bands.\n"
        f"Split like a chessboard into squares of {SIDE} x {SIDE} pixels, one colour to fit on, the other held out:"
    )
    for name, rows in (
        ("image.npy", data.pixels),
        ("training.csv", data.pixels[inside]),
        ("held-out.csv", data.pixels[~inside]),
    ):
        path = folder / name
        with publish(path, overwrite=True) as work, work.open("wb") as file:
            if name.endswith(".npy"):
                np.save(file, rows)
            else:
                np.savetxt(file, rows, fmt="%d", delimiter=",", header=",".join(data.band_names), comments="")
        say(f"  {path}  {rows.shape[0]:,} x {d} {rows.dtype}")
