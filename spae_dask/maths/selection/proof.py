"""Proof that a set of columns is the best of its size, or a bound on what any such set explains: branch and bound.

A set S explains ``f(S)``, the sum of the k largest eigenvalues of ``Q'MQ``, for ``M = LL'`` and a basis Q of the
columns S of the core L. With mu the (k+1)-th eigenvalue of M, or 0 if S has at most k columns, Ky Fan's theorem gives

    f(S) <= k mu + ||P_S Y||^2,   YY' = the positive part of M - mu I.

That is a regression of few responses on the columns of S. A node of the tree has chosen columns I, and takes p more of
the columns U. Let B hold the residuals of U outside I at unit length, ``c = B'Y``, and ``R = B'B - delta I`` with delta
at most the smallest eigenvalue of ``B'B``. For every V, and T of p columns of U, weak duality gives

    ||P_T Y||^2 = max over W on T of 2 tr W'c - tr W'(R + delta I)W <= tr V'RV + sum over T of a_j / delta,

where a_j is the squared length of row j of ``c - RV``. So a node explains at most what the p largest a_j allow. The
children take the columns by descending a_j, each with the columns after its own: their bounds fall, and all beyond the
first that is too small are done. Any V is valid. Those of ridge regressions, ``(R + gamma I)^-1 c``, are nearly best;
with ``gamma = delta`` the bound is ``||P_U Y||^2 - delta sum of the smallest |V_j|^2``, as in Bertsimas, King &
Mazumder (2016), Best subset selection via a modern optimization lens. The tree is that of Arai, Maung & Schweitzer
(2015), Optimal column subset selection by A-star search: the node of the largest bound is next, so that the largest
bound of the open nodes bounds all sets at any time. To check a proof: list all sets.
"""

import heapq
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from spae_dask.maths.linalg.copies import EQUAL, lowest_equal
from spae_dask.maths.linalg.loss import columns_loss
from spae_dask.maths.linalg.project import column_basis, residual
from spae_dask.maths.linalg.scaling import FloatArray, IntArray, unit_columns, unit_scaled
from spae_dask.maths.linalg.spectral import singular_values, thin_svd
from spae_dask.maths.selection.problem import TIE

# Rounding of a sum of products of unit columns, as of `rounding_error`.
_UNIT = 256 * float(np.finfo(np.float64).eps)
# Ridges of the duals that are tried, over delta; larger ones while the bound falls.
_RIDGES = 2.0 ** np.arange(11)
# Pairs of columns whose gains are computed at once.
_PAIRS = 2**18
# Open children up to which the tree grows.
MOST_OPEN = 2**24


@dataclass(frozen=True, eq=False)
class SetProof:
    """The best set of columns known, and a bound on all sets of its size.

    Attributes
    ----------
    columns : ndarray (r,)
        The best set known, ascending.
    loss : float
        Its loss, ``||X - X_{C,k}||^2``.
    lower : float
        No set of so many columns loses less.
    n_nodes : int
        Nodes of the tree that were looked into.
    complete : bool
        True if the whole tree was searched: no set loses less than this one by more than rounding.
    """

    columns: IntArray
    loss: float
    lower: float
    n_nodes: int
    complete: bool


class Errors(NamedTuple):
    """Errors of the columns of a core, from the data that it stands for.

    Attributes
    ----------
    rows : float
        Largest error of a column over its length.
    products : float
        Largest error of a product of two columns over their lengths.
    """

    rows: float = 0.0
    products: float = 0.0

    def of(self, apart: float) -> float:
        """Error of products of directions that have a length ``apart`` outside others before they are unit vectors."""
        return (_UNIT + self.rows) / apart + self.products / apart**2


