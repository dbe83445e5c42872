"""Parameters that are True or False, checked by one decorator. Pure."""

import functools
import inspect
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from spae_dask.errors import InvalidInput

Given = ParamSpec("Given")
Result = TypeVar("Result")


WANTED = "give True or False."
"""Values that a flag may have, as error messages say it."""


def is_flag(given: object) -> bool:
    """Tell True and False, of Python or of numpy, from all else."""
    return isinstance(given, bool) or (str(getattr(given, "dtype", "")) == "bool" and getattr(given, "ndim", None) == 0)


def check_flag(name: str, given: object) -> None:
    """Refuse a flag that is neither true nor false; any text would count as true.

    Raises
    ------
    InvalidInput
        If ``given`` is not True or False, of Python or of numpy.
    """
    if not is_flag(given):
        raise InvalidInput(f"{name}={given!r} is not allowed: {WANTED}")


def flags_checked(function: Callable[Given, Result]) -> Callable[Given, Result]:
    """Check the flags of a public function before it runs: each parameter whose default is True or False.

    A parameter that is annotated with another type than bool takes other values too, and is checked elsewhere.

    Examples
    --------
    >>> @flags_checked
    ... def save(path, *, overwrite=False):
    ...     return path
    >>> save("E.zarr", overwrite="no")
    Traceback (most recent call last):
    spae_dask.errors.InvalidInput: overwrite='no' is not allowed: give True or False.
    """
    parameters = inspect.signature(function).parameters
    flags = [
        name
        for name, each in parameters.items()
        if isinstance(each.default, bool) and each.annotation in (bool, inspect.Parameter.empty)
    ]

    @functools.wraps(function)
    def checked(*args: Given.args, **kwargs: Given.kwargs) -> Result:
        given = dict(zip(parameters, args, strict=False)) | kwargs
        for name in flags:
            if name in given:
                check_flag(name, given[name])
        return function(*args, **kwargs)

    return checked
