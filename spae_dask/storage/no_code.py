"""Zarr arrays whose entries are pickled: to decode them is to run whatever code their writer put there.

Newer releases of numcodecs refuse that unless they are told otherwise; older ones, and environments that tell them, do
not.
"""

from typing import Any

from spae_dask.errors import InvalidInput

CODECS = ("pickle",)
"""Ids of codecs that run code."""


def refuse_code(array: Any, name: str) -> None:
    """Look at the codecs of an array before anything of it is decoded.

    Parameters
    ----------
    array : zarr.Array or another
        Only those of Zarr have such codecs.
    name : str
        Name of the array in messages.

    Raises
    ------
    InvalidInput
        If one of them runs code.
    """
    metadata = getattr(array, "metadata", None)
    listed = (*(getattr(metadata, "filters", None) or ()), getattr(metadata, "compressor", None))
    for each in (*listed, *(getattr(metadata, "codecs", None) or ())):
        found = str(getattr(each, "codec_id", None) or getattr(each, "codec_name", ""))
        if found.rpartition(".")[2] in CODECS:
            raise InvalidInput(
                f"to read {name} is to decode by the codec {found!r}, which runs code that came with the data; that is "
                "never done. Have the writer of the store keep numbers as numbers, and names as strings."
            )
