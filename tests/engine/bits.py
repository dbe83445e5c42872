"""Results to the last bit."""

from typing import Any

import numpy as np


def bits(result: Any) -> Any:
    """Everything in a result (numbers, arrays, sequences, mappings, dataclasses of these), to be compared by ``==``."""
    if isinstance(result, dict):
        return {name: bits(value) for name, value in result.items()}
    if hasattr(result, "__dict__"):
        return {name: bits(value) for name, value in vars(result).items()}
    if isinstance(result, list | tuple):
        return [bits(value) for value in result]
    if result is None:
        return None
    array = np.asarray(result)
    assert array.dtype != object, f"pointers to {type(result).__name__} are no bits"
    return array.dtype.str, array.shape, array.tobytes()
