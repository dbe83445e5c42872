"""Comparisons as tables: one row a point, one row a coefficient, and the paper's table of encoders as text."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from spae_dask.maths.linalg.scaling import unit_columns
from spae_dask.maths.linalg.spectral import fix_signs
from spae_dask.strategies.comparison import ComparisonPoint
from spae_dask.strategies.core_summary import Floats

FEW = 24
"""Features of which even those that no method uses have a row in the table."""


def point_records(points: Iterable[ComparisonPoint]) -> list[dict[str, Any]]:
    """A dictionary a point: what was asked for, and the four numbers the paper compares by."""
    return [
        {
            "matrix": p.subject,
            "k": p.n_components,
            "r": p.n_nonzero,
            "method": p.method,
            "ratio": p.ratio,
            "information_loss": p.ratio,
            "symmetric_ratio": p.symmetric_ratio,
            "mean_column_nonzero": p.mean_column_nonzero,
            "combined_nonzero": p.combined_nonzero,
        }
        for p in points
    ]


def encoder_records(points: Iterable[ComparisonPoint], features: Sequence[str]) -> list[dict[str, Any]]:
    """A dictionary a nonzero of each encoder, so the rows of a component are its support; columns have unit length.

    Parameters
    ----------
    points : iterable of ComparisonPoint
        Points, all on the same data.
    features : sequence of str
        Names of the columns of those.
    """
    records = []
    for p in points:
        H = shown(p.H)
        records += [
            {
                "matrix": p.subject,
                "k": p.n_components,
                "r": p.n_nonzero,
                "method": p.method,
                "ratio": p.ratio,
                "information_loss": p.ratio,
                "symmetric_ratio": p.symmetric_ratio,
                "component": j + 1,
                "feature": features[int(i)],
                "coefficient": float(H[i, j]),
            }
            for j in range(H.shape[1])
            for i in np.flatnonzero(H[:, j])
        ]
    return records


def shown(H: Floats) -> Floats:
    """Columns of unit length, the entry of largest magnitude positive."""
    return fix_signs(unit_columns(H)[0])


def encoder_table(points: Sequence[ComparisonPoint], features: Sequence[str]) -> str:
    """The encoders side by side, as the paper prints them: a row a feature, k columns a method, zeros left out.

    Parameters
    ----------
    points : sequence of ComparisonPoint
        One a method, all on the same data with the same k and r.
    features : sequence of str
        Names of the columns of those; where they are many, rows that no method uses are left out.
    """
    first, k = points[0], points[0].n_components
    encoders = [shown(p.H) for p in points]
    width = max(6 * k, *(len(p.method) for p in points), 10)
    name_width = max(18, *(len(name) for name in features))
    lines = [
        f"Encoders of {first.subject}, k = {k}, r = {first.n_nonzero}: coefficients of the {k} components, by method",
        "",
        " " * name_width + "".join(f"  {p.method:>{width}}" for p in points),
    ]
    for i, name in enumerate(features):
        if len(features) <= FEW or any(H[i].any() for H in encoders):
            cells = ["".join(f"{value:6.2f}" if value else "     ." for value in H[i]) for H in encoders]
            lines.append(f"{name:<{name_width}}" + "".join(f"  {cell:>{width}}" for cell in cells))
    lines.append("")
    for title, values in (
        ("ratio", [f"{p.ratio:.4f}" for p in points]),
        ("symmetric variance", [f"{p.symmetric_ratio:.4f}" for p in points]),
        ("features used", [str(p.combined_nonzero) for p in points]),
    ):
        lines.append(f"{title:<{name_width}}" + "".join(f"  {value:>{width}}" for value in values))
    lines += [
        "",
        "ratio: squared error of decoding over PCA's, 1 is the least. symmetric variance: the part of X in the span of",
        "the encoder, over PCA's, 1 is the most.",
    ]
    return "\n".join(lines)
