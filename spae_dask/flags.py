"""Parameters that are True or False, checked by one decorator. Pure."""

import functools
import inspect
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import numpy as np

from spae_dask.errors import InvalidInput

Given = ParamSpec("Given")
Result = TypeVar("Result")


def check_flag(name: str, given: object) -> None:
    """Refuse a flag that is neither true nor false; any text would count as true.

    Raises
    ------
    InvalidInput
        If ``given`` is not True or False, of Python or of numpy.
    """
    if not isinstance(given, bool | np.bool_):
        raise InvalidInput(f"{name}={given!r} is not allowed: give True or False.")


def flags_checked(function: Callable[Given, Result]) -> Callable[Given, Result]:
    """Check the flags of a public function before it runs: each parameter whose default is True or False.

    Examples
    --------
    >>> @flags_checked
    ... def save(path, *, overwrite=False):
    ...     return path
    >>> save("E.zarr", overwrite="no")
    Traceback (most recent call last):
    spae_dask.errors.InvalidInput: overwrite='no' is not allowed: give True or False.
    """
    signature = inspect.signature(function)
    flags = [name for name, each in signature.parameters.items() if isinstance(each.default, bool)]

    @functools.wraps(function)
    def checked(*args: Given.args, **kwargs: Given.kwargs) -> Result:
        given = signature.bind(*args, **kwargs).arguments
        for name in flags:
            if name in given:
                check_flag(name, given[name])
        return function(*args, **kwargs)

    return checked
