"""Loss against sparsity: an encoder for every (k, r), all on one core, hence from one read of the data."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import product
from typing import Any

from spae_dask.errors import InvalidInput
from spae_dask.markup import html_table
from spae_dask.strategies.certificate import Certificate
from spae_dask.strategies.core_summary import CoreSummary, Floats
from spae_dask.strategies.folds import measure
from spae_dask.strategies.held_out import least_within
from spae_dask.strategies.methods import Report
from spae_dask.strategies.parameters import FitParameters
from spae_dask.strategies.refit import Refit
from spae_dask.strategies.sizes import best_known, by_size
from spae_dask.strategies.sparse_encoder import FittedEncoder, encode_core
from spae_dask.strategies.stream import Streamed

Summary = CoreSummary | Refit | Streamed

HEAD = ("k", "r", "features", "ratio", "explained", "symmetric", "bound")
"""Column headings of the table."""

WIDTHS = (4, 6, 9, 10, 10, 10, 8)

OF_FOLDS = ("held out", "+-")
"""Headings of further columns, if rows were held out."""


HELD_OUT = ("held_out", "held_out_error")
"""Fields of a point that only folds give."""


@dataclass(frozen=True)
class PathPoint:
    """One encoder of the path.

    Attributes
    ----------
    n_components, n_nonzero : int
        k and r.
    combined_nonzero : int
        Features that any component uses.
    loss, pca_loss, ratio : float
        Loss, PCA's, and the first over the second.
    explained : float
        Share of the total explained.
    symmetric_ratio : float
        Symmetric explained variance over that of PCA.
    bound : float or None
        Bound that a theorem gives for the ratio.
    held_out, held_out_error : float or None
        Ratio on rows held out, as a mean over folds, and its standard error. None without folds.
    """

    n_components: int
    n_nonzero: int
    combined_nonzero: int
    loss: float
    pca_loss: float
    ratio: float
    explained: float
    symmetric_ratio: float
    bound: float | None
    held_out: float | None = None
    held_out_error: float | None = None

    def record(self) -> dict[str, Any]:
        """The fields by name; those of folds only if there were folds."""
        return {name: value for name, value in asdict(self).items() if name not in HELD_OUT or value is not None}

    @classmethod
    def from_record(cls, found: Mapping[str, Any]) -> "PathPoint":
        """The point of which ``found`` is the dictionary; numbers may be written as texts, as tables have them.

        Raises
        ------
        TypeError, KeyError, ValueError
            If a number is missing, or none.
        """

        def known(name: str) -> float | None:
            value = found[name] if name not in HELD_OUT else found.get(name)
            return None if value in (None, "") else float(value)

        return cls(
            n_components=int(found["n_components"]),
            n_nonzero=int(found["n_nonzero"]),
            combined_nonzero=int(found["combined_nonzero"]),
            loss=float(found["loss"]),
            pca_loss=float(found["pca_loss"]),
            ratio=float(found["ratio"]),
            explained=float(found["explained"]),
            symmetric_ratio=float(found["symmetric_ratio"]),
            bound=known("bound"),
            held_out=known("held_out"),
            held_out_error=known("held_out_error"),
        )


@dataclass(frozen=True)
class SparsityPath:
    """Points by k, then by r.

    Attributes
    ----------
    points : tuple of PathPoint
        One for each (k, r).
    method : str
        Method of the encoders.
    chosen : (int, int) or None
        The k and r that held-out folds choose: the fewest components within one standard error of those that predict
        entries held out best; then the fewest nonzeros within one standard error of the least ratio on rows held out.
        None without folds.
    """

    points: tuple[PathPoint, ...]
    method: str
    chosen: tuple[int, int] | None = None

    def records(self) -> list[dict[str, Any]]:
        """The points as dictionaries; ``pandas.DataFrame(path.records())`` makes a table of them."""
        return [point.record() for point in self.points]

    def as_dict(self) -> dict[str, Any]:
        """The fields by name, for JSON."""
        found = {"points": self.records(), "method": self.method}
        return found if self.chosen is None else found | {"chosen": list(self.chosen)}

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> "SparsityPath":
        """The path of which ``found`` is the dictionary.

        Raises
        ------
        TypeError, KeyError, ValueError
            If it is no such dictionary.
        """
        points = tuple(PathPoint.from_record(point) for point in found["points"])
        chosen = found.get("chosen")
        return cls(points, str(found["method"]), None if chosen is None else (int(chosen[0]), int(chosen[1])))

    @property
    def head(self) -> tuple[str, ...]:
        """Column headings of the table."""
        return HEAD if self.chosen is None else (*HEAD, *OF_FOLDS)

    def __str__(self) -> str:
        """A table for the terminal."""
        widths = (*WIDTHS, *(10 for _ in self.head[len(WIDTHS) :]))
        lines = [
            " ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True))
            for line in (self.head, *map(_cells, self.points))
        ]
        if self.chosen is not None:
            k, r = self.chosen
            lines.append(f"held-out folds choose k = {k} and r = {r}: the fewest within one standard error of the best")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """The same table for notebooks."""
        caption = f"Loss against sparsity, {self.method} encoders: ratio is the loss over PCA's"
        return html_table(caption, self.head, [*map(_cells, self.points)])


def _cells(p: PathPoint) -> tuple[str, ...]:
    sizes = (str(p.n_components), str(p.n_nonzero), str(p.combined_nonzero))
    bound = "-" if p.bound is None else f"{p.bound:.4g}"
    held_out = () if p.held_out is None else (f"{p.held_out:.6f}", f"{p.held_out_error:.6f}")
    return *sizes, f"{p.ratio:.6f}", f"{p.explained:.4%}", f"{p.symmetric_ratio:.6f}", bound, *held_out


def sparsity_path(
    params: FitParameters,
    summary: Summary,
    ks: Sequence[int],
    rs: Sequence[int],
    *,
    effort: float | None = None,
    report: Report | None = None,
    hold_out: bool = True,
) -> SparsityPath:
    """Encoders of every k and r by the fit's method. No pass: all is done on the core.

    Each is shown the encoders of the next smaller k and r, so the loss of polished ones never rises with either. With
    folds, encoders of all folds but one are measured on that fold as well.

    Parameters
    ----------
    params : FitParameters
        Gives method, selection and seed.
    summary : CoreSummary, Refit or Streamed
        Core of the data, or a refit on candidate columns, to which the encoders then keep; losses on a ``Streamed`` are
        estimates.
    ks, rs : sequence of int
        Components and nonzeros.
    effort : float, optional
        Effort of methods that search, in place of the fit's; 0 for quick and rough answers.
    report : callable, optional
        Called with the progress of each search.
    hold_out : bool
        True to measure encoders on folds held out, if the summary has folds.
    """
    _check_path(params, summary)
    sizes = list(product(sorted(set(ks)), sorted(set(rs))))

    def encode(point: FitParameters, known: Sequence[Floats]) -> FittedEncoder:
        if isinstance(summary, CoreSummary):
            start = best_known(summary, known)
            return encode_core(point, summary, passes=0, bytes_read=0, start=start, effort=effort, report=report)
        return summary.fit(point, known, effort=effort, report=report)

    made = by_size(params, summary.mean.size, sizes, encode)
    points = [_point(k, r, fitted.certificate) for k, r, fitted in made]
    folded = None if isinstance(summary, Streamed) else summary.folded
    if folded is None or not hold_out:
        return SparsityPath(tuple(points), params.method)
    found = measure(params, folded, sizes, effort=effort, report=report)
    measured = [
        replace(point, held_out=size.ratio, held_out_error=size.ratio_error)
        for point, size in zip(points, found, strict=True)
    ]
    k = least_within(folded.components(sorted(set(ks)))).n_components
    r = least_within([size for size in found if size.n_components == k]).n_nonzero
    return SparsityPath(tuple(measured), params.method, (k, r))


def _check_path(params: FitParameters, summary: Summary) -> None:
    if not params.on_core:
        raise InvalidInput(
            "a path needs an encoder made from the core alone. Use method 'polished', 'batch' or "
            "'iterative', and another strategy than 'paper'."
        )
    if not isinstance(summary, CoreSummary) and (params.method != "polished" or params.shared_support):
        raise InvalidInput(
            "after strategy='sketch' or 'stream' a path uses only the candidate columns. Use "
            "method='polished' with shared_support=False, or fit with strategy='gram' or 'tsqr'."
        )


def _point(k: int, r: int, found: Certificate) -> PathPoint:
    return PathPoint(
        n_components=k,
        n_nonzero=r,
        combined_nonzero=found.combined_nonzero,
        loss=found.loss,
        pca_loss=found.pca_loss,
        ratio=found.ratio,
        explained=found.explained,
        symmetric_ratio=found.symmetric_ratio,
        bound=found.bound,
    )
