"""Indian Pines: a hyperspectral image of farmland, small enough to ship with a Python package.

The Airborne Visible/Infrared Imaging Spectrometer (AVIRIS) flew over north-west Indiana on 12 June 1992. The scene is
145 x 145 pixels of about 20 m; each pixel is a spectrum of 220 channels from 400 to 2500 nm, stored as
``1000 + 500 * radiance``. The corrected version used here, as everywhere, leaves out the 20 channels in which water
vapour absorbs nearly everything (104-108, 150-163 and 220, counted from 1), so 200 bands remain.

    M. F. Baumgardner, L. L. Biehl and D. A. Landgrebe, *220 Band AVIRIS Hyperspectral Image Data Set: June 12, 1992
    Indian Pine Test Site 3*, Purdue University Research Repository (2015), doi:10.4231/R7RX991C.

The arrays are those inside the package tensorly, which is found but not imported. They are damaged: on its way the file
was once taken for text, and every byte 13 (carriage return) became a byte 10 (line feed), so that values from 3328 to
3583 are stored 768 too low. No byte is 13, and 10 is twice as frequent as its neighbours; :func:`damaged_entries` finds
them. The image is left as it is, because this is the form in which it is known.
"""

import hashlib
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from spae_dask.errors import InvalidInput, NotFound

SHAPE = (145, 145, 200)

WATER_CHANNELS = (*range(104, 109), *range(150, 164), 220)
"""Channels left out of the corrected image, counted from 1."""

SPECTROMETERS = (
    (31, 400.02, 547.60, 696.50),
    (63, 686.91, 985.27, 1282.55),
    (63, 1273.00, 1581.30, 1888.28),
    (63, 1883.24, 2192.37, 2498.96),
)
"""Channels of each of the four spectrometers, and the centres of its first, middle and last channel in nm."""

LAND_COVER = (
    "not labelled",
    "alfalfa",
    "corn, no till",
    "corn, minimum till",
    "corn",
    "grass and pasture",
    "grass and trees",
    "grass and pasture, mowed",
    "hay, windrowed",
    "oats",
    "soybeans, no till",
    "soybeans, minimum till",
    "soybeans, clean till",
    "wheat",
    "woods",
    "buildings, grass, trees and drives",
    "stone and steel towers",
)
"""Meaning of the labels 0 to 16."""


@dataclass(frozen=True, eq=False)
class IndianPines:
    """The image and what is known about it.

    Attributes
    ----------
    image : ndarray (145, 145, 200) of uint16
        Radiance as stored: 1000 more than 500 times the radiance.
    labels : ndarray (145, 145) of uint8
        Land cover of each pixel, an index into ``LAND_COVER``.
    channels : ndarray (200,) of int
        Channel of each band among the instrument's 220, counted from 1.
    wavelengths : ndarray (200,)
        Centre of each band in nm.
    source : str
        File and package that the arrays came from.
    sha256 : str
        Digest of the image file.
    """

    image: npt.NDArray[np.uint16]
    labels: npt.NDArray[np.uint8]
    channels: npt.NDArray[np.intp]
    wavelengths: npt.NDArray[np.float64]
    source: str
    sha256: str

    @property
    def pixels(self) -> npt.NDArray[np.uint16]:
        """The image as a matrix (21025, 200): pixels row by row, bands as columns."""
        return self.image.reshape(-1, self.image.shape[2])

    @property
    def band_names(self) -> tuple[str, ...]:
        """Channel and centre of each band: the spectrometers overlap, so two bands may have the same centre."""
        pairs = zip(self.channels, self.wavelengths, strict=True)
        return tuple(f"channel {channel} ({centre:.0f} nm)" for channel, centre in pairs)


