"""Advice on the package to install if a library that a kind of cluster needs is missing."""

from importlib import import_module
from types import ModuleType

from spae_dask.errors import InvalidInput


def required(module: str, extra: str) -> ModuleType:
    """A module of this room whose library comes with an extra.

    Parameters
    ----------
    module : str
        Its full name.
    extra : str
        The extra.

    Raises
    ------
    InvalidInput
        If that library is not installed.
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("spae_dask"):
            raise
        raise InvalidInput(
            f'this kind of cluster needs {error.name}, which is not installed: pip install "spae-dask[{extra}]".'
        ) from error
