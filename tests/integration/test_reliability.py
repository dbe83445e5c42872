"""Every group of the reliability benchmark, once over."""

from pathlib import Path

import pytest

from benchmarks import reliability
from benchmarks.rows import HEAD, Row, rewritten
from spae_dask.retry import RetryPolicy


@pytest.mark.parametrize("group", ["faults", pytest.param("resume", marks=pytest.mark.slow), "soak"])
def test_nothing_goes_wrong_once(group: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spae_dask.retry.POLICY", RetryPolicy(first_wait=0.001))
    rows = list(reliability.GROUPS[group](1, tmp_path))
    assert [str(row) for row in rows if row.wrong] == []
    assert all(row.runs == 1 for row in rows)


def test_the_exit_code_tells_whether_anything_went_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    def two(wrong: int) -> object:
        return lambda runs, scratch: iter([reliability.Row("soak", str(scratch), runs, wrong, "a | b")])

    for wrong in (0, 3):
        monkeypatch.setitem(reliability.GROUPS, "soak", two(wrong))
        assert reliability.main(["soak", "--runs", "2"]) == int(wrong > 0)
    assert str(reliability.Row("soak", "x", 1000, 0, "a | b")) == "| soak | x | 1,000 | 0 | a / b |"


def test_rows_take_the_place_of_older_ones_of_their_group_and_all_else_stays() -> None:
    order = ["chaos", "soak", "slurm"]
    soak, slurm = Row("soak", "fits", 500, 0, "fine"), Row("slurm", "scancel", 1, 0, "fine")
    text = (
        f"# Title\n\nBy hand.\n\n{HEAD}\n{soak}\n| by hand | x | 1 | 0 | y |\n\n- a machine\n\n## More\n\n| a | b |\n"
    )
    assert rewritten(text, [], order) == text
    added = rewritten(text, [slurm], order)
    assert added == text.replace(f"{soak}\n", f"{soak}\n{slurm}\n")
    both = [Row("chaos", "SIGKILL", 3, 0, "a"), Row("soak", "fits", 7, 1, "b")]
    assert rewritten(added, both, order) == added.replace(str(soak), f"{both[0]}\n{both[1]}")
    for empty in ("", "# Title\n"):
        assert rewritten(empty, [slurm], order) == f"{empty}{chr(10) if empty else ''}{HEAD}\n{slurm}\n"


def test_markdown_keeps_what_was_written_by_hand(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    target = tmp_path / "reliability.md"
    before = reliability.TARGET.read_text()
    target.write_text(before)
    monkeypatch.setattr(reliability, "TARGET", target)
    monkeypatch.setitem(reliability.GROUPS, "soak", lambda runs, scratch: iter([Row("soak", "x", runs, 0, "new")]))
    assert reliability.main(["soak", "--runs", "2", "--markdown"]) == 0
    old = [line for line in before.splitlines() if line.startswith("| soak ")]
    assert len(old) == 1
    assert target.read_text() == before.replace(old[0], "| soak | x | 2 | 0 | new |")
