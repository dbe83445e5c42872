"""Damaged files of every kind that is read: each gives a result or an error of ours, within bounds."""

import json
from random import Random

import pytest

from benchmarks.fuzzing import KINDS, damage, judged


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("number", [12, pytest.param(60, marks=pytest.mark.slow)])
def test_a_damaged_file_gives_a_result_or_an_error_of_ours(kind: str, number: int) -> None:
    """``benchmarks/reliability.py`` makes 1,000 of each kind."""
    counts = judged(kind, 0, number)
    assert counts.wrong == [], "\n".join(json.dumps(record) for record in counts.wrong)
    assert counts.outcomes.total() == number
    assert counts.outcomes["done"] < number, "some damage must have been noticed"


def test_what_a_link_in_a_store_leads_to_is_not_damaged(tmp_path):
    outside, store = tmp_path / "outside", tmp_path / "x.zarr"
    outside.write_text("untouched")
    store.mkdir()
    for seed in range(200):
        (store / "zarr.json").unlink(missing_ok=True)  # a link by now, perhaps
        (store / "zarr.json").write_text('{"shape": [3, 2]}')
        (store / "link").unlink(missing_ok=True)
        (store / "link").symlink_to(outside)
        damage("zarr", tmp_path, Random(seed))
        assert outside.read_text() == "untouched", f"seed {seed}"
