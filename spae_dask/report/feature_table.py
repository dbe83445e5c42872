"""The features an encoder uses, one a row: name, column, share and loadings."""

import numpy as np

from spae_dask.report.encoder_results import EncoderResults
from spae_dask.report.html import Markup, Section, filled, joined, number, paragraph, table

MAX_COLUMNS = 12
"""Components that have a column of their own; of more, the loadings that are not zero are listed in one."""

MAX_ROWS = 5000
"""Features listed; a browser takes seconds over many more."""


def features_section(results: EncoderResults) -> Section:
    """All selected features, those of the largest share first."""
    k, m = results.components.shape
    order = np.argsort(-results.shares, kind="stable")[:MAX_ROWS]
    wide = k <= MAX_COLUMNS
    head = ["feature", "column", "share", *([f"component {j + 1}" for j in range(k)] if wide else ["loadings"])]
    loadings = _in_columns if wide else _in_one
    rows = [
        [
            results.labels[place],
            number(results.selected[place], f"{results.selected[place]}"),
            number(results.shares[place], f"{results.shares[place]:.2%}"),
            *loadings(results.components[:, place]),
        ]
        for place in order
    ]
    named = "" if results.names is not None else " The data had no names, so features are called by their columns."
    intro = paragraph(
        "Encoding a row takes these {} of its {} features and no others. A loading is what a feature counts in a "
        "component, once the mean has been taken off{}; an empty cell is exactly zero. The share is the feature's part "
        "of all squared loadings, each component weighing what it explains. Columns are counted from 0.{}",
        number(m, f"{m:,}"),
        f"{results.n_features:,}",
        " and the feature divided by its standard deviation" if results.parameters.get("scale") else "",
        named,
    )
    if not m:
        return Section("The features it uses", paragraph("None: the data hold nothing to encode."))
    cut = "" if m <= MAX_ROWS else filled(" The {:,} of the largest share are listed.", MAX_ROWS)
    caption = filled("Features and their loadings, the largest share first.{}", cut)
    return Section("The features it uses", joined(intro, table(caption, head, rows, sortable=True)))


def _in_columns(loadings: np.ndarray) -> list[Markup | str]:
    return [number(each, f"{each:.4f}") if each else "" for each in loadings]


def _in_one(loadings: np.ndarray) -> list[Markup | str]:
    used = np.flatnonzero(loadings)
    told = (filled("{}: {}", j + 1, number(loadings[j], f"{loadings[j]:.4f}")) for j in used)
    return [Markup(", ").join(told)]
