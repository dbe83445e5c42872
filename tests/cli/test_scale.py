"""Divisors of columns on the command line and in pipelines."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.cli.conftest import QUICK
from tests.estimators.sources import batch_encoder

pytestmark = pytest.mark.usefixtures("undrawn")

DIVISORS = np.geomspace(0.2, 5.0, 10)


@pytest.fixture
def genotypes(tmp_path: Path) -> np.ndarray:
    x = np.random.default_rng(0).binomial(2, np.linspace(0.1, 0.8, 10), size=(90, 10)).astype(np.int8)
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "w.npy", DIVISORS)
    return x


def divided(x: np.ndarray, scale: str) -> np.ndarray:
    share = x.mean(axis=0) / 2
    patterson = np.sqrt(share * (1 - share))
    return x / {"": 1, "True": x.std(axis=0, ddof=1), "patterson": patterson}.get(scale, DIVISORS)


ASKED: dict[str, tuple[str, ...]] = {
    "": (),
    "True": ("--scale",),
    "patterson": ("--scale", "patterson"),
    "w.npy": ("--scale=w.npy",),
    "numbers": (f"--scale={','.join(map(str, DIVISORS.tolist()))}",),
}


@pytest.mark.parametrize("scale", ASKED)
def test_every_verb_divides(
    spae: Any, genotypes: np.ndarray, scale: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    loss = batch_encoder(2, n_nonzero=3).fit(divided(genotypes, scale)).certificate_.loss
    words = ("-k", 2, "-r", 3, *QUICK)
    # the option may stand before the data, too
    fit = spae("fit", *ASKED[scale], "x.npy", *words, "-o", "e.zarr", "--json")
    assert json.loads(fit.out)["certificate"]["loss"] == pytest.approx(loss, rel=1e-10)
    evaluated = spae("evaluate", "x.npy", "e.zarr", "--json")
    assert json.loads(evaluated.out)["certificate"]["decoder_loss"] == pytest.approx(loss, rel=1e-9)
    assert spae("plan", "x.npy", *words, *ASKED[scale], "--no-calibrate").code == 0
    path = spae("path", "x.npy", "-k", 2, "-r", "3", *QUICK, *ASKED[scale], "--json")
    assert json.loads(path.out)["points"][0]["loss"] == pytest.approx(loss, rel=1e-2)
    parts = ("x.npy", *words, *ASKED[scale], "--checkpoint", "run")
    assert spae("fit-part", "1/1", *parts).code in (0, 75)
    done = spae("fit-finish", *parts, "-o", "f.zarr", "--json")
    assert json.loads(done.out)["certificate"]["loss"] == pytest.approx(loss, rel=1e-10)
    shown = spae("inspect", "e.zarr").out
    (command,) = [line.strip() for line in shown.splitlines() if line.strip().startswith("spae fit")]
    again = spae(*command.replace("encoder.zarr", "again.zarr").split()[1:], "--json")
    assert json.loads(again.out)["certificate"]["loss"] == pytest.approx(loss, rel=1e-10)
    assert spae("report", "e.zarr", "-o", "r.html").code == 0


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--scale=sd",), "sd is not allowed: give True, False, 'std', 'patterson'"),
        (("--scale=1,-2",), "give positive numbers"),
        (("--scale=gone.npy",), "there is no file gone.npy"),
        (("--scale=1,2",), "one divisor for each of the 10 columns"),
    ],
)
def test_what_gives_no_divisors_ends_the_command(
    spae: Any, genotypes: np.ndarray, words: tuple[str, ...], told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ended = spae("fit", "x.npy", "-k", 2, "-r", 3, *words, "-o", "e.zarr")
    assert ended.code in (2, 3, 4)
    assert told in ended.err


@pytest.mark.parametrize("scale", ["true", '"patterson"', '"w.npy"', str(DIVISORS.tolist())])
def test_a_pipeline_has_it_as_a_key_and_runs_again_if_the_file_changes(
    spae: Any, genotypes: np.ndarray, scale: str, tmp_path: Path
) -> None:
    step = f'data = "x.npy"\nn_nonzero = 3\nmethod = "batch"\nscale = {scale}'
    (tmp_path / "p.toml").write_text(
        f'output = "out"\n[[step]]\nkind = "fit"\nname = "e"\nn_components = 2\n{step}\n'
        f'[[step]]\nkind = "plan"\nname = "p"\nn_components = 2\n{step}\n'
        f'[[step]]\nkind = "path"\nname = "l"\nn_components = [2]\n{step.replace("= 3", "= [3]")}\n'
        '[[step]]\nkind = "evaluate"\nname = "v"\ndata = "x.npy"\nencoder = "@e"\n'
    )
    ended = spae("run", tmp_path / "p.toml")
    assert ended.code == 0, ended.err
    wanted = divided(genotypes, {"true": "True", '"patterson"': "patterson"}.get(scale, "w.npy"))
    loss = batch_encoder(2, n_nonzero=3).fit(wanted).certificate_.loss
    assert json.loads((tmp_path / "out" / "v.json").read_text())["decoder_loss"] == pytest.approx(loss, rel=1e-9)
    if "npy" not in scale:
        return
    np.save(tmp_path / "w.npy", DIVISORS[::-1])
    ended = spae("run", tmp_path / "p.toml")
    assert "its input changed: scale" in ended.err
    loss = batch_encoder(2, n_nonzero=3).fit(genotypes / DIVISORS[::-1]).certificate_.loss
    assert json.loads((tmp_path / "out" / "v.json").read_text())["decoder_loss"] == pytest.approx(loss, rel=1e-9)
