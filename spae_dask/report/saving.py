"""Figures on disk: each appears whole or not at all, and the same figure is the same bytes."""

from pathlib import Path
from typing import Any

from spae_dask.report.figures import styled
from spae_dask.report.themes import LIGHT, Theme
from spae_dask.storage.writing.publish import publish


def save_figure(figure: Any, path: str | Path, *, overwrite: bool, theme: Theme = LIGHT) -> None:
    """Write a matplotlib figure in the format that the path ends in.

    Parameters
    ----------
    figure : Figure
        Figure made with the same theme.
    path : str or Path
        File to write; ends in ``.png`` or ``.svg``.
    overwrite : bool
        True to replace a file at that path.
    theme : Theme
        Colours.
    """
    kind = str(path).rpartition(".")[2]
    with publish(path, overwrite=overwrite) as work, styled(theme):
        figure.savefig(work, format=kind, dpi=150, metadata={"Date": None} if kind == "svg" else None)
