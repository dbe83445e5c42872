"""The commands of the demo: each is shown as a user would type it, and runs the function behind it."""

import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

from spae_dask.cli.demo_folder import FILES, STORES
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
from spae_dask.strategies.certificate import Certificate

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
