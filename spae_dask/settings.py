"""Settings with defaults in ``spae_dask.yaml``, kept in dask's configuration under ``spae_dask``.

Read at the doors only, where something starts: never by an algorithm.
"""

from pathlib import Path
from typing import Any

import dask.config
import yaml

from spae_dask.errors import InvalidInput

DEFAULTS: dict[str, Any] = yaml.safe_load(Path(__file__).with_name("spae_dask.yaml").read_text())
"""Default settings, as the file has them."""

dask.config.update_defaults(DEFAULTS)


def setting(name: str) -> Any:
    """The value of a setting, such as ``"memory-limit"``."""
    return dask.config.get(f"spae_dask.{name}")


def text_setting(name: str) -> str | None:
    """The value of a setting that is a text, or null.

    Raises
    ------
    InvalidInput
        If it is anything else.
    """
    value = setting(name)
    if value is None or isinstance(value, str):
        return value
    raise InvalidInput(f"the setting spae_dask.{name} is {value!r}. Give a string, or null. See spae_dask.yaml.")
