"""Pages are well-formed, escape what they are given and need nothing from elsewhere."""

import builtins
import importlib
import sys

import numpy as np
import pytest
from matplotlib.figure import Figure

from spae_dask.errors import InvalidInput
from spae_dask.report.html import (
    Markup,
    Page,
    Section,
    commands,
    definitions,
    filled,
    number,
    paragraph,
    pixel_pictures,
    render,
    table,
    themed_figure,
)
from tests.report.page_reader import read_page


def page_of(*html):
    sections = tuple(Section(f"Part {i}", part) for i, part in enumerate(html))
    return render(Page("A <title>", Markup("Short."), sections, Markup("End.")))


def test_a_page_is_well_formed_and_titled():
    read = read_page(page_of(paragraph("one"), paragraph("two")))
    assert read.errors == []
    assert read.title == "A <title>"
    assert read.headings == ["A <title>", "Part 0", "Part 1"]


def test_values_are_escaped_and_markup_is_not():
    assert filled("<b>{}</b>", "<i>&") == "<b>&lt;i&gt;&amp;</b>"
    assert filled("<b>{}</b>", Markup("<i>x</i>")) == "<b><i>x</i></b>"
    assert "<script>" not in table("<script>", ["<script>"], [["<script>", "<script>"]])
    assert "<script>" not in commands(["<script>"]) + definitions([("<script>", "<script>")])


def test_numbers_keep_all_their_digits():
    value = 1.0985687439537562
    read = read_page(page_of(paragraph("{}", number(value, "1.0986"))))
    assert read.numbers == [(value, "1.0986")]


def test_negative_numbers_are_written_with_a_minus_sign():
    assert number(-2.0, "-2.0").endswith(">\N{MINUS SIGN}2.0</data>")


def test_table_headings_say_what_they_head():
    read = read_page(page_of(table("Caption", ["", "left", "right"], [["top", "1", "2"], ["bottom", "3", "4"]])))
    assert read.tables[0].caption == "Caption"
    assert read.tables[0].columns == ["", "left", "right"]
    assert read.tables[0].rows == {"top": ["1", "2"], "bottom": ["3", "4"]}
    assert read.errors == []


def test_a_figure_is_embedded_for_paper_and_for_dark_screens():
    drawn = []

    def draw(theme):
        drawn.append(theme.name)
        figure = Figure(figsize=(1, 1))
        figure.add_subplot().plot([0, 1])
        return figure

    read = read_page(page_of(themed_figure(draw, alt="a line", caption="what to see")))
    assert drawn == ["light", "dark"]
    assert read.alts == ["a line"]
    assert [source.split(",")[0] for source in read.sources] == ["data:image/svg+xml;base64"] * 2
    assert read.sources[0] != read.sources[1]
    assert read.errors == []


def test_the_same_figure_is_the_same_bytes():
    def draw(theme):
        figure = Figure(figsize=(1, 1))
        figure.add_subplot().plot([0, 1])
        return figure

    assert themed_figure(draw, alt="", caption="") == themed_figure(draw, alt="", caption="")


def test_pictures_come_back_pixel_by_pixel():
    import base64
    import io

    from matplotlib.image import imread

    pixels = np.random.default_rng(0).integers(0, 256, (5, 7, 3), dtype=np.uint8)
    read = read_page(page_of(pixel_pictures([(pixels, "noise", "caption")])))
    decoded = imread(io.BytesIO(base64.b64decode(read.sources[0].split(",")[1])))
    np.testing.assert_array_equal(np.round(decoded[..., :3] * 255), pixels)


@pytest.mark.parametrize(
    ("library", "module"), [("matplotlib", "spae_dask.report.figures"), ("jinja2", "spae_dask.report.html")]
)
def test_without_its_libraries_the_room_says_what_to_install(monkeypatch, library, module):
    real = builtins.__import__

    def refuse(name, *rest):
        if name.split(".")[0] == library:
            raise ImportError(f"No module named {name!r}", name=library)
        return real(name, *rest)

    monkeypatch.delitem(sys.modules, module)
    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(InvalidInput, match=rf'{library}.*pip install "spae-dask\[report\]"'):
        importlib.import_module(module)
