"""A name for what a pass computes: the digest of its recipe, down to the last bit of the arrays in it. Pure."""

import dataclasses
import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np


def digest_of(value: Any) -> str:
    """SHA-256 of plain values, arrays, and dataclasses and containers of these.

    A dataclass is known by its ``recipe_kind``, a class attribute that stays when the class moves or is renamed.
    Checkpoints of before are found by it. The oldest kinds are the places where their classes stood first.

    Equal values have equal digests in every process, and values that differ in a type, a name, a shape or a bit have
    different ones.
    """
    digest = hashlib.sha256()
    for piece in _pieces(value):
        digest.update(len(piece).to_bytes(8, "little"))  # so that no two sequences of pieces run together
        digest.update(piece)
    return digest.hexdigest()


def _kind_of(recipe: type) -> str:
    kind = vars(recipe).get("recipe_kind")  # its own: a recipe derived from another one computes something else
    if not isinstance(kind, str):
        raise AssertionError(f"the recipe {recipe.__name__} has no recipe_kind of its own; please report this")
    return kind


def _pieces(value: Any) -> Iterator[bytes]:
    if isinstance(value, np.ndarray):
        # by rows, whatever the order in memory; the order counts too, because a product's rounding may depend on it
        order = "F" if value.flags.f_contiguous and not value.flags.c_contiguous else "C"
        yield f"array {value.dtype.str} {value.shape} {order}".encode()
        yield np.ascontiguousarray(value).tobytes()
    elif isinstance(value, np.generic):
        yield f"number {value.dtype.str}".encode()
        yield value.tobytes()
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = dataclasses.fields(value)
        yield f"record {_kind_of(type(value))} {len(fields)}".encode()
        for field in fields:
            yield field.name.encode()
            yield from _pieces(getattr(value, field.name))
    elif isinstance(value, Mapping):
        yield f"mapping {len(value)}".encode()
        for name, each in value.items():
            yield from _pieces(name)
            yield from _pieces(each)
    elif isinstance(value, tuple | list | range):
        yield f"sequence {len(value)}".encode()
        for each in value:
            yield from _pieces(each)
    elif value is None or isinstance(value, bool | int | float | str):
        yield f"{type(value).__name__} {value!r}".encode()
    else:
        raise AssertionError(f"a recipe holds a {type(value).__name__}, which has no digest; please report this")
