"""Methods side by side on the same data, at the same numbers of components and of nonzeros: the paper's experiments.

The paper takes a positive semidefinite matrix A (a correlation or covariance matrix) as the data X themselves, compares
encoders by information loss and by symmetric explained variance, and plots both against the average column sparsity.
Here X may also be a factor of A, or data. TPower and GPower maximize the variance under A either way, as their authors
meant them to: on ``X = A`` they are given a factor of A. No pass: all is done on a core.

Magdon-Ismail & Boutsidis, "Optimal sparse linear auto-encoders and sparse PCA" (2015), section on experiments.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Literal

import numpy as np

from spae_dask.baselines.gpower import gpower
from spae_dask.baselines.inputs import scaled_core
from spae_dask.baselines.tpower import tpower
from spae_dask.errors import InvalidInput
from spae_dask.maths.linalg.loss import encoder_loss, information_loss, symmetric_explained, total_variance
from spae_dask.maths.linalg.scaling import unit_columns
from spae_dask.maths.linalg.spectral import core_from_gram, fix_signs, pca_loss, right_singular
from spae_dask.strategies.core_summary import Floats
from spae_dask.strategies.methods import METHODS, Search
from spae_dask.strategies.parameters import FitParameters, check_choice

NEGATIVE = 1e-8
"""Part of the largest eigenvalue that a negative one may reach by the rounding of published matrices."""


@dataclass(frozen=True, eq=False)
class Subject:
    """Data that methods are compared on.

    Attributes
    ----------
    name : str
        Name of the data in tables and figures.
    core : ndarray (m, d)
        Core of X: what losses are measured on.
    variance_core : ndarray (m', d)
        Core of the covariance matrix that TPower and GPower work on.
    features : tuple of str
        Names of the d columns.
    """

    name: str
    core: Floats
    variance_core: Floats
    features: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class ComparisonPoint:
    """One encoder of a comparison.

    Attributes
    ----------
    subject, method : str
        Data and method.
    n_components, n_nonzero : int
        k, and the r that each column of H might use.
    information_loss : float
        Loss with the best decoder over that of PCA; at least 1. It is ``ratio`` as well.
    symmetric_ratio : float
        ``||X H H^+||^2`` over that of PCA; at most 1.
    mean_column_nonzero : float
        Nonzeros of a column of H on average: the paper's average column sparsity.
    combined_nonzero : int
        Features that any column uses: the paper's combined sparsity.
    H : ndarray (d, k')
        The encoder; ``k' < k`` where the data have no more to give.
    """

    subject: str
    method: str
    n_components: int
    n_nonzero: int
    information_loss: float
    symmetric_ratio: float
    mean_column_nonzero: float
    combined_nonzero: int
    H: Floats

    @property
    def ratio(self) -> float:
        """Loss with the best decoder over that of PCA."""
        return self.information_loss


def matrix_subject(
    name: str, matrix: Floats, *, x_is: Literal["matrix", "factor"], features: Sequence[str] | None = None
) -> Subject:
    """Take a correlation or covariance matrix as data.

    Parameters
    ----------
    name : str
        Name of the data in tables.
    matrix : ndarray (d, d)
        Symmetric positive semidefinite A.
    x_is : {"matrix", "factor"}
        ``X = A``, as in the paper, or X such that ``X'X = A``.
    features : sequence of str, optional
        Names of the columns; their numbers from 0 if not given.

    Raises
    ------
    InvalidInput, NonFiniteInput
        If A is not square, not symmetric, clearly not positive semidefinite, or not finite.
    """
    scaled, _ = scaled_core(matrix, gram=True)
    eigenvalues = np.linalg.eigvalsh(scaled)
    if eigenvalues[0] < -NEGATIVE * max(eigenvalues[-1], -eigenvalues[0]):
        raise InvalidInput(
            f"the matrix {name} is not positive semidefinite: its smallest eigenvalue is {eigenvalues[0]:.3g} "
            f"and its largest {eigenvalues[-1]:.3g}, relative to its entries. Give a correlation or "
            "covariance matrix."
        )
    factor = core_from_gram(matrix)
    names = tuple(map(str, range(len(matrix)))) if features is None else tuple(features)
    return Subject(name, matrix if x_is == "matrix" else factor, factor, names)


Encode = Callable[[Subject, FitParameters, Floats | None], Floats]
"""``(subject, params, the same method's encoder of fewer nonzeros or None)`` to H."""


def _ours(subject: Subject, params: FitParameters, smaller: Floats | None) -> Floats:
    assert isinstance(params.n_nonzero, int)
    return METHODS[params.method](params, subject.core, params.n_nonzero, Search(start=smaller)).H


def _tpower(subject: Subject, params: FitParameters, smaller: Floats | None) -> Floats:  # noqa: ARG001 - starts afresh
    assert isinstance(params.n_nonzero, int)
    return tpower(subject.variance_core, params.n_nonzero, params.n_components)


def _gpower(penalty: Literal["l0", "l1"]) -> Encode:
    def encode(subject: Subject, params: FitParameters, smaller: Floats | None) -> Floats:  # noqa: ARG001 - starts afresh
        sizes = {"n_nonzero": params.n_nonzero, "n_components": params.n_components}
        return gpower(subject.variance_core, penalty=penalty, **sizes)  # type: ignore[arg-type]

    return encode


COMPARED: Mapping[str, Encode] = MappingProxyType(
    {
        "batch": _ours,
        "iterative": _ours,
        "polished": _ours,
        "TPower": _tpower,
        "GPower-l0": _gpower("l0"),
        "GPower-l1": _gpower("l1"),
    }
)
"""Methods by the names tables show."""


def compare(
    subject: Subject,
    methods: Sequence[str],
    k: int,
    rs: Sequence[int],
    *,
    selection: str = "dual-set",
    seed: int = 0,
) -> Iterator[ComparisonPoint]:
    """A point for every r, ascending, and every method, in the order given; all is checked before the first is made.

    As on a sparsity path, polished encoders are shown the one of the next smaller r, so their loss never rises with r.

    Parameters
    ----------
    subject : Subject
        The data.
    methods : sequence of str
        Names in :data:`COMPARED`.
    k : int
        Components.
    rs : sequence of int
        Nonzeros a column may have.
    selection : str
        Column selection of batch and iterative encoders; the paper's experiments use ``"dual-set"``.
    seed : int
        Seed of all random draws.

    Raises
    ------
    InvalidInput
        If a name is not known, or k or an r is out of range for the data.
    """
    d = subject.core.shape[1]
    for method in methods:
        check_choice("methods", method, tuple(COMPARED))
    params = FitParameters(k, selection=selection, seed=seed)
    for r in rs:
        replace(params, n_nonzero=r).check(max(2, len(subject.core)), d)
    return _points(subject, methods, params, sorted(set(rs)))


def _points(
    subject: Subject, methods: Sequence[str], params: FitParameters, rs: Sequence[int]
) -> Iterator[ComparisonPoint]:
    k = params.n_components
    sigma = right_singular(subject.core, 0)[0]
    total, best = total_variance(subject.core), pca_loss(sigma, k)
    smaller: dict[str, Floats] = {}
    for r in rs:
        for method in methods:
            # baselines have no FitParameters of their own: of theirs only k and r are used
            named = replace(params, n_nonzero=r, method=method)
            H = COMPARED[method](subject, named, smaller.get(method))
            smaller[method] = H[:, H.any(axis=0)]
            nonzeros = np.count_nonzero(H, axis=0)
            yield ComparisonPoint(
                subject=subject.name,
                method=method,
                n_components=k,
                n_nonzero=r,
                information_loss=information_loss(encoder_loss(subject.core, H), best, total),
                symmetric_ratio=symmetric_explained(subject.core, H) / (total - best) if total > best else 1.0,
                mean_column_nonzero=float(nonzeros.sum()) / k,
                combined_nonzero=int(np.count_nonzero(H.any(axis=1))),
                H=H,
            )


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
        "ratio: squared error of decoding over PCA's, at least 1. symmetric variance: the part of X in the span of",
        "the encoder, over PCA's, at most 1.",
    ]
    return "\n".join(lines)
