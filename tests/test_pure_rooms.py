"""The numerical rooms need numpy, scipy and threadpoolctl only: for a whole fit, and for their own tests."""

import subprocess
import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).parent.parent

BLOCKED = (
    "anndata",
    "dask",
    "distributed",
    "fsspec",
    "pandas",
    "pydantic",
    "rich",
    "sklearn",
    "typer",
    "xarray",
    "zarr",
)

BLOCK = textwrap.dedent(
    f"""
    import sys

    class Blocker:
        def find_spec(self, name, path=None, target=None):
            if name.partition(".")[0] in {BLOCKED}:
                raise ModuleNotFoundError(f"{{name}} is not for the pure rooms", name=name)

    sys.meta_path.insert(0, Blocker())
    """
)

IMPORT_ALL = """
import importlib
import pkgutil
import spae_dask
from spae_dask import baselines, maths, passes, strategies

names = ["spae_dask.errors", "spae_dask.blocks", "spae_dask.markup"]
for room in (baselines, maths, passes, strategies):
    names += [module.name for module in pkgutil.walk_packages(room.__path__, room.__name__ + ".")]
for name in names:
    importlib.import_module(name)
print(len(names))
"""

FIT = """
import numpy as np
from spae_dask.strategies.core import read_core
from spae_dask.strategies.evaluation import Autoencoder, evaluate_encoder
from spae_dask.strategies.parameters import FitParameters
from spae_dask.strategies.sparse_encoder import encode_core
from spae_dask.blocks import ArrayBlocks
from spae_dask.passes.serial import SerialRunner

rng = np.random.default_rng(0)
X = rng.standard_normal((2000, 3)) @ rng.standard_normal((3, 12)) + 0.1 * rng.standard_normal((2000, 12))
runner = SerialRunner(ArrayBlocks(X, 300))
summary = read_core(runner.run_pass, 12, strategy="tsqr", center=True, scale=False, missing="error")
fitted = encode_core(FitParameters(2, 4), summary, passes=runner.tally.passes, bytes_read=runner.tally.nbytes)
autoencoder = Autoencoder(fitted.H, fitted.G, fitted.mean, fitted.scale)
again = evaluate_encoder(runner.run_pass, autoencoder, strategy="gram")
np.testing.assert_allclose(again.decoder_loss, fitted.certificate.loss, rtol=1e-9)
print(fitted.certificate.ratio)
"""


def run(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", BLOCK + code], cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_blocker_blocks() -> None:
    attempts = "\n".join(
        f"try:\n    import {name}\n    print('{name}')\nexcept ModuleNotFoundError:\n    pass" for name in BLOCKED
    )
    assert run(attempts) == ""


def test_every_module_of_the_pure_rooms_is_imported() -> None:
    assert int(run(IMPORT_ALL)) > 50


def test_a_whole_fit_runs() -> None:
    assert 1 <= float(run(FIT)) < 2


def test_a_pure_rooms_own_tests_run() -> None:
    files = ["tests/maths/linalg/test_scaling.py", "tests/maths/linalg/test_project.py"]
    options = ["-q", "-p", "no:cacheprovider", "-p", "pytest_timeout", "--noconftest"]
    # plugins that other libraries bring import dask and zarr
    alone = "import os; os.environ['PYTEST_DISABLE_PLUGIN_AUTOLOAD'] = '1'; os.environ.pop('PYTEST_ADDOPTS', None)"
    assert "passed" in run(f"{alone}; import pytest; sys.exit(pytest.main({files + options}))")
