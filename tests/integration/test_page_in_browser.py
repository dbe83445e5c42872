"""The page about an encoder, in a headless Chromium."""

import json

import numpy as np
import pytest

from tests.report.browser import browse, driven, in_browser, needs_browser
from tests.report.encoders import curve, results
from tests.report.test_encoder_page import html_of


@pytest.fixture(scope="module")
def html():
    """A page of many features."""
    names = (*(f"feature {j:02d}" for j in range(39)), "a long name " * 40)
    return html_of(results(3, 40, names=names), curve=curve(3))


@pytest.fixture
def page(html, tmp_path):
    """That page on disk."""
    (tmp_path / "page.html").write_text(html, encoding="utf-8")
    return tmp_path / "page.html"


def result_of(page, script, width=1000):
    """What a script of ours leaves as the title of a page."""
    page.write_text(driven(page.read_text(encoding="utf-8"), script), encoding="utf-8")
    dom = in_browser(page, f"--window-size={width},900", "--dump-dom").decode()
    return dom.partition("<title>")[2].partition("</title>")[0]


@needs_browser
def test_the_page_runs_without_a_word_on_the_console(page):
    said = browse(page, "--dump-dom", "--enable-logging=stderr", "--v=0")
    assert b"CONSOLE" not in said.stderr
    assert b'type="search"' in said.stdout, "its own script must be allowed"


@needs_browser
def test_a_script_that_is_smuggled_in_does_not_run(page, html):
    page.write_text(html.replace("</main>", "<script>document.title = 'owned'</script></main>"), encoding="utf-8")
    dom = in_browser(page, "--dump-dom").decode()
    assert "<title>owned" not in dom


@needs_browser
def test_features_are_sorted_by_the_heading_that_is_clicked(page):
    script = """
        const table = document.querySelector("table.sortable");
        const column = (n) => Array.from(table.tBodies[0].rows, (row) => row.cells[n].textContent);
        const click = (n) => { table.tHead.rows[0].cells[n].querySelector("button").click(); return column(0)[0]; };
        const state = () => table.tHead.querySelector("[aria-sort]").getAttribute("aria-sort");
        const found = [click(0), state(), click(0), state(), click(2), state(), click(2), state()];
        document.title = JSON.stringify(found);
    """
    long = "a long name " * 40
    assert result_of(page, script) == str(
        [long, "ascending", "feature 38", "descending", long, "descending", "feature 00", "ascending"]
    ).replace("'", '"').replace(", ", ",")


@needs_browser
def test_empty_cells_stay_last_in_both_directions(tmp_path):
    found = results(2, 3, names=("x", "y", "z"), components=np.array([[0.6, 0.0, -0.8], [0.0, 1.0, 0.0]]))
    page = tmp_path / "page.html"
    page.write_text(html_of(found), encoding="utf-8")
    script = """
        const table = Array.from(document.querySelectorAll("table.sortable")).at(-1); // the loadings
        const button = table.tHead.rows[0].cells[1].querySelector("button");
        const names = () => Array.from(table.tBodies[0].rows, (row) => row.cells[0].textContent).join("");
        button.click(); const first = names(); button.click(); document.title = first + " " + names();
    """
    assert result_of(page, script) == "xzy zxy"


@needs_browser
def test_searching_hides_what_does_not_match_and_counts(page):
    script = """
        const input = document.querySelector("input[type=search]");
        input.value = "FEATURE 1"; input.dispatchEvent(new Event("input"));
        const rows = Array.from(document.querySelector("table.sortable").tBodies[0].rows);
        const shown = rows.filter((row) => row.offsetParent !== null).length;
        document.title = shown + ", " + document.querySelector("[role=status]").textContent;
    """
    assert result_of(page, script) == "10, 10 of 40"


@needs_browser
@pytest.mark.parametrize("width", [500, 1000])
def test_the_page_is_not_wider_than_the_window(page, width):
    script = "document.title = document.documentElement.scrollWidth"
    assert int(result_of(page, script, width)) <= width


@needs_browser
def test_figures_on_a_narrow_screen_are_as_large_as_they_were_drawn_and_scroll(page):
    script = """
        const images = Array.from(document.querySelectorAll("figure img"));
        const boxes = images.map((each) => each.closest(".wide"));
        const told = [Math.min(...images.map((each) => each.getBoundingClientRect().width)),
                      Math.max(...boxes.map((each) => each.getBoundingClientRect().right)),
                      boxes.every((each) => each.scrollWidth > each.clientWidth && each.tabIndex === 0)];
        document.title = JSON.stringify(told);
    """
    width, right, scroll = json.loads(result_of(page, script, 500))
    assert width >= 700
    assert right <= 500
    assert scroll


@needs_browser
def test_the_page_prints(page, tmp_path):
    in_browser(page, f"--print-to-pdf={tmp_path / 'page.pdf'}", "--no-pdf-header-footer")
    assert (tmp_path / "page.pdf").read_bytes().startswith(b"%PDF")


@needs_browser
@pytest.mark.parametrize(("scheme", "dark"), [(1, False), (0, True)], ids=["light", "dark"])
def test_the_page_keeps_to_the_readers_colours(page, tmp_path, scheme, dark):
    from matplotlib.image import imread

    picture = tmp_path / "page.png"
    in_browser(
        page, f"--blink-settings=preferredColorScheme={scheme}", "--window-size=1000,2600", f"--screenshot={picture}"
    )
    pixels = imread(picture)[..., :3]
    background = pixels[:20, :20].mean()
    assert (background < 0.2) == dark
    assert (np.abs(pixels.mean(axis=-1) - background) < 0.1).mean() > 0.5, (
        "figures must not be windows of the other colour"
    )
