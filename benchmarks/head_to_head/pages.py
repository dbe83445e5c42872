"""Pages of comparisons with other tools: a sentence that says who wins, the method, a figure and tables."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from matplotlib.figure import Figure

from benchmarks.extracts import table
from benchmarks.machine import describe_machine

HERE = Path(__file__).parent
OURS = "spae_dask"
COLOURS = ("#0a6c93", "#a85a12", "#009e73", "#cc79a7", "#6b6b6b", "#e69f00", "#56b4e9")
"""Colours of tools in figures; ours first."""


@dataclass(frozen=True)
class Page:
    """One comparison.

    Attributes
    ----------
    name : str
        Name of the Markdown file and of the figure.
    title, verdict, method : str
        Heading, the sentences that say who wins at what, and the description of the measurement.
    tables : sequence of (head, rows)
        Tables, each of texts.
    packages : sequence of str
        Packages whose versions the page names.
    """

    name: str
    title: str
    verdict: str
    method: str
    tables: Sequence[tuple[Sequence[str], Sequence[Sequence[str]]]]
    packages: Sequence[str]

    def text(self) -> str:
        """The Markdown."""
        facts = [*describe_machine(), ", ".join(f"{package} {version(package)}" for package in self.packages)]
        return "\n\n".join(
            [
                f"# {self.title}",
                self.verdict,
                f"{self.method.strip()}\nMade by `python -m benchmarks.head_to_head.{self.name}`.",
                f"![{self.title}]({self.name}.png)",
                "\n".join(f"- {fact}" for fact in facts),
                *(table(head, rows) for head, rows in self.tables),
            ]
        )

    def write(self, figure: Figure, folder: Path = HERE) -> None:
        """Write the page and its figure, and print the page."""
        text = self.text() + "\n"
        (folder / f"{self.name}.md").write_text(text, encoding="utf-8")
        figure.savefig(folder / f"{self.name}.png", dpi=130)
        print(text)


def best(scores: Mapping[str, float], digits: int, *, largest: bool = False) -> list[str]:
    """Names whose score is the best as it is shown, with so many digits after the point."""
    shown = {name: round(score, digits) for name, score in scores.items()}
    wanted = (max if largest else min)(shown.values())
    return [name for name, score in shown.items() if score == wanted]


def wins(cases: Sequence[Mapping[str, float]], digits: int, *, largest: bool = False) -> str:
    """Count the cases that each tool wins alone or shares, most first."""
    counts: dict[str, int] = {}
    for scores in cases:
        for name in best(scores, digits, largest=largest):
            counts[name] = counts.get(name, 0) + 1
    ranked = sorted(counts.items(), key=lambda item: -item[1])
    return ", ".join(f"{name} in {count}" for name, count in ranked) + f" of {len(cases)}"
