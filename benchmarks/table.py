"""Lines of results, as text and as a Markdown table."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.timing import Ratio, Timed, cpu_ratio, typical, wall_ratio

BEGIN, END = "<!-- results begin -->", "<!-- results end -->"
"""What is between them in a Markdown file is written by a benchmark."""

HEAD = "| what | case | ours | other | ratio by the clock | of processor time | target | met |"
RULE = "|" + "---|" * 8

MET = {None: "", True: "yes", False: "no"}


@dataclass(frozen=True)
class Line:
    """Ours against another, as a ratio.

    Attributes
    ----------
    what, case : str
        What is divided by what, and on which problem.
    ours, other : sequence of Timed
        Turns, neighbours in time at the same index.
    at_most, at_least : float, optional
        The target: ours over other, or other over ours (a speed-up).
    """

    what: str
    case: str
    ours: Sequence[Timed]
    other: Sequence[Timed]
    at_most: float | None = None
    at_least: float | None = None

    @property
    def wall(self) -> Ratio:
        """By the clock."""
        return wall_ratio(self.other, self.ours) if self.at_least is not None else wall_ratio(self.ours, self.other)

    @property
    def cpu(self) -> Ratio:
        """Of processor time."""
        return cpu_ratio(self.other, self.ours) if self.at_least is not None else cpu_ratio(self.ours, self.other)

    @property
    def met(self) -> bool | None:
        """Whether the median by the clock meets the target; None without one."""
        if self.at_least is not None:
            return self.wall.median >= self.at_least
        return None if self.at_most is None else self.wall.median <= self.at_most

    def cells(self) -> list[str]:
        """Text of the table's cells."""
        target = ""
        if self.at_most is not None:
            target = f"≤ {self.at_most:g}"
        elif self.at_least is not None:
            target = f"≥ {self.at_least:g}"
        ours, other = (f"{typical(turns).wall:.2f} s" for turns in (self.ours, self.other))
        return [self.what, self.case, ours, other, str(self.wall), f"{self.cpu.median:.2f}", target, MET[self.met]]


@dataclass(frozen=True)
class MemoryLine:
    """Peak bytes for many rows against peak bytes for few.

    Attributes
    ----------
    what, case : str
        What was run, and on which problem.
    few, many : float
        MiB above the idle process.
    at_most : float, optional
        The target for ``many / few``.
    """

    what: str
    case: str
    few: float
    many: float
    at_most: float | None = None

    @property
    def met(self) -> bool | None:
        """Whether the target is met; None without one."""
        return None if self.at_most is None else self.many / self.few <= self.at_most

    def cells(self) -> list[str]:
        """Text of the table's cells."""
        target = "" if self.at_most is None else f"≤ {self.at_most:g}"
        ratio = f"{self.many / self.few:.2f}"
        return [self.what, self.case, f"{self.many:.0f} MiB", f"{self.few:.0f} MiB", ratio, "", target, MET[self.met]]


@dataclass(frozen=True)
class SecondsLine:
    """Seconds of something that is compared with nothing.

    Attributes
    ----------
    what, case : str
        What was run, and on which problem.
    seconds : float
        By the clock.
    at_most : float, optional
        The target.
    """

    what: str
    case: str
    seconds: float
    at_most: float | None = None

    @property
    def met(self) -> bool | None:
        """Whether the target is met; None without one."""
        return None if self.at_most is None else self.seconds <= self.at_most

    def cells(self) -> list[str]:
        """Text of the table's cells."""
        target = "" if self.at_most is None else f"≤ {self.at_most:g} s"
        return [self.what, self.case, f"{self.seconds:.2f} s", "", "", "", target, MET[self.met]]


@dataclass(frozen=True)
class OnceLine:
    """Another's seconds over ours, once each, each in a process of its own.

    Attributes
    ----------
    what, case : str
        What is divided by what, and on which problem.
    ours : float
        By the clock.
    other : float or None
        By the clock; None if it did not finish.
    failure : str
        Why not.
    at_least : float, optional
        The target for the speed-up.
    """

    what: str
    case: str
    ours: float
    other: float | None
    failure: str = ""
    at_least: float | None = None

    @property
    def met(self) -> bool | None:
        """Whether the target is met; None without one, or without another to compare with."""
        if self.at_least is None or self.other is None:
            return None
        return self.other / self.ours >= self.at_least

    def cells(self) -> list[str]:
        """Text of the table's cells."""
        target = "" if self.at_least is None else f"≥ {self.at_least:g}"
        other, ratio = (
            ("", self.failure) if self.other is None else (f"{self.other:.2f} s", f"{self.other / self.ours:.2f}")
        )
        return [self.what, self.case, f"{self.ours:.2f} s", other, ratio, "", target, MET[self.met]]


AnyLine = Line | MemoryLine | SecondsLine | OnceLine


def markdown_row(line: AnyLine) -> str:
    """One row of a table."""
    return f"| {' | '.join(line.cells())} |"


def write_markdown(path: Path, machine: Sequence[str], rows: Sequence[str]) -> None:
    """Put machine and table between the marks of an existing file, or make a file of nothing else."""
    results = "\n".join([BEGIN, *(f"- {line}" for line in machine), "", HEAD, RULE, *rows, END])
    if path.exists() and BEGIN in (text := path.read_text()):
        before, rest = text.split(BEGIN, 1)
        results = before + results + rest.split(END, 1)[1]
    path.write_text(results if results.endswith("\n") else results + "\n")
