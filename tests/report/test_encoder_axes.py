"""What is drawn of an encoder, read back from the artists."""

from dataclasses import replace

import numpy as np
import pytest
from matplotlib import pyplot as plt
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from spae_dask.report.encoder_axes import (
    MAX_BARS,
    MAX_COMPONENTS,
    draw_encoder_loadings,
    draw_explained,
    draw_features,
    draw_loss,
    on_axes,
)
from spae_dask.report.figures import MAX_UPRIGHT
from spae_dask.report.themes import DARK, LIGHT
from tests.report.encoders import HOSTILE, certificate, curve, results


@pytest.fixture
def axes():
    return Figure(layout="constrained").add_subplot()


def lines(axes):
    """Points of each line by its label."""
    return {line.get_label(): line.get_xydata().tolist() for line in axes.lines}


def legend(axes):
    return [text.get_text() for text in axes.get_legend().get_texts()]


def test_the_curve_the_encoder_and_pca_are_drawn_in_percent(axes):
    draw_loss(axes, certificate(), curve())
    drawn = lines(axes)
    np.testing.assert_allclose(drawn["polished encoders"], [[1, 30], [2, 20], [6, 11]])
    np.testing.assert_allclose([y for _, y in drawn["PCA, with all features"]], [10, 10])
    assert [3.0, 12.0] in [xy for points in drawn.values() for xy in points]
    assert legend(axes) == ["polished encoders", "PCA, with all features", "this encoder"]
    low, high = axes.get_ylim()
    assert low < 10 and 30 < high < 50  # noqa: PT018 - the bound of 50 % is above what is shown


def test_the_axis_reaches_to_the_bound_where_that_is_asked_for(axes):
    draw_loss(axes, certificate(), curve(), to_bound=True)
    np.testing.assert_allclose(lines(axes)["the paper's bound"], [[1, 50], [2, 50], [3, 50], [6, 50]])
    assert axes.get_ylim()[1] > 50


@pytest.mark.parametrize(
    ("bounds", "runs"),
    [
        ({2: 3.0, 4: 5.0, 8: 4.0, 16: 2.0}, [[2], [4, 8, 16]]),  # k features by pivoting, 2k by dual-set
        ({2: 3.0, 3: 30.0, 8: 4.0}, [[2], [8]]),  # what exceeds all there is is not drawn
        ({1: None, 2: 3.0, 8: 3.0, 16: 2.0}, [[2, 8, 16]]),
    ],
)
def test_the_line_of_the_bound_never_rises_but_breaks_where_another_theorem_takes_over(axes, bounds, runs):
    points = [replace(curve().points[0], n_nonzero=r, bound=bound) for r, bound in bounds.items()]
    draw_loss(axes, certificate(n_nonzero=2, bound=3.0), replace(curve(), points=points), to_bound=True)
    drawn = [line.get_xydata() for line in axes.lines if line.get_marker() == "s"]
    assert [points[:, 0].tolist() for points in drawn] == runs
    assert all((np.diff(points[:, 1]) <= 0).all() for points in drawn)
    assert legend(axes).count("the paper's bound") == 1


def test_a_bound_above_everything_is_not_drawn(axes):
    draw_loss(axes, certificate(bound=11.0), curve(bound=11.0), to_bound=True)
    assert "the paper's bound" not in lines(axes)


def test_without_a_curve_the_encoder_stands_alone(axes):
    draw_loss(axes, certificate(), None)
    assert legend(axes) == ["PCA, with all features", "this encoder"]
    assert axes.get_xlim() == (0, 6)


def test_intervals_are_drawn_where_losses_are_not_exact(axes):
    between = {"loss_lower": 11.0, "loss_upper": 14.0, "pca_loss_lower": 8.0, "pca_loss_upper": 10.5}
    draw_loss(axes, certificate(loss_kind="certified interval", pca_loss_kind="estimate", **between), None)
    (band,) = axes.patches
    assert [band.get_y(), band.get_y() + band.get_height()] == pytest.approx([8.0, 10.5])
    (bar,) = axes.containers[0][2]
    np.testing.assert_allclose(bar.get_segments()[0][:, 1], [11, 14])
    assert axes.get_ylim()[0] < 8


