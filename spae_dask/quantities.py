"""Bytes and seconds as text, in one form for all messages. Pure: the standard library only."""

import math

UNITS = ((90, 1, "s"), (5400, 60, "min"), (172_800, 3600, "h"), (math.inf, 86_400, "d"))
"""For each unit of time: the most seconds it is used for, its length in seconds, and its name."""


def format_nbytes(nbytes: float, *, up: bool = False) -> str:
    """Bytes for people, in binary units: ``1536`` is ``1.5 KiB``; ``up`` rounds up, for a size that must suffice."""
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if abs(nbytes) < 1024 or unit == "TiB":
            break
        nbytes /= 1024
    digits = 0 if unit == "B" or nbytes >= 100 else 1
    return f"{math.ceil(nbytes * 10**digits) / 10**digits if up else nbytes:.{digits}f} {unit}"


def format_seconds(seconds: float) -> str:
    """Seconds for people: ``0.4 s``, ``40 s``, ``12 min``, ``3.4 h``, ``5.0 d``."""
    _, length, unit = next(each for each in UNITS if seconds <= each[0])
    number = seconds / length
    return f"{max(0.1, number):.1f} {unit}" if number < 9.95 else f"{number:.0f} {unit}"
