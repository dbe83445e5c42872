"""On the hardest matrix every encoder lies between what none can beat and what its theorem promises."""

from pathlib import Path

import pytest

from benchmarks import lower_bound
from benchmarks.lower_bound import POLISHED, SELECTIONS, Case

SMALL = [Case(1, 40, 0.05, 4), Case(2, 20, 0.1, 7), Case(3, 30, 0.02, 6), Case(4, 30, 0.1, 20), Case(3, 12, 0.5, 18)]


@pytest.mark.parametrize("name", [*SELECTIONS, POLISHED])
@pytest.mark.parametrize("case", SMALL, ids=str)
def test_measured_ratios_lie_between_the_lower_bound_and_the_theorem(case: Case, name: str) -> None:
    measured, bound = case.measured(name), case.bound(name)
    assert measured >= case.least * (1 - 1e-9)
    assert (bound is None) == (name in ("greedy", "pivoted-qr", "leverage"))
    if bound is not None:
        assert measured <= bound
    if name == POLISHED:
        assert measured == pytest.approx(case.least, rel=1e-9)


def test_the_table_is_written_as_it_is_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(lower_bound, "HERE", tmp_path)
    monkeypatch.setattr(lower_bound, "CASES", SMALL[:2])
    monkeypatch.setattr("sys.argv", ["lower_bound", "--markdown"])
    lower_bound.main()
    printed = capsys.readouterr().out.strip()
    text = (tmp_path / "lower_bound.md").read_text()
    assert text.startswith("# Lower bound\n")
    assert text.endswith(f"\n\n{printed}\n")
    rows = [line.split("|")[1:-1] for line in printed.splitlines()]
    assert len(rows) == 4
    assert len({len(row) for row in rows}) == 1
    assert [row[5].strip() for row in rows[2:]] == [f"{case.least:.4f}" for case in SMALL[:2]]
