"""Figures hold what they were given; what is drawn is read back from the artists."""

import numpy as np
import pytest
from matplotlib.figure import Figure

from spae_dask.report.figures import (
    MAX_LABELLED,
    _spread_out,
    contrast,
    draw_loadings,
    error_maps,
    feature_profile,
    styled,
)
from spae_dask.report.themes import DARK, LIGHT


@pytest.fixture
def loadings():
    return np.array([[0.9, 0.0, -0.4], [0.0, -1.0, 0.0]])


def test_a_profile_marks_the_selected_features_at_their_means():
    positions = np.array([400.0, 500, 600, 650, 550])
    mean = np.array([1.0, 3, 2, 5, 4])
    figure = feature_profile(
        positions, mean, np.ones(5), np.array([1, 3]), x_label="x", y_label="y", labels=["500", "650"]
    )
    (axes,) = figure.axes
    marks = next(line for line in axes.lines if line.get_label() == "selected")
    assert marks.get_xydata().tolist() == [[500, 3], [650, 5]]
    curve = next(line for line in axes.lines if line.get_label() == "_mean")
    assert curve.get_xydata().tolist() == [[400, 1], [500, 3], [550, 4], [600, 2], [650, 5]]
    assert [text.get_text() for text in axes.texts] == ["500", "650"]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("x", "y")


def test_a_profile_breaks_its_curve_where_there_are_no_features():
    positions = np.array([1.0, 2, 3, 7, 8])
    figure = feature_profile(
        positions, positions, 0 * positions, np.array([0]), x_label="", y_label="", labels=["a"],
        regions=[(4, 6, "nothing")],
    )  # fmt: skip
    curves = [line.get_xdata().tolist() for line in figure.axes[0].lines if line.get_label() == "_mean"]
    assert curves == [[1, 2, 3], [7, 8]]


def test_a_profile_does_not_name_more_features_than_can_be_read():
    x = np.arange(100.0)
    many = np.arange(MAX_LABELLED + 1)
    figure = feature_profile(x, x, x, many, x_label="", y_label="", labels=[str(i) for i in many])
    assert not figure.axes[0].texts


def test_crowded_labels_keep_their_order_and_their_distance():
    places = _spread_out(np.array([1.0, 1.1, 1.2, 9.0]), gap=1.0, low=0.0, high=10.0)
    assert places == pytest.approx([0.1, 1.1, 2.1, 9.0])


def drawn(loadings, features, components, theme=LIGHT):
    with styled(theme):
        axes = Figure().add_subplot()
        draw_loadings(axes, loadings, features, components, theme=theme)
    return axes


def test_a_heat_map_shows_the_loadings_and_leaves_exact_zeros_blank(loadings):
    axes = drawn(loadings, ["a", "b", "c"], ["one", "two"])
    shown = axes.collections[0].get_array()
    assert shown.mask.tolist() == (loadings == 0).tolist()
    np.testing.assert_array_equal(shown.filled(0), loadings)
    assert axes.collections[0].get_clim() == (-1, 1)
    assert [text.get_text() for text in axes.texts] == ["0.90", "−0.40", "−1.00"]  # noqa: RUF001 - a real minus
    assert [label.get_text() for label in axes.get_xticklabels()] == ["a", "b", "c"]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["one", "two"]
    assert axes.yaxis_inverted()


def test_a_heat_map_of_many_features_writes_no_values_and_one_of_zeros_is_drawn():
    wide = np.eye(2, MAX_LABELLED + 1)
    assert not drawn(wide, ["x"] * (MAX_LABELLED + 1), ["1", "2"]).texts
    assert not drawn(np.zeros((1, 2)), ["a", "b"], ["1"]).texts


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=lambda theme: theme.name)
def test_values_in_a_heat_map_can_be_read_on_their_cells(theme):
    values = np.linspace(-1, 1, 21)[np.newaxis]
    axes = drawn(values, [""] * 21, ["1"], theme=theme)
    mesh = axes.collections[0]
    for text in axes.texts:
        cell = mesh.cmap(mesh.norm(values[0, round(text.get_position()[0])]))
        assert contrast(text.get_color(), cell) > 4.5


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=lambda theme: theme.name)
def test_every_text_colour_has_the_contrast_that_accessibility_asks_for(theme):
    for colour in (theme.ink, theme.quiet, theme.encoder, theme.pca):
        assert contrast(colour, theme.paper) > 4.5


def test_contrast_is_that_of_the_guidelines():
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.478, abs=0.001)


def test_error_maps_share_one_scale_and_outline_the_mask():
    low, high = np.full((4, 6), 1.0), np.full((4, 6), 3.0)
    mask = np.zeros((4, 6), dtype=bool)
    mask[:2, :3] = True
    figure = error_maps([("low", low), ("high", high)], label="error", outline=mask)
    maps = figure.axes[:2]
    assert [axes.get_title(loc="left") for axes in maps] == ["low", "high"]
    for axes, values in zip(maps, (low, high), strict=True):
        np.testing.assert_array_equal(axes.images[0].get_array(), values)
        assert axes.images[0].get_clim() == (0, 3)
        x, y = axes.lines[0].get_data()
        assert set(x[~np.isnan(x)]) == {2.5, -0.5, 0.5, 1.5}
        assert np.nanmax(y) == 1.5
    assert figure.axes[2].get_ylabel() == "error"


def test_figures_take_the_colours_of_their_theme(loadings):
    for theme in (LIGHT, DARK):
        figure = drawn(loadings, ["a", "b", "c"], ["1", "2"], theme=theme).figure
        assert contrast(figure.get_facecolor(), theme.paper) == 1
