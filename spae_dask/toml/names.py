"""Suggestion of an allowed name for one that is not allowed."""

from collections.abc import Sequence
from difflib import get_close_matches


def did_you_mean(given: object, allowed: Sequence[str], most: int = 1) -> str:
    """A closing sentence of the ``most`` nearest names, or nothing if none of those that are allowed is near."""
    close = get_close_matches(str(given), allowed, n=most)
    return f" Did you mean {' or '.join(map(repr, close))}?" if close else ""
