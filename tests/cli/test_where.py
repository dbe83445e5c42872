"""Rows and columns by condition and name, on the command line and in pipelines."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.cli.conftest import QUICK
from tests.estimators.sources import batch_encoder
from tests.storage.test_chosen import cells, counts

pytestmark = [
    pytest.mark.usefixtures("undrawn"),
    pytest.mark.filterwarnings("ignore:Writing zarr v2", "ignore:Consolidated metadata"),
]

ROWS, MASK = "n_counts > 10 and lab == 'x'", "n_cells > 20 and not mt"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    cells().write_h5ad(tmp_path / "x.h5ad")
    return tmp_path / "x.h5ad"


@pytest.fixture
def chosen() -> np.ndarray:
    obs, var = cells().obs, cells().var
    return counts()[obs.eval(ROWS).to_numpy(dtype=bool)][:, var.eval(MASK).to_numpy(dtype=bool)]


def test_every_verb_reads_what_is_chosen(spae: Any, file: Path, chosen: np.ndarray, tmp_path: Path) -> None:
    loss = batch_encoder(2, n_nonzero=2).fit(chosen).certificate_.loss
    how, asked = ("--where", ROWS, "--mask", MASK), ("-k", 2, "-r", 2, *QUICK)
    told = f"uses {len(chosen)} of 60 rows: {ROWS}"
    fit = spae("fit", file, *asked, *how, "-o", tmp_path / "e.zarr", "--json")
    assert json.loads(fit.out)["certificate"]["loss"] == pytest.approx(loss, rel=1e-10)
    assert told in spae("fit", file, *asked, *how, "-o", tmp_path / "e.zarr", "--force").err
    assert told in spae("plan", file, *asked, *how).out
    assert told in spae("check", file, *how).out
    evaluated = spae("evaluate", file, tmp_path / "e.zarr", "--where", ROWS, "--json")
    assert json.loads(evaluated.out)["certificate"]["decoder_loss"] == pytest.approx(loss, rel=1e-9)
    codes = spae("transform", file, tmp_path / "e.zarr", "--where", ROWS, "-o", tmp_path / "z.zarr", "--json")
    assert json.loads(codes.out)["codes"]["shape"][0] == len(chosen)
    assert spae("path", file, "-k", 2, "-r", "2", *QUICK, *how, "--json").code == 0
    report = ("report", tmp_path / "e.zarr", "-o", tmp_path / "r.html", "--data", file, "--where", ROWS)
    assert spae(*report).code == 0
    parts = (file, *asked, *how, "--checkpoint", tmp_path / "run")
    assert spae("fit-part", "1/1", *parts).code in (0, 75)
    done = spae("fit-finish", *parts, "-o", tmp_path / "f.zarr", "--json")
    assert json.loads(done.out)["certificate"]["loss"] == pytest.approx(loss, rel=1e-10)
    assert spae("ingest", file, tmp_path / "i.zarr", "--where", ROWS).code == 2


def test_genes_are_chosen_by_name(spae: Any, file: Path, tmp_path: Path) -> None:
    loss = batch_encoder(2, n_nonzero=2).fit(counts()[:, [6, 1, 2]]).certificate_.loss
    fit = spae("fit", file, "-k", 2, "-r", 2, *QUICK, "--columns", "g6,g[12]", "-o", tmp_path / "e.zarr", "--json")
    assert json.loads(fit.out)["certificate"]["loss"] == pytest.approx(loss, rel=1e-10)
    evaluated = spae("evaluate", file, tmp_path / "e.zarr", "--json")
    assert json.loads(evaluated.out)["certificate"]["decoder_loss"] == pytest.approx(loss, rel=1e-9)


def test_a_pipeline_has_them_as_keys(spae: Any, file: Path, chosen: np.ndarray, tmp_path: Path) -> None:
    how = f'data = "x.h5ad"\nwhere = "{ROWS}"\n'
    (tmp_path / "p.toml").write_text(
        f'output = "out"\n[[step]]\nkind = "fit"\nn_components = 2\nn_nonzero = 2\nmethod = "batch"\n'
        f'mask = "{MASK}"\n{how}'
        f'[[step]]\nkind = "evaluate"\nencoder = "@fit"\n{how}[[step]]\nkind = "report"\nencoder = "@fit"\n{how}'
    )
    ended = spae("run", tmp_path / "p.toml")
    assert ended.code == 0, ended.err
    loss = batch_encoder(2, n_nonzero=2).fit(chosen).certificate_.loss
    certificate = json.loads((tmp_path / "out" / "evaluate.json").read_text())
    assert certificate["decoder_loss"] == pytest.approx(loss, rel=1e-9)


@pytest.mark.parametrize(
    ("condition", "words"), [("n_cuonts > 3", "Did you mean 'n_counts'"), ("f(n_counts)", "is no condition")]
)
def test_what_chooses_nothing_ends_the_command(spae: Any, file: Path, condition: str, words: str) -> None:
    ended = spae("check", file, "--where", condition)
    assert ended.code == 3
    assert words in ended.err
