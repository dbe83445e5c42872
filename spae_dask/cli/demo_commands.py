"""The commands of the demo: each is shown as a user would type it, and runs the function behind it."""

import os
import shutil
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

from spae_dask.errors import OutputExists, StorageError
from spae_dask.estimators.checking import check
from spae_dask.estimators.evaluation import evaluate
from spae_dask.estimators.planning import plan
from spae_dask.estimators.saved import load_encoder, save_encoder
from spae_dask.estimators.sparse_encoder import SparseEncoder
from spae_dask.estimators.writing import transform_to_zarr
from spae_dask.passes.memory import format_nbytes
from spae_dask.passes.plan import Plan
from spae_dask.plain_files import in_shell
from spae_dask.report.sections import Step
from spae_dask.storage.ingesting.ingest import ingest
from spae_dask.storage.writing.publish import ZARR_MARKERS
from spae_dask.strategies.certificate import Certificate

MARKER = ".spae-demo"
"""File that marks a folder as a demo's own."""

FILES = ("image.npy", "training.npy", "held-out.npy", "report.html")
STORES = ("training.zarr", "held-out.zarr", "encoder.zarr", "codes.zarr")
"""All that a demo writes, and all that it ever deletes."""


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
    if path.is_symlink() or not path.is_dir():
        path.unlink(missing_ok=True)
    elif any((path / marker).is_file() for marker in ZARR_MARKERS):
        shutil.rmtree(path)
    else:
        raise OutputExists(f"{path} is a folder that no demo made. Move it away, or give another --output.")


K, R = 5, 10
"""Size of the demo's encoder; all else is as a plain fit has it. The commands shown are written from these."""

Say = Callable[[str], None]
T = TypeVar("T")


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


def run_commands(folder: Path, walk: Walk) -> tuple[SparseEncoder, Plan, Certificate]:
    """The steps from ``.npy`` files to an evaluated encoder."""
    paths = {name: str(folder / name) for name in (*FILES, *STORES)}
    typed = {name: in_shell(path) for name, path in paths.items()}
    size = {name: format_nbytes(os.path.getsize(paths[name])) for name in FILES[:3]}
    training, encoder_path = paths["training.zarr"], paths["encoder.zarr"]
    for part in ("training", "held-out"):
        npy, store = f"{part}.npy", f"{part}.zarr"
        walk.step(
            f"spae ingest {typed[npy]} {typed[store]}",
            partial(ingest, paths[npy], paths[store]),
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
        fitted = SparseEncoder(K, n_nonzero=R).fit(training)
        save_encoder(fitted, encoder_path, source=training)
        return fitted

    walk.step(
        f"spae fit {typed['training.zarr']} -k {K} -r {R} -o {typed['encoder.zarr']}",
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
