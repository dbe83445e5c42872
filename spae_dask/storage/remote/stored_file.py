"""Description of a file or an object, as a listing gives it."""

from dataclasses import dataclass


@dataclass(frozen=True)
class StoredFile:
    """A file or an object.

    Attributes
    ----------
    path : str
        Path below the listed prefix.
    nbytes : int
        Its size.
    time : float
        Time at which it was written, in seconds since 1970.
    tag : str
        Changes whenever the object is written again: the ETag of an object store, size and time of a file.
    """

    path: str
    nbytes: int
    time: float
    tag: str = ""
