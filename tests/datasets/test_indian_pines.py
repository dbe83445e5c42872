"""Indian Pines against published facts about it, and the damage to the file against damage made on purpose."""

import subprocess
import sys

import numpy as np
import pytest

from spae_dask.datasets import indian_pines
from spae_dask.datasets.indian_pines import (
    LAND_COVER,
    channel_centres,
    checkerboard,
    damaged_entries,
    has_carriage_returns,
    load_indian_pines,
)
from spae_dask.errors import NotFound

PUBLISHED_CENTRES = {
    1: 400.02, 2: 409.82, 12: 508.12, 31: 696.50, 32: 686.91, 42: 783.27, 52: 879.53, 82: 1167.61, 94: 1282.55,
    95: 1273.00, 105: 1372.59, 140: 1720.10, 157: 1888.28, 158: 1883.24, 178: 2082.97, 203: 2331.14, 220: 2498.96,
}  # fmt: skip
"""Spectral calibration of 1992, as distributed with the image by Purdue University."""

LABELLED = (46, 1428, 830, 237, 483, 730, 28, 478, 20, 972, 2455, 593, 205, 1265, 386, 93)
"""Published numbers of pixels of the sixteen kinds of land cover."""


@pytest.fixture(scope="module")
def data():
    return load_indian_pines()


def test_the_image_has_the_published_shape_and_first_spectrum(data):
    assert data.image.shape == (145, 145, 200)
    assert data.image.dtype == np.uint16
    assert data.image[0, 0, :6].tolist() == [3172, 4142, 4506, 4279, 4782, 5048]
    assert (data.image.min(), data.image.max()) == (955, 9604)


def test_the_labels_have_the_published_counts_and_a_name_each(data):
    assert tuple(np.bincount(data.labels.ravel())[1:]) == LABELLED
    assert len(LAND_COVER) == 17


def test_pixels_are_the_image_row_by_row(data):
    assert data.pixels.shape == (21025, 200)
    np.testing.assert_array_equal(data.pixels[145 + 2], data.image[1, 2])


def test_channel_centres_are_those_of_the_published_calibration():
    centres = channel_centres()
    assert centres.shape == (220,)
    for channel, published in PUBLISHED_CENTRES.items():
        assert centres[channel - 1] == pytest.approx(published, abs=0.011)


def test_no_band_lies_where_water_vapour_absorbs(data):
    assert not ((data.wavelengths > 1357) & (data.wavelengths < 1408)).any()
    assert not ((data.wavelengths > 1814) & (data.wavelengths < 1938)).any()
    assert data.wavelengths.max() < 2495


@pytest.mark.parametrize(("absorption", "halfwidth"), [(762, 25), (940, 40), (1130, 50)])
def test_the_mean_spectrum_has_the_absorptions_of_the_air_at_their_wavelengths(data, absorption, halfwidth):
    near = np.flatnonzero(np.abs(data.wavelengths - absorption) < halfwidth)
    deepest = near[data.pixels[:, near].mean(axis=0).argmin()]
    assert abs(data.wavelengths[deepest] - absorption) < 11


def test_a_chessboard_has_squares_of_one_colour_and_neighbours_of_the_other():
    mask = checkerboard((6, 9), 3)
    assert mask[:3, :3].all()
    assert not mask[:3, 3:6].any()
    assert not mask[3:, :3].any()
    assert mask[3:, 3:6].all()
    assert mask.sum() == 27


def test_no_byte_is_a_carriage_return_and_line_feeds_are_twice_as_frequent(data):
    low = np.bincount((data.pixels & 0xFF).ravel(), minlength=256)
    assert not has_carriage_returns(data.pixels)
    assert low[10] / low[[9, 11]].mean() == pytest.approx(2, rel=0.05)


def test_damage_made_on_purpose_is_found_and_sound_entries_are_not_called_damaged():
    sound = np.array([[2600, 3328, 3583, 3600, 2815, 3400]], dtype=np.uint16)
    assert has_carriage_returns(sound)
    stored = np.where(sound >> 8 == 13, sound - 768, sound).astype(np.uint16)
    expected = sound + np.array([[40.0, -60.0, 80.0, 0.0, -90.0, 100.0]])
    assert damaged_entries(stored, expected).tolist() == [[False, True, True, False, False, True]]


def test_without_the_package_that_holds_it_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setattr(indian_pines, "find_spec", lambda name: None)
    with pytest.raises(NotFound, match=r'pip install "spae-dask\[demo\]"'):
        load_indian_pines()


def test_loading_does_not_import_the_package_that_holds_it():
    code = (
        "import sys; from spae_dask.datasets.indian_pines import load_indian_pines as load; load(); "
        "sys.exit('tensorly' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
