"""Loss against sparsity: an encoder for every (k, r), all on one core, hence from one read of the data."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from spae_dask.errors import InvalidInput
from spae_dask.markup import html_table
from spae_dask.maths.linalg.loss import encoder_loss
from spae_dask.strategies.core_summary import CoreSummary, Floats
from spae_dask.strategies.methods import Report
from spae_dask.strategies.parameters import FitParameters
from spae_dask.strategies.refit import Refit
from spae_dask.strategies.sparse_encoder import FittedEncoder, encode_core
from spae_dask.strategies.stream import Streamed

Summary = CoreSummary | Refit | Streamed

HEAD = ("k", "r", "features", "ratio", "explained", "symmetric", "bound")
"""Column headings of the table."""

WIDTHS = (4, 6, 9, 10, 10, 10, 8)


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

    @classmethod
    def from_record(cls, found: Mapping[str, Any]) -> "PathPoint":
        """The point of which ``found`` is the dictionary; numbers may be written as texts, as tables have them.

        Raises
        ------
        TypeError, KeyError, ValueError
            If a number is missing, or none.
        """
        bound = found["bound"]
        return cls(
            n_components=int(found["n_components"]),
            n_nonzero=int(found["n_nonzero"]),
            combined_nonzero=int(found["combined_nonzero"]),
            loss=float(found["loss"]),
            pca_loss=float(found["pca_loss"]),
            ratio=float(found["ratio"]),
            explained=float(found["explained"]),
            symmetric_ratio=float(found["symmetric_ratio"]),
            bound=None if bound in (None, "") else float(bound),
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
    """

    points: tuple[PathPoint, ...]
    method: str

    def records(self) -> list[dict[str, Any]]:
        """The points as dictionaries; ``pandas.DataFrame(path.records())`` makes a table of them."""
        return [asdict(point) for point in self.points]

    def as_dict(self) -> dict[str, Any]:
        """The fields by name, for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> "SparsityPath":
        """The path of which ``found`` is the dictionary.

        Raises
        ------
        TypeError, KeyError, ValueError
            If it is no such dictionary.
        """
        return cls(tuple(PathPoint.from_record(point) for point in found["points"]), str(found["method"]))

    def __str__(self) -> str:
        """A table for the terminal."""
        lines = (HEAD, *map(_cells, self.points))
        return "\n".join(
            " ".join(cell.rjust(width) for cell, width in zip(line, WIDTHS, strict=True)) for line in lines
        )

    def _repr_html_(self) -> str:
        """The same table for notebooks."""
        caption = f"Loss against sparsity, {self.method} encoders: ratio is the loss over PCA's"
        return html_table(caption, HEAD, [*map(_cells, self.points)])


def _cells(p: PathPoint) -> tuple[str, ...]:
    sizes = (str(p.n_components), str(p.n_nonzero), str(p.combined_nonzero))
    bound = "-" if p.bound is None else f"{p.bound:.4g}"
    return *sizes, f"{p.ratio:.6f}", f"{p.explained:.4%}", f"{p.symmetric_ratio:.6f}", bound


def sparsity_path(
    params: FitParameters,
    summary: Summary,
    ks: Sequence[int],
    rs: Sequence[int],
    *,
    effort: float | None = None,
    report: Report | None = None,
) -> SparsityPath:
    """Encoders of every k and r by the fit's method. No pass: all is done on the core.

    Each is shown the encoders of the next smaller k and r, so the loss of polished ones never rises with either.

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
    """
    return SparsityPath(tuple(_points(params, summary, ks, rs, effort, report)), params.method)


def _points(
    params: FitParameters,
    summary: Summary,
    ks: Sequence[int],
    rs: Sequence[int],
    effort: float | None,
    report: Report | None,
) -> Iterator[PathPoint]:
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
    narrower: dict[int, Floats] = {}
    for k in sorted(set(ks)):
        made: dict[int, Floats] = {}
        for r in sorted(set(rs)):
            # orthonormal components give the same numbers, but have too many nonzeros to start other searches
            point = replace(params, n_components=k, n_nonzero=r, orthonormal=False)
            point.check(None, summary.mean.size)  # the rows were enough for a fit
            known = [*list(made.values())[-1:], *([narrower[r]] if r in narrower else [])]
            fitted = _encode(point, summary, known, effort, report)
            found, made[r] = fitted.certificate, fitted.H[:, fitted.H.any(axis=0)]
            yield PathPoint(
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
        narrower = made


def _encode(
    params: FitParameters, summary: Summary, known: list[Floats], effort: float | None, report: Report | None
) -> FittedEncoder:
    if isinstance(summary, CoreSummary):
        start = min(known, key=lambda H: encoder_loss(summary.core, H), default=None)
        return encode_core(params, summary, passes=0, bytes_read=0, start=start, effort=effort, report=report)
    return summary.fit(params, known, effort=effort, report=report)