def prove(
    core: FloatArray,
    k: int,
    r: int,
    known: Sequence[int] | IntArray,
    *,
    start: Sequence[int] | IntArray = (),
    allowed: IntArray | None = None,
    rank_tol: float = EQUAL,
    errors: Errors = Errors(),  # noqa: B008 - frozen
    node_limit: int | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> SetProof:
    """Bound what r columns can explain, and find the best of them if no limit ends the search before.

    Parameters
    ----------
    core : ndarray (m, d)
        Core of X.
    k : int
        Number of codes, at least 1.
    r : int
        Columns to choose beside those of ``start``.
    known : sequence of int
        A good set, from which the search starts.
    start : sequence of int
        Distinct columns that are in every set.
    allowed : ndarray of int, optional
        The only columns to choose from. All if None.
    rank_tol : float
        Relative length of a column's part outside the span of others below which it counts as dependent on them. At
        least ``EQUAL``, as of copies of a column one is enough.
    errors : Errors
        Errors of the core, for which the bound has margins.
    node_limit : int, optional
        Most nodes to look into.
    stop : callable
        Asked before each node; the search ends if it returns True.

    Returns
    -------
    SetProof
        The best set known, and the bound.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(50, 8)) * np.arange(1, 9)
    >>> found = prove(X, 2, 3, known=[0, 1, 2])
    >>> found.columns.tolist(), found.complete
    ([5, 6, 7], True)
    >>> bool(found.lower <= found.loss <= found.lower * (1 + 1e-6))
    True
    """
    scaled, scale = unit_scaled(core)
    choice = np.arange(scaled.shape[1]) if allowed is None else np.asarray(allowed, dtype=np.intp)
    tree = _Tree(scaled, k, r, [int(j) for j in start], choice, max(rank_tol, EQUAL), errors)
    tree.learn([int(j) for j in known])
    n_nodes = 0
    while tree.is_open and tree.n_open <= MOST_OPEN and n_nodes != node_limit and not stop():
        tree.step()
        n_nodes += 1
    columns = np.array(sorted(tree.best), dtype=np.intp)
    loss = columns_loss(core, columns, k, rank_tol=tree.rank_tol).loss
    lower = float(max(tree.total - tree.upper, 0.0)) * scale * scale
    return SetProof(columns, loss, min(lower, loss), n_nodes, not tree.is_open)


class _Node(NamedTuple):
    """Sets of some chosen columns and of others that are left, with a bound on what any of them explains."""

    chosen: tuple[int, ...]
    left: IntArray
    bound: float


class _Children(NamedTuple):
    """Nodes that choose one more column: the columns in order, and the bounds, which do not rise."""

    chosen: tuple[int, ...]
    left: IntArray
    bounds: FloatArray


class _Outside(NamedTuple):
    """Columns that are left, outside the span of those that are chosen.

    Attributes
    ----------
    left : ndarray (u,)
        Columns that do not depend on the chosen ones.
    Q : ndarray (m, q)
        Orthonormal basis of the chosen columns.
    unit : ndarray (m, u)
        Residuals of the others, at unit length.
    inside : float
        Squared length of the responses in the span of the chosen columns.
    error : float
        Error of products of the residuals.
    """

    left: IntArray
    Q: FloatArray
    unit: FloatArray
    inside: float
    error: float


class _Tree:
    """Sets that may be better than the best one known."""

    def __init__(
        self, core: FloatArray, k: int, r: int, start: list[int], choice: IntArray, rank_tol: float, errors: Errors
    ) -> None:
        rotated = thin_svd(core)[0].T @ core  # of whose rows M is diagonal
        self._unit = unit_columns(rotated)[0]
        self._energy = np.sum(rotated**2, axis=1)
        self.total = float(np.sum(self._energy))
        self.k, self._size, self.rank_tol, self._errors = k, len(start) + r, rank_tol, errors
        mu = float(self._energy[k]) if self._size > k and k < self._energy.size else 0.0
        self._base = k * mu
        # error of what a set explains, over that of products of its directions
        self._condition = 4.0 * self._size * self.total
        weights = np.sqrt(np.maximum(self._energy - mu, 0.0))
        self._weights = weights[:k] if self._size > k else weights
        self.best: list[int] = []
        self._value = self._settled = 0.0
        self._heap: list[tuple[float, int, int, _Children]] = []
        self._serial = itertools.count()
        self.n_open = 0
        left = self._distinct(np.setdiff1d(choice, start))
        self._of_pca = float(np.sum(self._energy[:k]))
        self._root: _Node | None = _Node(tuple(start), left, self._of_pca)

    def _distinct(self, columns: IntArray) -> IntArray:
        """One of equal columns, whatever their signs and lengths; no zero columns."""
        columns = columns[self._unit[:, columns].any(axis=0)]
        unit = self._unit[:, columns]
        # products with one vector differ in sign where columns do
        signs = np.where(np.random.default_rng(0).standard_normal(unit.shape[0]) @ unit < 0.0, -1.0, 1.0)
        distinct: IntArray = columns[lowest_equal(unit * signs) == np.arange(columns.size)]
        return distinct

    @property
    def cut(self) -> float:
        """Sets that explain no more than this are no better than the best one known."""
        return self._value + TIE * max(self.total - self._value, 0.0) + _UNIT * self.total

    @property
    def _largest_bound(self) -> float:
        if self._root is not None:
            return self._root.bound
        return -self._heap[0][0] if self._heap else 0.0

    @property
    def is_open(self) -> bool:
        """True if there are sets that may be better."""
        return self._largest_bound > self.cut

    @property
    def upper(self) -> float:
        """The most that any set explains, with the errors of the core and of its eigenvalues."""
        of_core = self.k * (_UNIT + 2.0 * self._errors.rows + self._errors.products) * self.total
        return min(self._of_pca, max(self.cut, self._settled, self._largest_bound)) + of_core

    def learn(self, columns: list[int]) -> None:
        """Evaluate a set, which is the best one known from now on if it explains more."""
        basis = column_basis(self._unit[:, columns], rank_tol=self.rank_tol)
        if basis.kept.size == 0:
            return
        value = float(_top(basis.Q.T @ (self._energy[:, None] * basis.Q), self.k))
        self._settled = max(self._settled, value + self._condition * self._errors.of(_least(basis.R)))
        if value > self._value:
            self.best, self._value = list(columns), value

    def step(self) -> None:
        """Look into the node of the largest bound."""
        node = self._pop()
        wanted = self._size - len(node.chosen)
        outside = self._outside(node)
        if outside.left.size <= wanted:
            self.learn([*node.chosen, *outside.left.tolist()])
        elif wanted == 1:
            self._try_singles(node, outside)
        elif wanted == 2:
            self._try_pairs(node, outside)
        else:
            self._push(self._children(node, outside, wanted), 0)

    def _pop(self) -> _Node:
        if self._root is not None:
            node, self._root = self._root, None
            return node
        bound, _, place, found = heapq.heappop(self._heap)
        self.n_open -= found.bounds.size - place
        self._push(found, place + 1)
        return _Node((*found.chosen, int(found.left[place])), found.left[place + 1 :], -bound)

    def _push(self, found: _Children, place: int) -> None:
        """Keep children from a place on, if they may be better."""
        if place < found.bounds.size and found.bounds[place] > self.cut:
            self.n_open += found.bounds.size - place
            heapq.heappush(self._heap, (-float(found.bounds[place]), next(self._serial), place, found))

    def _outside(self, node: _Node) -> _Outside:
        basis = column_basis(self._unit[:, list(node.chosen)], rank_tol=self.rank_tol)
        unit, lengths = unit_columns(residual(self._unit[:, node.left], basis.Q))
        free = lengths > self.rank_tol
        inside = float(np.sum((self._weights[:, None] * basis.Q[: self._weights.size]) ** 2))
        clear = _least(basis.R) * float(np.min(lengths[free], initial=1.0))
        return _Outside(node.left[free], basis.Q, unit[:, free], inside, self._errors.of(clear))

    def _correlations(self, outside: _Outside) -> FloatArray:
        """Products ``(u, q)`` of the residuals with the responses."""
        found: FloatArray = outside.unit[: self._weights.size].T * self._weights
        return found

    def _children(self, node: _Node, outside: _Outside, wanted: int) -> _Children:
        """Nodes with one more column; only those that may be better."""
        order, bounds = self._dual(outside, wanted)
        most = min(node.bound, self._by_directions(outside, wanted))
        bounds = np.minimum(bounds, most)
        bounds = bounds[bounds > self.cut]
        return _Children(node.chosen, outside.left[order], bounds)

    def _dual(self, outside: _Outside, wanted: int) -> tuple[IntArray, FloatArray]:
        """Columns by what they can explain at most, and bounds for sets of each and of columns after it."""
        n, c = outside.left.size, self._correlations(outside)
        eigenvalues, E = np.linalg.eigh(outside.unit.T @ outside.unit)
        slip = n * (2.0 * outside.error + _UNIT)
        delta = float(eigenvalues[0]) - slip
        order, bounds = np.arange(n), np.full(n - wanted + 1, np.inf)
        if delta <= 0.0:
            return order, bounds
        inside = self._base + outside.inside + self._condition * outside.error
        least, rotated = np.maximum(eigenvalues - delta, 0.0), E.T @ c
        length = float(np.linalg.norm(self._weights))
        for ridge in delta * _RIDGES:
            V = rotated / (least + ridge)[:, None]
            size = float(np.linalg.norm(V))
            spread = float(np.sum(least[:, None] * V**2)) + slip * size**2
            rows = np.sqrt(np.sum((ridge * (E @ V)) ** 2, axis=1)) + slip * size + outside.error * length
            falling = np.argsort(-rows, kind="stable")
            sums = np.concatenate([[0.0], np.cumsum(rows[falling] ** 2)]) / delta
            found = inside + spread + sums[wanted:] - sums[:-wanted]
            if found[0] >= bounds[0]:
                break
            order, bounds = falling, found
        return order, bounds

    def _by_directions(self, outside: _Outside, wanted: int) -> float:
        """Bound on the best ``wanted`` directions of all, not of columns alone."""
        if wanted >= self._weights.size:
            return np.inf
        Q = self._weights[:, None] * outside.Q[: self._weights.size]
        left = float(_top(np.diag(self._weights**2) - Q @ Q.T, wanted))
        return self._base + outside.inside + left + self._condition * outside.error

    def _try_singles(self, node: _Node, outside: _Outside) -> None:
        gains = np.sum(self._correlations(outside) ** 2, axis=1)
        most = self._base + outside.inside + gains + self._condition * outside.error
        for place in np.argsort(-most, kind="stable"):
            if most[place] > self.cut:
                self.learn([*node.chosen, int(outside.left[place])])

    def _try_pairs(self, node: _Node, outside: _Outside) -> None:
        products, c = _Products.of(outside, self._energy), self._correlations(outside)
        both = c @ c.T
        alone, inside = np.diagonal(both), self._base + outside.inside
        for i, j in _pairs(outside.left.size):
            cosines = products.cosines[i, j]
            apart = np.maximum(1.0 - cosines**2, np.finfo(np.float64).tiny)
            margins = 2.0 * self._condition * outside.error / apart
            gains = (alone[i] + alone[j] - 2.0 * cosines * both[i, j]) / apart
            may = np.flatnonzero(inside + gains + margins > self.cut)
            if may.size == 0:
                continue
            most = _top(products.with_pairs(i[may], j[may], apart[may]), self.k) + margins[may]
            for place in np.argsort(-most, kind="stable"):
                if most[place] <= self.cut:
                    break
                self.learn([*node.chosen, int(outside.left[i[may[place]]]), int(outside.left[j[may[place]]])])


class _Products(NamedTuple):
    """Products of the chosen directions and of residuals of other columns: plain ones, and those with M between."""

    cosines: FloatArray
    chosen: FloatArray
    mixed: FloatArray
    others: FloatArray

    @classmethod
    def of(cls, outside: _Outside, energy: FloatArray) -> "_Products":
        Q, B = outside.Q, outside.unit
        weighted = energy[:, None] * B
        return cls(B.T @ B, Q.T @ (energy[:, None] * Q), Q.T @ weighted, B.T @ weighted)

    def with_pairs(self, i: IntArray, j: IntArray, apart: FloatArray) -> FloatArray:
        """``Q'MQ`` for the chosen columns and each pair of others, ``(p, q + 2, q + 2)``, in their lower triangles.

        Parameters
        ----------
        i, j : ndarray (p,)
            The pairs.
        apart : ndarray (p,)
            Squared length of the second outside the first.
        """
        q, cosine, root = self.chosen.shape[0], self.cosines[i, j], np.sqrt(apart)
        made = np.empty((i.size, q + 2, q + 2))
        made[:, :q, :q] = self.chosen
        made[:, q, :q] = self.mixed[:, i].T
        made[:, q + 1, :q] = ((self.mixed[:, j] - cosine * self.mixed[:, i]) / root).T
        alone, both = np.diagonal(self.others), self.others[i, j]
        made[:, q, q] = alone[i]
        made[:, q + 1, q] = (both - cosine * alone[i]) / root
        made[:, q + 1, q + 1] = (alone[j] - 2.0 * cosine * both + cosine**2 * alone[i]) / apart
        return made


def _pairs(n: int) -> Iterator[tuple[IntArray, IntArray]]:
    """All pairs of n columns, some rows of the table at a time."""
    step = max(1, _PAIRS // n)
    for first in range(0, n, step):
        i, j = np.triu_indices(min(step, n - first), first + 1, n)
        yield i + first, j


def _top(grams: FloatArray, k: int) -> FloatArray:
    """Sum of the k largest eigenvalues of each matrix, of which the lower triangles count."""
    found: FloatArray = np.sum(np.linalg.eigvalsh(grams)[..., -k:], axis=-1)
    return found


def _least(R: FloatArray) -> float:
    """Smallest singular value of a triangle of unit columns; 1 if there are none."""
    return float(singular_values(R)[-1]) if R.size else 1.0
