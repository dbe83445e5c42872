"""What a listing tells of a file or an object."""

from dataclasses import dataclass


@dataclass(frozen=True)
class StoredFile:
    """A file or an object.

    Attributes
    ----------
    path : str
        Below what was listed.
    nbytes : int
        Its size.
    time : float
        When it was written, in seconds since 1970.
    tag : str
        Changes whenever the object is written again: the ETag of an object store, size and time of a file.
    """

    path: str
    nbytes: int
    time: float
    tag: str = ""
