"""Damaged files of every kind that is read: each gives a result or an error of ours, within bounds."""

import json

import pytest

from benchmarks.fuzzing import KINDS, WRONG, judged

NUMBER = {"zarr": 30, "zarr2": 30, "csr": 30}
"""Damaged files of a kind; of those that take no fit there are 60. ``benchmarks/reliability.py`` makes 1,000."""


@pytest.mark.parametrize("kind", KINDS)
def test_a_damaged_file_gives_a_result_or_an_error_of_ours(kind: str) -> None:
    counts = judged(kind, 0, NUMBER.get(kind, 60))
    assert counts.wrong == [], "\n".join(json.dumps(record) for record in counts.wrong)
    assert counts.outcomes.total() == NUMBER.get(kind, 60)
    assert set(counts.outcomes) - {"done", *WRONG}, "some damage must have been noticed"
