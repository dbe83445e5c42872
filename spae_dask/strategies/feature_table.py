"""Table of the chosen features: rank, cost, group, stability and weight of each, for pages, terminals and files."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from itertools import accumulate
from typing import Any

import numpy as np
import numpy.typing as npt

from spae_dask.markup import html_table
from spae_dask.maths.linalg.dropped import added_by_each
from spae_dask.maths.linalg.loss import total_variance
from spae_dask.rules import Rules
from spae_dask.strategies.core_summary import CoreSummary, Floats

MAX_COMPARED = 500
"""Features up to which the share that each adds is computed; of twice as many it takes four times as long."""


@dataclass(frozen=True)
class FeatureFacts:
    """Facts about the chosen features that their loadings do not tell.

    Attributes
    ----------
    costs : tuple of float or None
        Cost of each; 0 for included ones, which are paid already. None without costs.
    groups : tuple of str or None
        Group of each, "" for none. None without groups.
    adds : tuple of float or None
        Share of the total that the best codes on all chosen features lose without this one. None if the fit left no
        core, or chose more than ``MAX_COMPARED`` features.
    """

    costs: tuple[float, ...] | None = None
    groups: tuple[str, ...] | None = None
    adds: tuple[float, ...] | None = None

    @classmethod
    def of(cls, rules: Rules, columns: npt.NDArray[np.intp], k: int, summary: object) -> "FeatureFacts":
        """The facts about columns of a fit.

        Parameters
        ----------
        rules : Rules
            Resolved rules of the fit.
        columns : ndarray of int
            The chosen features, ascending.
        k : int
            Number of components.
        summary : object
            Summary that the fit left; only a ``CoreSummary`` tells what a feature adds.
        """
        chosen = [int(column) for column in columns]
        paid = set(map(int, rules.include))
        costs = None if rules.costs is None else tuple(0.0 if j in paid else float(rules.costs[j]) for j in chosen)
        groups = None if rules.groups is None else tuple(str(rules.groups[j]) for j in chosen)
        if not isinstance(summary, CoreSummary) or not 0 < len(chosen) <= MAX_COMPARED:
            return cls(costs, groups)
        added = added_by_each(summary.core, columns, k) / (total_variance(summary.core) or 1.0)
        return cls(costs, groups, tuple(added.tolist()))

    def as_dict(self) -> dict[str, list[Any]]:
        """The known facts by name, for JSON."""
        return {name: list(found) for name, found in vars(self).items() if found is not None}

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> "FeatureFacts":
        """The facts of which ``found`` is the dictionary; records of earlier versions have none.

        Raises
        ------
        TypeError, ValueError
            If it is no such dictionary.
        """

        def read(name: str, kind: Callable[[Any], Any]) -> Any:
            return None if found.get(name) is None else tuple(kind(each) for each in found[name])

        return cls(read("costs", float), read("groups", str), read("adds", float))


@dataclass(frozen=True)
class ChosenFeature:
    """A row of the table.

    Attributes
    ----------
    rank : int
        Place by falling weight, from 1.
    feature : str
        Name, or the number of the column.
    column : int
        Column of the data, from 0.
    weight : float
        Share of all squared loadings, each component weighing what it explains.
    adds : float or None
        Share of the total that the best codes on all chosen features lose without this one.
    cost, cost_so_far : float or None
        Cost, and the sum of the costs down to this row.
    group : str or None
        Group, "" for none.
    in_folds : float or None
        Share of the encoders of folds that use the feature.
    in_resamples : float or None
        Share of the encoders of resampled folds that use it.
    """

    rank: int
    feature: str
    column: int
    weight: float
    adds: float | None = None
    cost: float | None = None
    cost_so_far: float | None = None
    group: str | None = None
    in_folds: float | None = None
    in_resamples: float | None = None


COLUMNS = tuple(field.name for field in fields(ChosenFeature))
"""Names of the columns, in their order."""


@dataclass(frozen=True)
class FeatureTable:
    """The chosen features by falling weight, as a list to order or to measure from.

    Attributes
    ----------
    rows : tuple of ChosenFeature
        One for each feature.
    budget : float or None
        The most that the features may cost together.
    """

    rows: tuple[ChosenFeature, ...]
    budget: float | None = None

    @classmethod
    def of(
        cls,
        labels: Sequence[str],
        columns: Sequence[int],
        weights: Floats,
        facts: FeatureFacts,
        *,
        in_folds: Mapping[int, float] | None = None,
        in_resamples: Mapping[int, float] | None = None,
        budget: float | None = None,
    ) -> "FeatureTable":
        """The table of features with these labels, columns and weights.

        Parameters
        ----------
        labels, columns, weights, facts
            Of each chosen feature, in the same order.
        in_folds, in_resamples : mapping, optional
            Share of the encoders of folds, and of resampled ones, that use a column; a missing one is used by none.
        budget : float, optional
            The most that the features may cost together.
        """
        order = np.argsort(-weights, kind="stable").tolist()
        sums = [None] * len(order) if facts.costs is None else list(accumulate(facts.costs[place] for place in order))
        rows = [
            ChosenFeature(
                rank=rank,
                feature=labels[place],
                column=int(columns[place]),
                weight=float(weights[place]),
                adds=None if facts.adds is None else facts.adds[place],
                cost=None if facts.costs is None else facts.costs[place],
                cost_so_far=sums[rank - 1],
                group=None if facts.groups is None else facts.groups[place],
                in_folds=None if in_folds is None else in_folds.get(int(columns[place]), 0.0),
                in_resamples=None if in_resamples is None else in_resamples.get(int(columns[place]), 0.0),
            )
            for rank, place in enumerate(order, start=1)
        ]
        return cls(tuple(rows), budget)

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns that are known."""
        first = self.rows[0] if self.rows else ChosenFeature(1, "", 0, 0.0)
        return tuple(name for name in COLUMNS if getattr(first, name) is not None)

    def records(self) -> list[dict[str, Any]]:
        """The rows as dictionaries; ``pandas.DataFrame(table.records())`` makes a table of them."""
        return [{name: value for name, value in asdict(row).items() if name in self.columns} for row in self.rows]

    def _cells(self) -> list[list[str]]:
        """Names of the columns, and the rows, as readers see them."""
        head = [name.replace("_", " ") for name in self.columns]
        return [head, *([in_words(name, getattr(row, name)) for name in self.columns] for row in self.rows)]

    def __str__(self) -> str:
        """A table for the terminal."""
        lines = self._cells()
        widths = [max(map(len, cells)) for cells in zip(*lines, strict=True)]
        return "\n".join(
            "  ".join(
                cell.ljust(width) if name in TEXTS else cell.rjust(width)
                for name, cell, width in zip(self.columns, line, widths, strict=True)
            ).rstrip()
            for line in lines
        )

    def _repr_html_(self) -> str:
        """The same table for notebooks."""
        head, *cells = self._cells()
        return html_table("Chosen features, the largest weight first", head, cells)


TEXTS = ("feature", "group")
"""Columns of texts."""

SHARES = {"weight": ".2%", "adds": ".3%", "in_folds": ".0%", "in_resamples": ".0%"}
"""Columns of shares, and how they are printed."""


def in_words(name: str, value: Any) -> str:
    """A value of a column of the table as readers see it."""
    if name in SHARES:
        return format(value, SHARES[name])
    return f"{value:g}" if isinstance(value, float) else str(value)
