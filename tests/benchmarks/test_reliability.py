"""Every group of the reliability benchmark, once over."""

from pathlib import Path

import pytest

from benchmarks import reliability


@pytest.mark.parametrize("group", ["faults", "resume", "soak"])
def test_nothing_goes_wrong_once(group: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spae_dask.patience.FIRST_WAIT", 0.001)
    rows = list(reliability.GROUPS[group](1, tmp_path))
    assert [str(row) for row in rows if row.wrong] == []
    assert all(row.runs == 1 for row in rows)


def test_the_exit_code_tells_whether_anything_went_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    def two(wrong: int) -> object:
        return lambda runs, scratch: iter([reliability.Row("soak", str(scratch), runs, wrong, "a | b")])

    monkeypatch.setattr(reliability, "describe_machine", list)
    for wrong in (0, 3):
        monkeypatch.setitem(reliability.GROUPS, "soak", two(wrong))
        assert reliability.main(["soak", "--runs", "2"]) == int(wrong > 0)
    assert str(reliability.Row("soak", "x", 1000, 0, "a | b")) == "| soak | x | 1,000 | 0 | a / b |"
