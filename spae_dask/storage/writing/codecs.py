"""Codec of a stored matrix: chosen for the speed of reading, which limits a fit.

Measured on one core of a virtual machine, one 8 MiB chunk, decoded GB/s (compression ratio); "default" is what Zarr
format 3 takes when it is not told, zstd level 0 without a shuffle:

==========================  ============  ============  ==============  ==================
entries                     default       lz4-shuffle   lz4-bitshuffle  zstd-bitshuffle
==========================  ============  ============  ==============  ==================
float64, noise              1.3 (1.03)    4.4 (1.06)    2.3 (1.08)      2.2 (1.06)
float32, noise              1.3 (1.08)    4.0 (1.06)    2.5 (1.09)      2.2 (1.06)
float32, rounded            0.7 (2.0)     3.2 (1.7)     2.4 (2.2)       1.6 (2.3)
float32, log counts         1.9 (21)      1.8 (3.5)     2.6 (4.5)       1.8 (41)
int32, counts               0.8 (5.6)     4.2 (4.6)     2.2 (8.0)       1.5 (9.9)
int16, counts               1.1 (4.2)     4.0 (2.4)     3.1 (4.8)       1.6 (5.0)
int8, genotypes             0.8 (4.7)     1.7 (2.0)     1.3 (4.9)       1.2 (6.3)
==========================  ============  ============  ==============  ==================

So floats take ``lz4-shuffle``: three times the speed at the same size. Integers take ``lz4-bitshuffle``: small numbers
leave most bits zero, which halves what is read from the disk and still decodes two to three times as fast as the
default. ``zstd-bitshuffle`` is for stores behind a slow network, and for matrices that are mostly zeros.
"""

import numpy as np
from zarr.codecs import BloscCodec

from spae_dask.errors import InvalidInput

CODECS: dict[str, BloscCodec | None] = {
    "lz4-shuffle": BloscCodec(cname="lz4", clevel=5, shuffle="shuffle"),
    "lz4-bitshuffle": BloscCodec(cname="lz4", clevel=5, shuffle="bitshuffle"),
    "zstd-bitshuffle": BloscCodec(cname="zstd", clevel=3, shuffle="bitshuffle"),
    "none": None,
}
"""The codecs by name, all of them Blosc so that any reader of Zarr format 3 has them."""


def choose_codec(dtype: np.dtype[np.generic], codec: str | None = None) -> tuple[str, str]:
    """Name of the codec and the reason for it.

    Parameters
    ----------
    dtype : numpy.dtype
        Type of the entries.
    codec : str, optional
        One of `CODECS`, if the choice has been made.

    Raises
    ------
    InvalidInput
        If there is no codec of that name.
    """
    if codec is not None:
        if codec not in CODECS:
            raise InvalidInput(f"codec={codec!r} is not known. Allowed are {', '.join(CODECS)}.")
        return codec, "as asked for"
    if dtype.kind == "f":
        return "lz4-shuffle", "floats decode about 3 times as fast as under Zarr's default, at about the same size"
    return "lz4-bitshuffle", "integers decode 2 to 3 times as fast as under Zarr's default, at about the same size"
