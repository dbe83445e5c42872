"""A hyperspectral image as two matrices: pixels by 200 bands of Indian Pines, split like a chessboard.

Neighbouring pixels are nearly equal, so an encoder is fitted on the dark squares of the board, 16 x 16 pixels each, and
judged on the light ones. Where the image comes from is told in `spae_dask/datasets/indian_pines.py`; it is part of the
package tensorly.

    python pipelines/data/remote_sensing.py     # writes made/pixels.npy and made/pixels_new.npy beside this file
"""

from pathlib import Path

import numpy as np

from spae_dask.datasets.indian_pines import checkerboard, load_indian_pines

MADE = Path(__file__).parent / "made"

SIDE = 16
"""Pixels along a square of the board."""


def make(folder: Path = MADE) -> None:
    """Write the pixels to fit and those held out."""
    image = load_indian_pines().image
    dark = checkerboard(image.shape[:2], SIDE)
    folder.mkdir(parents=True, exist_ok=True)
    np.save(folder / "pixels.npy", image[dark])
    np.save(folder / "pixels_new.npy", image[~dark])


if __name__ == "__main__":
    make()
