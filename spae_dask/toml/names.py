"""Suggestion of an allowed name for one that is not allowed."""

from difflib import get_close_matches


def did_you_mean(given: object, allowed: list[str]) -> str:
    """A closing sentence, or nothing if none of the allowed names is near."""
    close = get_close_matches(str(given), allowed, n=1)
    return f" Did you mean {close[0]!r}?" if close else ""
