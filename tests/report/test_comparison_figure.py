"""The comparison's figure: a column a matrix, a row a measure, a line a method."""

import numpy as np
import pytest

from spae_dask.report.comparison_figure import SMALLEST_PERCENT, STYLES, comparison_figure
from spae_dask.report.figures import contrast, save_figure
from spae_dask.strategies.comparison import ComparisonPoint


def point(subject, method, r, loss, mean=None):
    return ComparisonPoint(subject, method, 2, r, loss, 0.5, mean or float(r), r, np.ones((7, 2)))


def drawn():
    return comparison_figure(
        [
            point("a", "polished", 2, 1.5),
            point("a", "TPower", 2, 1.9),
            point("a", "polished", 3, 1.0),
            point("a", "TPower", 3, 1.6, mean=1.5),
            point("b", "polished", 4, 1.001),
        ]
    )


@pytest.fixture
def figure():
    return drawn()


def test_panels_are_two_rows_of_a_column_a_matrix(figure):
    assert [axes.get_title(loc="left") for axes in figure.axes[:2]] == ["a (7 variables)", "b (7 variables)"]
    assert len(figure.axes) == 4
    assert figure.axes[2].get_xlabel() == "mean nonzeros of a column"
    assert figure.axes[2].get_title(loc="left") == "maximized by TPower"


def test_lines_hold_excess_in_percent_by_average_sparsity(figure):
    lines = {line.get_label(): line.get_xydata().tolist() for line in figure.axes[0].lines}
    assert lines["polished"] == [[2, 50], [3, SMALLEST_PERCENT]]
    assert lines["TPower"] == [[1.5, pytest.approx(60)], [2, pytest.approx(90)]]


def test_a_wide_spread_has_a_log_scale_and_a_narrow_one_starts_at_zero(figure):
    assert figure.axes[0].get_yscale() == "log"
    narrow = comparison_figure([point("a", "polished", 2, 1.2), point("a", "polished", 3, 1.1)])
    assert narrow.axes[0].get_yscale() == "linear"
    assert narrow.axes[0].get_ylim()[0] == 0


def test_methods_differ_in_more_than_colour_and_stand_out_from_paper():
    assert len({style[1] for style in STYLES.values()}) == len(STYLES)
    assert all(contrast(color, "#ffffff") > 2 for color, _, _ in STYLES.values())


@pytest.mark.parametrize("kind", ["svg", "png"])
def test_the_same_figure_is_the_same_bytes(tmp_path, kind):
    paths = [tmp_path / f"{name}.{kind}" for name in "ab"]
    for path in paths:
        save_figure(drawn(), path, overwrite=False)
    assert paths[0].read_bytes() == paths[1].read_bytes()
