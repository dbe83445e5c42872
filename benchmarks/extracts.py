"""Extracts of the tables here, for `docs/explain/quality.md` and `docs/compare.md`: `python -m benchmarks.extracts`."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import median

from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullFormatter, NullLocator

from benchmarks.table import BEGIN, END

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "explain" / "quality.md"
COMPARISON = HERE.parent / "docs" / "compare.md"
HEAD_TO_HEAD = HERE / "head_to_head"
PICTURE = HERE / "pictures" / "quality.png"

METHODS = ("polished", "iterative", "batch", "TPower", "GPower l0", "GPower l1", "SparsePCA", "MiniBatchSparsePCA")
"""Columns of `quality.md`; ours and the paper's first."""

DRAWN = {
    "polished": ("#0a6c93", "o", "-"),
    "iterative": ("#009e73", "s", "-"),
    "TPower": ("#a85a12", "^", "--"),
    "SparsePCA": ("#cc79a7", "v", ":"),
}
"""Colour, marker and line of the methods in the picture."""

K, R = 5, "10"
"""Components of the picture and of the table of data sets, and nonzeros of that table."""

Row = dict[str, str]


def rows(text: str) -> list[Row]:
    """The first table of a Markdown text, its rows by the names of the columns."""
    lines = [line.strip()[1:-1].split("|") for line in text.splitlines() if line.startswith("|")]
    head, _, *body = [[cell.strip() for cell in line] for line in lines]
    return [dict(zip(head, line, strict=True)) for line in body]


def ratio(row: Row, method: str) -> float:
    """Loss over PCA's on the data of the fit."""
    return float(row[method].split(" / ")[0])


def table(head: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    return "\n".join(f"| {' | '.join(line)} |" for line in (head, ["---"] * len(head), *body))


def overview(quality: Sequence[Row]) -> str:
    """Each method over all cases."""
    body = []
    for method in METHODS:
        found = [ratio(row, method) for row in quality]
        best = sum(ratio(row, method) <= min(ratio(row, each) for each in METHODS) for row in quality)
        body.append([method, f"{median(found):.4f}", f"{max(found):.4f}", f"{best} of {len(quality)}"])
    return table(["method", "median ratio", "largest ratio", "least loss of all, or equal to it"], body)


def data_sets(quality: Sequence[Row]) -> str:
    """Each data set at one size."""
    head = ["data", *METHODS]
    return table(head, [[row[name] for name in head] for row in quality if (row["k"], row["r"]) == (str(K), R)])


def tools(field: Sequence[Row]) -> str:
    """The tools of the field that ran: medians, and the data named once."""
    head = ["data", "tool", "read and fit", "peak memory", "explained", "loss / PCA's"]
    ran = [row for row in field if row["read and fit"]]
    body = [[row[name].partition(" (")[0] if name == "read and fit" else row[name] for name in head] for row in ran]
    for above, line in reversed(list(pairwise(body))):
        line[0] = "" if line[0] == above[0] else line[0]
    return table(head, body)


def picture(quality: Sequence[Row]) -> Figure:
    """Loss beyond PCA's of each data set at one k, against r."""
    names = list(dict.fromkeys(row["data"] for row in quality))
    figure = Figure(figsize=(9, 5.4), layout="constrained")
    panels = figure.subplots(2, -(-len(names) // 2), sharex=True, sharey=True).ravel()
    for axes, name in zip(panels, names, strict=False):
        drawn = [row for row in quality if (row["data"], row["k"]) == (name, str(K))]
        for method, (colour, marker, line) in DRAWN.items():
            losses = [max(100 * (ratio(row, method) - 1), 0.01) for row in drawn]
            axes.plot(
                [int(row["r"]) for row in drawn], losses, color=colour, marker=marker, ls=line, lw=1.8, label=method
            )
        axes.set_title(name, loc="left", fontsize=10.5)
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.xaxis.set_major_locator(FixedLocator(sorted({int(row["r"]) for row in quality})))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter("{x:.0f}")
        axes.yaxis.set_major_formatter("{x:g} %")
        axes.yaxis.set_minor_formatter(NullFormatter())
        axes.grid(axis="y", color="#d5dbe1", lw=0.6)
        axes.spines[["top", "right"]].set_visible(False)
    figure.supxlabel("nonzeros of a component", fontsize=10)
    figure.supylabel("loss beyond PCA's (lower is better)", fontsize=10)
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper right", ncols=len(DRAWN), frameon=False)
    return figure


def head_to_head(pages: Mapping[str, str]) -> str:
    """Each comparison with other tools: its link and the sentences that say who wins."""
    body = []
    for name, text in pages.items():
        title, verdict = text.split("\n\n")[:2]
        link = f"[{title.removeprefix('# ')}](../benchmarks/head_to_head/{name}.md)"
        body.append([link, verdict])
    return table(["comparison", "result"], body)


def head_to_head_pages() -> dict[str, str]:
    """Text of each page, by the name of its file."""
    return {path.stem: path.read_text(encoding="utf-8") for path in sorted(HEAD_TO_HEAD.glob("*.md"))}


def between_marks(text: str, made: Sequence[str]) -> str:
    """Return the page with its tables made anew, each between marks of its own."""
    before, *parts = text.split(BEGIN)
    return before + "".join(
        f"{BEGIN}\n\n{table}\n\n{END}{part.split(END, 1)[1]}" for table, part in zip(made, parts, strict=True)
    )


def page(text: str, quality: Sequence[Row], field: Sequence[Row]) -> str:
    """Return the page on quality with its tables of today."""
    return between_marks(text, [overview(quality), data_sets(quality), tools(field)])


def main() -> None:
    """Write the pages and the picture."""
    quality, field = (rows((HERE / name).read_text(encoding="utf-8")) for name in ("quality.md", "field.md"))
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8"), quality, field), encoding="utf-8")
    compared = between_marks(COMPARISON.read_text(encoding="utf-8"), [head_to_head(head_to_head_pages())])
    COMPARISON.write_text(compared, encoding="utf-8")
    picture(quality).savefig(PICTURE, dpi=160)


if __name__ == "__main__":
    main()
