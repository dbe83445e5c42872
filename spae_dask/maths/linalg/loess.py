"""Local regression through points of a plane: the curve of Cleveland, Devlin and Grosse, for one predictor.

A polynomial is fitted around each vertex, with tricube weights, to the share of the points that lie nearest. Vertices
divide the axis at medians until each cell holds few points. Between two vertices the curve is the cubic that has their
values and their slopes.

R's ``loess`` and scikit-misc have the same algorithm in Fortran. That code is not safe where points share few places: a
fit can end the process with a segmentation fault. So the algorithm is written anew here.

References
----------
Cleveland, W. S., Devlin, S. J., Grosse, E. (1988). Regression by local fitting. Journal of Econometrics 37, 87-114.
Cleveland, W. S., Grosse, E. (1991). Computational methods for local regression. Statistics and Computing 1, 47-62.
"""

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

CELL = 0.2
"""Points of a cell that is divided no further, as a share of those that a polynomial is fitted to."""

MARGIN = 0.005
"""Length by which the axis reaches beyond the points on each side, as a share of their range."""

SINGULAR = 100 * float(np.finfo(np.float64).eps)
"""Singular values below this share of the largest count as zero."""


def loess(x: Floats, y: Floats, *, span: float, degree: int = 2) -> Floats:
    """Fit a smooth curve through points and give its values at them.

    Parameters
    ----------
    x, y : ndarray (n,)
        Finite points.
    span : float
        Share of the points that each polynomial is fitted to, at most 1.
    degree : int
        Degree of the polynomials, at least 1.

    Returns
    -------
    ndarray (n,)
        The curve at ``x``.

    Raises
    ------
    ValueError
        If there are too few points, or too few different ones, for the span.

    Examples
    --------
    >>> x = np.linspace(0, 1, 50)
    >>> bool(np.allclose(loess(x, x**2, span=0.5), x**2))
    True
    """
    n_near, n_cell = int(x.size * span + 1e-5), int(x.size * span * CELL)
    if n_near <= degree:
        raise ValueError(f"a polynomial of degree {degree} needs more than {n_near} of {x.size} points")
    cuts = vertices(np.sort(x), n_cell)
    fitted = np.array([_local(x - cut, y, n_near, degree) for cut in cuts])
    values, slopes = fitted[:, 0], fitted[:, 1]

    cell = np.clip(np.searchsorted(cuts, x, side="left") - 1, 0, cuts.size - 2)
    width = cuts[cell + 1] - cuts[cell]
    h = (x - cuts[cell]) / width
    at_left, at_right = (1 - h) ** 2 * (1 + 2 * h), h**2 * (3 - 2 * h)
    curve: Floats = at_left * values[cell] + at_right * values[cell + 1]
    curve += width * h * (1 - h) * ((1 - h) * slopes[cell] - h * slopes[cell + 1])
    return curve


def vertices(x: Floats, n_cell: int) -> Floats:
    """Places ``(v,)``, ascending, between which cells hold at most ``n_cell`` points, but for equal ones.

    Parameters
    ----------
    x : ndarray (n,)
        Points, ascending.
    n_cell : int
        Most points of a cell that is divided no further.
    """
    low, high = float(x[0]), float(x[-1])
    margin = MARGIN * max(high - low, 1e-10 * max(abs(low), abs(high)) + 1e-30)
    low, high = low - margin, high + margin
    found, open_ = {low, high}, [(0, x.size, low, high)]
    while open_:
        start, stop, low, high = open_.pop()
        if stop - start <= max(n_cell, 1):
            continue
        last = _last_of_left(x, start, stop)
        cut = float(x[last])
        if low < cut < high:
            found.add(cut)
            open_ += [(start, last + 1, low, cut), (last + 1, stop, cut, high)]
    return np.array(sorted(found))


def _last_of_left(x: Floats, start: int, stop: int) -> int:
    """Position nearest the median after which another value follows; the median if one side has none."""
    middle = (start + stop - 1) // 2
    for step in range(stop - start):
        for at in (middle + step, middle - step):
            if not start <= at < stop - 1:
                return middle
            if x[at] != x[at + 1]:
                return at
    return middle


def _local(away: Floats, y: Floats, n_near: int, degree: int) -> tuple[float, float]:
    """Value and slope, at 0, of the polynomial fitted to the points nearest to it."""
    distances = np.abs(away)
    radius = float(np.partition(distances, n_near - 1)[n_near - 1])
    near = distances < radius
    weights = np.sqrt((1 - (distances[near] / radius) ** 3) ** 3)
    if not weights.any():
        raise ValueError(f"the {n_near} points that are nearest to one place are all as far from it")
    columns = weights[:, None] * away[near, None] ** np.arange(degree + 1)
    lengths = np.sqrt(np.sum(columns**2, axis=0))
    lengths[lengths == 0] = 1
    coefficients = np.linalg.lstsq(columns / lengths, weights * y[near], rcond=SINGULAR)[0] / lengths
    return float(coefficients[0]), float(coefficients[1])
