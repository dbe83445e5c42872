"""Expect that a slow cluster is warned of, on a machine that may itself be busy."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from spae_dask.errors import SlowClusterWarning


@contextmanager
def warned_of_slowness(pattern: str) -> Iterator[list[str]]:
    """Expect one `SlowClusterWarning` or more that match, and yield a list of their texts, filled at the end.

    Others of that class may come with them: on a busy machine a pass may stall before the event that the test makes.
    """
    found: list[str] = []
    with pytest.warns(SlowClusterWarning) as told:
        yield found
    texts = [str(each.message) for each in told]
    found.extend(text for text in texts if re.search(pattern, text))
    assert found, texts
