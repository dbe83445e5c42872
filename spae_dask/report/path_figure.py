"""Loss against sparsity, one line for each number of components."""

from spae_dask.report.figures import styled
from spae_dask.report.themes import LIGHT, Theme, missing_library
from spae_dask.strategies.path import SparsityPath

try:
    from matplotlib.figure import Figure
except ImportError as error:
    raise missing_library("matplotlib") from error


def path_figure(path: SparsityPath, theme: Theme = LIGHT) -> Figure:
    """Excess over PCA's loss, and symmetric variance, against the nonzeros of a component.

    Parameters
    ----------
    path : SparsityPath
        The points.
    theme : Theme
        Colours.

    Returns
    -------
    Figure
        Two panels side by side.
    """
    with styled(theme):
        figure = Figure(figsize=(9, 3.6), layout="constrained")
        loss, symmetric = figure.subplots(1, 2)
        for k in sorted({point.n_components for point in path.points}):
            points = sorted((p for p in path.points if p.n_components == k), key=lambda p: p.n_nonzero)
            r = [p.n_nonzero for p in points]
            loss.plot(r, [100 * max(p.ratio - 1, 1e-12) for p in points], "o-", ms=4, lw=1.4, label=f"k = {k}")
            if path.chosen is not None:
                beyond = [100 * max((p.held_out or 1.0) - 1, 1e-12) for p in points]
                errors = [100 * (p.held_out_error or 0.0) for p in points]
                loss.errorbar(r, beyond, yerr=errors, fmt="s:", ms=3, lw=1, capsize=2, label=f"k = {k}, held out")
            symmetric.plot(r, [p.symmetric_ratio for p in points], "o-", ms=4, lw=1.4, label=f"k = {k}")
        loss.set(xlabel="nonzeros of a component", ylabel="loss beyond PCA's (%)", yscale="log")
        symmetric.set(xlabel="nonzeros of a component", ylabel="symmetric variance / PCA's", ylim=(0, 1.02))
        symmetric.axhline(1, color=theme.quiet, lw=0.8, ls=":")
        for axes in (loss, symmetric):
            axes.legend(frameon=False)
        figure.suptitle(f"{path.method} encoders", fontsize=10)
    return figure
