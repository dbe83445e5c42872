"""Damaged files of every kind that is read: each gives a result or an error of ours, within bounds."""

import json

import pytest

from benchmarks.fuzzing import KINDS, judged

NUMBER = {"encoder": 60}
"""Damaged files of a kind, 30 of the others. ``benchmarks/reliability.py`` makes 1,000."""


@pytest.mark.parametrize("kind", KINDS)
def test_a_damaged_file_gives_a_result_or_an_error_of_ours(kind: str) -> None:
    number = NUMBER.get(kind, 30)
    counts = judged(kind, 0, number)
    assert counts.wrong == [], "\n".join(json.dumps(record) for record in counts.wrong)
    assert counts.outcomes.total() == number
    assert counts.outcomes["done"] < number, "some damage must have been noticed"