@pytest.mark.parametrize(
    "odd",
    [
        {"loss": 0.0, "pca_loss": 0.0, "ratio": 1.0},
        {"loss": 0.0, "pca_loss": 0.0, "total": 0.0, "ratio": 1.0, "bound": None},
        {"loss": 5.0, "pca_loss": 0.0, "ratio": float("inf")},
        {"loss": 90.0, "pca_loss": 1e-9, "ratio": 9e10},
    ],
)
def test_odd_losses_can_be_drawn(axes, odd):
    draw_loss(axes, certificate(**odd), None)
    axes.figure.savefig("/dev/null", format="svg")
    low, high = axes.get_ylim()
    assert low < high


def test_loadings_of_many_are_those_of_the_largest_shares(axes):
    found = results(MAX_COMPONENTS + 5, MAX_UPRIGHT + 40, 200)
    draw_encoder_loadings(axes, found)
    places = np.sort(np.argsort(-found.shares)[:MAX_UPRIGHT])
    shown = axes.collections[0].get_array()
    np.testing.assert_array_equal(shown, found.components[:MAX_COMPONENTS, places])
    assert [label.get_text() for label in axes.get_xticklabels()] == [f"column {place}" for place in places]


def test_names_that_would_do_harm_are_drawn(axes):
    draw_encoder_loadings(axes, results(2, len(HOSTILE), names=HOSTILE))
    axes.figure.savefig("/dev/null", format="svg")
    assert "column 4" in [label.get_text() for label in axes.get_xticklabels()]


def test_explained_variance_is_drawn_beside_pcas(axes):
    draw_explained(axes, np.array([0.5, 0.2]), np.array([0.6, 0.3]))
    assert [[bar.get_height() for bar in each] for each in axes.containers] == [[50, 20], [60, 30]]
    assert legend(axes) == ["sparse encoder", "PCA"]


def test_explained_variance_of_many_components_is_a_line_and_pca_may_be_unknown(axes):
    draw_explained(axes, np.linspace(0.1, 0.01, MAX_BARS + 1), None)
    assert len(lines(axes)["sparse encoder"]) == MAX_BARS + 1
    assert legend(axes) == ["sparse encoder"]


def test_features_are_bars_of_their_shares_the_largest_on_top(axes):
    found = results(2, MAX_BARS + 3)
    draw_features(axes, found)
    widths = [bar.get_width() for bar in axes.patches]
    np.testing.assert_allclose(widths, np.sort(100 * found.shares)[::-1][:MAX_BARS])
    assert axes.yaxis_inverted()


def test_shares_weigh_what_components_explain():
    found = results(2, 2, components=np.array([[1.0, 0.0], [0.6, 0.8]]), explained=np.array([0.6, 0.2]))
    np.testing.assert_allclose(found.shares, [(0.6 + 0.2 * 0.36) / 0.8, 0.2 * 0.64 / 0.8])


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=lambda theme: theme.name)
def test_given_axes_are_drawn_on_in_colours_that_suit_them(theme):
    axes = Figure(facecolor=theme.paper).add_subplot(facecolor=theme.paper)
    assert on_axes(axes, lambda on, colours: draw_loss(on, certificate(), None, colours)) is axes
    assert to_hex(axes.lines[0].get_color()) == theme.pca
    assert LIGHT.pca != DARK.pca


def test_without_axes_a_figure_is_made():
    axes = on_axes(None, lambda on, colours: draw_features(on, results(), colours))
    try:
        assert axes.figure.number in plt.get_fignums()
    finally:
        plt.close(axes.figure)
