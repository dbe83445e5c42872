"""Every command that reads data decodes what a Zarr array declares, and reads stored numbers with --raw."""

import html
import json
from pathlib import Path

import numpy as np
import pytest
import zarr

from spae_dask.cli.main import VERBS
from spae_dask.cli.submitting import fit_words
from spae_dask.pipelines.schema import Fit
from tests.cli.conftest import QUICK, write_zarr
from tests.cli.test_exit_codes import failed
from tests.cli.test_steps_and_verbs import options_of, parsed

pytestmark = pytest.mark.usefixtures("undrawn")

ATTRIBUTES = {"scale_factor": 0.01, "add_offset": 273.15, "_FillValue": -9999}


@pytest.fixture
def packed(tmp_path: Path) -> Path:
    """Numbers of int16 that stand for temperatures; one is missing."""
    rng = np.random.default_rng(0)
    stored = np.rint(rng.normal(size=(200, 2)) @ rng.normal(size=(2, 6)) * 300).astype("i2")
    stored[3, 1] = -9999
    zarr.create_array(tmp_path / "p.zarr", data=stored, chunks=(50, 6), attributes=ATTRIBUTES)
    return tmp_path / "p.zarr"


@pytest.fixture
def plain(packed: Path) -> dict[bool, Path]:
    """The stored numbers, and the data, as arrays that declare nothing."""
    stored = zarr.open_array(packed, mode="r")[...]
    data = np.where(stored == -9999, np.nan, stored * 0.01 + 273.15)
    return {raw: write_zarr(packed.with_name(f"{raw}.zarr"), x, 50) for raw, x in ((True, stored), (False, data))}


def test_every_command_that_takes_data_takes_raw():
    reading = {verb for verb in VERBS if {"data", "source"} & set(options_of(verb))}
    assert reading >= {"fit", "check", "plan", "ingest", "transform", "evaluate", "path", "report"}
    assert {verb for verb in VERBS if "raw" in options_of(verb)} == reading


@pytest.mark.parametrize("raw", [False, True])
def test_all_commands_give_what_plain_numbers_give(spae, packed, plain, raw, tmp_path):
    def both(verb, *words):
        ends = [spae(verb, data, *words, *more, "--json") for data, more in ((packed, flag), (plain[raw], ()))]
        assert [each.code for each in ends] == [0, 0], ends
        return [each.document for each in ends]

    flag = ("--raw",) if raw else ()
    size = ("-k", 2, "-r", 3, *QUICK)
    found, wanted = (each["check"] for each in both("check"))
    assert [found[key] for key in ("n_nan", "dtype")] == [wanted[key] for key in ("n_nan", "dtype")]
    assert found["smallest"] == pytest.approx(wanted["smallest"])
    assert (found["decoded"] is None) == raw
    found, wanted = both("plan", *size, "--missing", "mean", "--no-calibrate")
    assert found["plan"]["dtype"] == wanted["plan"]["dtype"]
    for name, data, more in (("wanted", plain[raw], ()), ("found", packed, flag)):
        ended = spae("fit", data, *size, "--missing", "mean", "-o", tmp_path / f"{name}.enc", *more)
        assert ended.code == 0
        assert ("--raw" in ended.err.split("next ")[1]) == bool(more), "what is shown to be done next reads the same"
        assert spae("transform", data, tmp_path / "wanted.enc", "-o", tmp_path / f"{name}.codes", *more).code == 0
        assert spae("ingest", data, tmp_path / f"{name}.zarr", *more).code == 0
    for ending in ("codes", "zarr"):
        one, other = (zarr.open_array(tmp_path / f"{name}.{ending}", mode="r") for name in ("found", "wanted"))
        np.testing.assert_allclose(one[...], other[...])
        assert one.dtype == other.dtype
        assert not set(ATTRIBUTES) & set(one.attrs)
    found, wanted = both("evaluate", tmp_path / "wanted.enc")
    assert found["certificate"]["loss"] == pytest.approx(wanted["certificate"]["loss"], rel=1e-6)
    found, wanted = both("path", "-k", 2, "-r", "2,3", *QUICK, "--missing", "mean")
    assert [each["ratio"] for each in found["points"]] == pytest.approx([each["ratio"] for each in wanted["points"]])
    page = ("report", tmp_path / "found.enc", "-o", tmp_path / "r.html", "--force")
    assert spae(*page, "--data", packed, *flag).code == 0
    assert "their fingerprint differs" not in (tmp_path / "r.html").read_text()
    assert spae(*page, "--data", packed, *(() if raw else ("--raw",))).code == 0
    assert "their fingerprint differs" in (tmp_path / "r.html").read_text()
    text = html.unescape((tmp_path / "r.html").read_text())
    assert ("--raw -o encoder.zarr" in text) == (", decode=False))" in text) == raw, "the fit can be made again"
    assert (
        "stored numbers are read; the array declares _FillValue, scale_factor" in spae("check", packed, *flag).out
    ) == raw


