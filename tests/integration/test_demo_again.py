"""The demo once more: its commands by hand, a second run of it, and its page in a browser."""

import json
import shlex
import shutil

import numpy as np
import pytest

from spae_dask.cli.main import main
from tests.report.browser import driven, in_browser, needs_browser
from tests.report.page_reader import read_page


def test_the_commands_typed_one_by_one_give_the_same(demo, tmp_path, capsys):
    for name in ("image.npy", "training.csv", "held-out.csv"):
        shutil.copy(demo.folder / name, tmp_path)
    for command in demo.document["commands"]:
        words = [word.replace(str(demo.folder), str(tmp_path)) for word in shlex.split(command)]
        assert main([*words[1:], "--json"]) == 0
        document = json.loads(capsys.readouterr().out)
        if found := {"fit": "training", "evaluate": "held_out"}.get(words[1]):
            assert document["certificate"] == demo.document[found]


def test_a_second_run_replaces_the_first_and_keeps_what_is_not_its_own(demo, tmp_path, capsys):
    folder = tmp_path / "copy"
    shutil.copytree(demo.folder, folder)
    (folder / "notes.txt").write_text("mine")
    (folder / "report.html").write_text("old")
    assert main(["demo", "-o", str(folder), "--quiet"]) == 0
    said = capsys.readouterr()
    assert said.err == ""
    assert f"report    {folder / 'report.html'}" in said.out
    assert (folder / "notes.txt").read_text() == "mine"
    assert read_page((folder / "report.html").read_text(encoding="utf-8"), scripts=1).errors == []


@needs_browser
@pytest.mark.parametrize(("scheme", "dark"), [(1, False), (0, True)], ids=["light", "dark"])
def test_a_browser_shows_the_page_of_the_demo_in_both_colour_schemes(demo, tmp_path, scheme, dark):
    from matplotlib.image import imread

    page = tmp_path / "page.html"
    page.write_text(demo.html, encoding="utf-8")
    picture = tmp_path / "page.png"
    in_browser(
        page, f"--blink-settings=preferredColorScheme={scheme}", "--window-size=1000,1600", f"--screenshot={picture}"
    )
    pixels = imread(picture)[..., :3]
    corner = pixels[:20, :20].reshape(-1, 3)
    assert (corner == corner[0]).all()
    assert (corner[0].mean() < 0.2) == dark
    assert len(np.unique((pixels * 15).astype(int).reshape(-1, 3), axis=0)) > 200, "no pictures to be seen"
    written = (np.abs(pixels[:800] - corner[0]).max(axis=-1) > 0.5).mean()
    assert 0.02 < written < 0.9, "no text to be seen"


@needs_browser
@pytest.mark.parametrize("width", [800, 1000])
def test_the_page_of_the_demo_is_not_wider_than_the_window(demo, tmp_path, width):
    page = tmp_path / "page.html"
    script = "document.title = document.documentElement.scrollWidth"
    page.write_text(driven(demo.html, script), encoding="utf-8")
    dom = in_browser(page, f"--window-size={width},900", "--dump-dom").decode()
    assert int(dom.partition("<title>")[2].partition("</title>")[0]) <= width
