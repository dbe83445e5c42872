"""The paper's figure: methods against average column sparsity, a row of panels a measure and a column a matrix."""

from collections.abc import Sequence

from spae_dask.report.figures import styled
from spae_dask.report.themes import LIGHT, Theme, missing_library
from spae_dask.strategies.comparison import ComparisonPoint

try:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter, MaxNLocator, NullFormatter
except ImportError as error:
    raise missing_library("matplotlib") from error

STYLES: dict[str, tuple[str, str, str]] = {
    "polished": ("#0a6c93", "o", "-"),
    "iterative": ("#009e73", "s", "-"),
    "batch": ("#56b4e9", "D", "-"),
    "TPower": ("#a85a12", "^", "--"),
    "GPower-l0": ("#cc79a7", "v", ":"),
    "GPower-l1": ("#59636e", "x", "-."),
}
"""Colour, marker and line of each method, distinct in print too and for readers who see few colours."""

OTHER = ("#1c2127", "*", "-")

SMALLEST_PERCENT = 1e-3
"""Smallest excess over PCA's loss on the log scale, in percent; smaller ones are drawn here, zero included."""

SPREAD = 20.0
"""Ratio of the largest excess over PCA to the smallest from which a log scale shows more."""


def comparison_figure(points: Sequence[ComparisonPoint], theme: Theme = LIGHT) -> Figure:
    """Loss beyond PCA's, and symmetric explained variance, of every method on every matrix.

    Parameters
    ----------
    points : sequence of ComparisonPoint
        Points in the order of matrices and methods in the figure; all with the same k.
    theme : Theme
        Colours of text and paper.

    Returns
    -------
    Figure
        Two rows of panels, of which the upper has a log scale if the losses spread widely.
    """
    subjects = list(dict.fromkeys(p.subject for p in points))
    methods = list(dict.fromkeys(p.method for p in points))
    percents = [loss_percent(p) for p in points]
    with styled(theme):
        width = max(5.2, 3.1 * len(subjects) + 0.6)  # inches; the least holds the title
        figure = Figure(figsize=(width, 6.4), layout="constrained")
        panels = figure.subplots(2, len(subjects), sharex="col", sharey="row", squeeze=False)
        for column, subject in enumerate(subjects):
            losses, variances = panels[:, column]
            d = next(len(p.H) for p in points if p.subject == subject)
            losses.set_title(f"{subject} ({d} variables)", fontsize=10.5, loc="left")
            for method in methods:
                drawn = sorted(
                    (p for p in points if (p.subject, p.method) == (subject, method)),
                    key=lambda p: (p.mean_column_nonzero, p.n_nonzero),  # GPower may use fewer than it is allowed
                )
                _draw(losses, drawn, [loss_percent(p) for p in drawn], method)
                _draw(variances, drawn, [p.symmetric_ratio for p in drawn], method)
            variances.set_xlabel("mean nonzeros of a column")
            variances.xaxis.set_major_locator(MaxNLocator(integer=True))
            used = [p.mean_column_nonzero for p in points if p.subject == subject]
            margin = max(0.5, 0.03 * (max(used) - min(used)))
            variances.set_xlim(min(used) - margin, max(used) + margin)
            for axes in (losses, variances):
                axes.grid(axis="y", color=theme.line, lw=0.6)
                axes.set_axisbelow(True)
        if max(percents) > SPREAD * min(percents):
            panels[0, 0].set_yscale("log")
            panels[0, 0].set_ylim(bottom=SMALLEST_PERCENT * 0.7)
            panels[0, 0].yaxis.set_minor_formatter(NullFormatter())
        else:
            panels[0, 0].set_ylim(bottom=0)
        panels[0, 0].yaxis.set_major_formatter(FuncFormatter(_percent))
        panels[0, 0].set_ylabel("loss beyond PCA's\n(lower is better)")
        panels[1, 0].set_ylabel("symmetric variance / PCA's\n(higher is better)")
        panels[1, 0].set_ylim(0, 1.03)
        baselines = " and ".join(dict.fromkeys(m.partition("-")[0] for m in methods if "Power" in m))
        if baselines:  # explains why they lead here
            panels[1, 0].set_title(f"maximized by {baselines}", fontsize=9, loc="left", color=theme.quiet)
        figure.suptitle(
            f"Sparse encoders of k = {points[0].n_components} components against PCA", x=0.01, ha="left", fontsize=12
        )
        handles, labels = panels[0, 0].get_legend_handles_labels()
        a_row = min(len(methods), int(width // 1.4))
        figure.legend(handles, labels, loc="outside lower center", ncols=a_row, frameon=False)
    return figure


def loss_percent(point: ComparisonPoint) -> float:
    """Loss beyond PCA's in percent of PCA's, as drawn."""
    return max(100 * (point.ratio - 1), SMALLEST_PERCENT)


def _percent(value: float, _: int) -> str:
    return f"{'≤ ' if value == SMALLEST_PERCENT else ''}{value:g} %"


def _draw(axes: Axes, points: Sequence[ComparisonPoint], values: Sequence[float], method: str) -> None:
    color, marker, line = STYLES.get(method, OTHER)
    ours = method == "polished"
    axes.plot(
        [p.mean_column_nonzero for p in points], values, color=color, marker=marker, ls=line, label=method,
        lw=2.0 if ours else 1.2, ms=5.5 if ours else 4.5, zorder=3 if ours else 2,
    )  # fmt: skip
