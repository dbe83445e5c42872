"""Names as figures write them: short, drawable, and never a formula."""

import pytest
from matplotlib.figure import Figure

from spae_dask.report.names import LONGEST, figure_names, shortened


@pytest.mark.parametrize("name", ["温度", "", "  ", "a\nb", "a\x00b", "\u202eevil", "🧬"])
def test_what_the_font_cannot_write_is_called_by_its_column(name):
    assert figure_names([name], [7]) == ["[7]"]


def test_long_names_keep_start_and_end():
    assert shortened("x" * LONGEST) == "x" * LONGEST
    name = "a_common_start_of_many_names_1"
    assert len(shortened(name)) == LONGEST
    assert shortened(name).startswith("a_common_start") and shortened(name).endswith("names_1")  # noqa: PT018


@pytest.mark.parametrize("name", ["$x$", "cost $", r"$\frac{$", "$$", "µ°é"])
def test_names_are_drawn_as_they_are(name):
    figure = Figure()
    axes = figure.add_subplot()
    axes.set_xticks([0], figure_names([name], [0]))
    figure.savefig("/dev/null", format="svg")  # a formula that is none would raise, a missing glyph warn
    assert axes.get_xticklabels()[0].get_text().replace(r"\$", "$") == name
