"""Names as figures write them: short, drawable, and never a formula."""

import pytest
from matplotlib.figure import Figure

from spae_dask.report.encoder_axes import LONGEST, figure_names, shortened


@pytest.mark.parametrize("name", ["温度", "", "  ", "a\nb", "a\x00b", "\u202eevil", "🧬"])
def test_what_the_font_cannot_write_is_called_by_its_column(name):
    assert figure_names([name], [7]) == ["column 7"]


def test_long_names_are_cut_at_their_end():
    assert shortened("x" * LONGEST) == "x" * LONGEST
    name = "".join(map(chr, range(ord("0"), ord("0") + LONGEST + 3)))
    assert shortened(name) == f"{name[: LONGEST - 1]}…"


def test_names_that_are_alike_when_cut_are_told_apart_by_their_columns():
    start = "a_common_start_of_many_long_names_"
    names = [f"{start}{number}" for number in range(3)] + ["same", "same", "one of its own, and quite long it is"]
    columns = [5, 60, 700, 8, 9, 10]
    shown = figure_names(names, columns)
    assert len(set(shown)) == len(names)
    assert max(map(len, shown)) <= LONGEST
    for label, name, column in zip(shown[:5], names, columns, strict=False):
        assert label.endswith(f" (column {column})")
        assert name.startswith(label.partition("…")[0].partition(" (")[0])
    assert shown[5] == f"{names[5][: LONGEST - 1]}…"


@pytest.mark.parametrize("name", ["$x$", "cost $", r"$\frac{$", "$$", "µ°é"])
def test_names_are_drawn_as_they_are(name):
    figure = Figure()
    axes = figure.add_subplot()
    axes.set_xticks([0], figure_names([name], [0]))
    figure.savefig("/dev/null", format="svg")  # a formula that is none would raise, a missing glyph warn
    assert axes.get_xticklabels()[0].get_text().replace(r"\$", "$") == name
