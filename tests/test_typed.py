"""A user's program is checked against our types, in an environment that finds the package as an installed one."""

import os
import re
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

import spae_dask

pytest.importorskip("mypy")

PROGRAM = """
import numpy as np

import spae_dask
from spae_dask import ColumnSelector, Recipe, SparseEncoder, encoder_metrics, evaluate, load_encoder, open_matrix, plan

x = np.ones((40, 6), dtype=np.float32)
encoder = SparseEncoder(n_components=2, n_nonzero=3).fit(x)
ratio: float = encoder.certificate_.ratio
ratio_as_text: str = encoder.certificate_.ratio  # wrong
version: str = spae_dask.__version__
rows: int = open_matrix("X.zarr").shape[0]
n_passes = len(plan(x, n_components=2, n_nonzero=3).passes)
explained: float = evaluate(x, load_encoder("E.zarr")).explained
support = ColumnSelector(n_columns=3).fit(x).get_support()
SparseEncoder(n_component=2)  # wrong
load_encoder(5)  # wrong
print(encoder_metrics, Recipe)
"""


# what other libraries say of their types takes four fifths of the time, and decides nothing here
ONLY_OURS = """
[mypy]
follow_imports = skip
[mypy-spae_dask.*,numpy.*]
follow_imports = normal
"""


def test_a_users_program_is_checked_against_our_types(tmp_path: Path) -> None:
    venv.create(tmp_path / "venv", symlinks=True)
    (packages,) = (tmp_path / "venv").glob("lib/python*/site-packages")
    (packages / "found.pth").write_text(f"{Path(spae_dask.__file__).parents[1]}\n{sysconfig.get_path('purelib')}\n")
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "mypy.ini").write_text(ONLY_OURS)
    ended = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--python-executable", "venv/bin/python", "program.py"],
        cwd=tmp_path,
        env={name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "MYPYPATH")},
        capture_output=True,
        text=True,
    )
    wrong = [i for i, line in enumerate(PROGRAM.splitlines(), start=1) if line.endswith("# wrong")]
    reported = [int(line) for line in re.findall(r"^program\.py:(\d+): error", ended.stdout, re.MULTILINE)]
    assert reported == wrong, ended.stdout + ended.stderr