def load_indian_pines() -> IndianPines:
    """Load the Indian Pines image.

    Raises
    ------
    NotFound
        If the package that holds the image is not installed.
    InvalidInput
        If the file holds another array.
    """
    spec = find_spec("tensorly")
    folders = [] if spec is None else list(spec.submodule_search_locations or [])
    if not folders:
        raise NotFound(
            "the Indian Pines image needs the package tensorly, which is not installed. Run `pip install "
            '"spae-dask[demo]"`.'
        )
    folder = Path(folders[0]) / "datasets" / "data"
    image = _read(folder / "Indian_pines_corrected.npy", SHAPE)
    labels = _read(folder / "Indian_pines_gt.npy", SHAPE[:2])
    channels = np.setdiff1d(np.arange(1, 221), WATER_CHANNELS)
    return IndianPines(
        image=image.astype(np.uint16, copy=False),
        labels=labels.astype(np.uint8, copy=False),
        channels=channels,
        wavelengths=channel_centres()[channels - 1],
        source=f"Indian_pines_corrected.npy of tensorly {version('tensorly')}",
        sha256=hashlib.sha256((folder / "Indian_pines_corrected.npy").read_bytes()).hexdigest(),
    )


def _read(path: Path, shape: tuple[int, ...]) -> npt.NDArray[Any]:
    if not path.is_file():
        raise NotFound(f'{path} is missing. Reinstall the data: `pip install --force-reinstall "spae-dask[demo]"`.')
    array = np.ascontiguousarray(np.load(path, allow_pickle=False))
    if array.shape != shape or array.dtype.kind != "u":
        raise InvalidInput(
            f"{path} holds {array.dtype} {array.shape}, but Indian Pines is unsigned {shape}. Reinstall the data: "
            '`pip install --force-reinstall "spae-dask[demo]"`.'
        )
    return array


def channel_centres() -> npt.NDArray[np.float64]:
    """Centres (220,) of the instrument's channels in nm, as calibrated in 1992.

    Within a spectrometer the published centres follow a parabola to 0.01 nm, so three of them give all; the calibration
    itself claims 1 to 2.6 nm. Neighbouring spectrometers overlap, so the centres do not always ascend.
    """
    centres = []
    for n, first, middle, last in SPECTROMETERS:
        # the parabola in Newton's form, about the middle channel n // 2 = (n - 1) / 2
        step = np.arange(n) - n // 2
        slope, bend = (last - first) / (n - 1), (first - 2 * middle + last) / (n // 2) ** 2
        centres.append(middle + slope * step + 0.5 * bend * step**2)
    return np.concatenate(centres)


def checkerboard(shape: tuple[int, int], side: int) -> npt.NDArray[np.bool_]:
    """Mask of the dark squares of a chessboard of ``side`` x ``side`` pixels; the top left square is dark.

    Neighbouring pixels are nearly equal, so a split into alternate pixels would test an encoder on what it was trained
    on. Squares keep the halves apart.
    """
    row, column = np.indices(shape)
    mask: npt.NDArray[np.bool_] = (row // side + column // side) % 2 == 0
    return mask


def damaged_entries(pixels: npt.NDArray[np.uint16], decoded: npt.NDArray[np.float64]) -> npt.NDArray[np.bool_]:
    """Mask of the entries whose upper byte was probably 13 and is stored as 10.

    Parameters
    ----------
    pixels : ndarray (n, d)
        Image entries as stored.
    decoded : ndarray (n, d)
        Expected values, by the rest of the spectrum, such as a reconstruction by PCA. An entry with upper byte 10 is
        damaged if it is nearer to its expected value after 768 is added than before.
    """
    lost = (13 - 10) << 8
    mask: npt.NDArray[np.bool_] = (pixels >> 8 == 10) & (decoded > pixels + lost / 2)
    return mask


def has_carriage_returns(pixels: npt.NDArray[np.uint16]) -> bool:
    """Return True if any byte is 13. No byte is 13 if a program once converted the file as text."""
    return bool(((pixels >> 8 == 13) | (pixels & 0xFF == 13)).any())