def test_what_is_refused_for_its_attributes_names_the_way_out(spae, packed):
    zarr.open_array(packed, mode="r+").attrs["scale_factor"] = "much"
    failed(spae("check", packed), 3, "declares scale_factor 'much'", "--raw")
    assert spae("check", packed, "--raw").code == 0


def test_steps_of_a_pipeline_read_stored_numbers_too(spae, packed):
    steps = [
        f'kind = "ingest"\nsource = "{packed}"\nraw = true',
        f'kind = "check"\ndata = "{packed}"\nname = "decoded"\nmissing_value = [270.0, 271.5]',
        f'kind = "check"\ndata = "{packed}"\nraw = true\nname = "stored"',
    ]
    pipeline = packed.with_name("p.toml")
    pipeline.write_text('output = "out"\n' + "".join(f"[[step]]\n{each}\n" for each in steps))
    assert spae("run", pipeline).code == 0
    out = packed.parent / "out"
    assert zarr.open_array(out / "ingest.zarr", mode="r").dtype == "int16"
    assert json.loads((out / "decoded.json").read_text())["n_nan"] >= 1
    assert json.loads((out / "stored.json").read_text())["n_nan"] == 0


@pytest.mark.parametrize("words", [("--missing-value", "-1,-2"), ("--missing-value", -1, "--missing-value", "-2")])
def test_several_missing_values_are_listed_or_the_option_is_repeated(spae, tmp_path, words):
    X = np.random.default_rng(0).integers(-2, 3, size=(50, 4)).astype("i1")
    np.save(tmp_path / "x.npy", X)
    assert spae("check", tmp_path / "x.npy", *words, "--json").document["check"]["n_nan"] == (X < 0).sum()
    found = spae("fit", tmp_path / "x.npy", "-k", 1, "-r", 2, *QUICK, "--missing", "mean", "-o", tmp_path / "e", *words)
    assert found.code == 0
    told = spae("inspect", tmp_path / "e", "--json").document["parameters"]
    assert told["missing_value"] == [-1.0, -2.0]
    assert spae("report", tmp_path / "e", "-o", tmp_path / "r.html").code == 0
    assert "--missing-value -1.0,-2.0" in (tmp_path / "r.html").read_text()


def test_one_missing_value_stays_a_number(tmp_path):
    given, _ = parsed(["-k", "1", "-r", "1", "--missing-value", "-1", "--checkpoint", "c"])
    assert given.fitted["missing_value"] == -1.0
    step = Fit(kind="fit", name="fit", data="x.zarr", n_components=1, n_nonzero=1, missing_value=-1)
    assert parsed(fit_words(step, tmp_path))[0].fitted["missing_value"] == step.missing_value == -1.0


@pytest.mark.parametrize("wrong", ["-1,x", ",", "", "-1,,-2"])
def test_what_is_no_number_is_a_mistake_of_usage(spae, packed, wrong):
    failed(spae("check", packed, "--missing-value", wrong), 2, "--missing-value", "give a number, such as -1")


def test_a_number_that_cannot_occur_is_told_as_it_was_given(spae, tmp_path):
    np.save(tmp_path / "x.npy", np.zeros((3, 2), "i1"))
    failed(spae("check", tmp_path / "x.npy", "--missing-value", "-1,-300"), 3, "--missing-value -300.0 can never occur")
