"""Polished encoder: supports of each column of H searched directly, given all the other columns.

Magdon-Ismail & Boutsidis (2015) choose supports by column selection, which has guarantees and stops there. Here each
column in turn is replaced by the best found given all others: exchange from its support and from kicked ones
(:mod:`spae_dask.maths.encoders.pool`), solved exactly (:mod:`spae_dask.maths.encoders.single_column`). The first climb
begins with nothing, with rotated principal components, and with the encoder given; the best of the three goes on. Then
rounds rebuild a few columns at a time (:mod:`spae_dask.maths.encoders.column_cycle`). The search stops where PCA's loss
shows that little is left to gain, or where a round gained little of it. A change is kept only if the loss falls, so
polishing a paper's encoder keeps the paper's guarantee.
To check a run: ``encoder_loss(core, H)`` is ``loss``, and ``history`` never rises.
"""

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from spae_dask.errors import InvalidInput
from spae_dask.maths.encoders.batch import encoder_from_columns
from spae_dask.maths.encoders.budgets import budgets_of, counted
from spae_dask.maths.encoders.candidates import propose_candidates
from spae_dask.maths.encoders.column_cycle import ColumnCycle, State
from spae_dask.maths.encoders.reduced_core import EXACT, reduce_core
from spae_dask.maths.linalg.loss import encoder_loss, explained_order, rounding_error, total_variance
from spae_dask.maths.linalg.project import DEPENDENT, optimal_decoder
from spae_dask.maths.linalg.scaling import FloatArray, IntArray, unit_columns, unit_scaled
from spae_dask.maths.linalg.spectral import SVD_LIMIT, fix_signs
from spae_dask.maths.selection.exchange import exchange
from spae_dask.maths.selection.problem import TIE

# Largest number of rounds at the usual effort, times k; one at least. A round kicks every support and rebuilds a few
# columns several times. Encoders of few columns get more rounds, kicks and rebuilds, since each costs little there.
_ROUNDS_TIMES_K = 16
_KICKS, _KICKS_TIMES_K = 8, 64
_REBUILDS, _REBUILDS_TIMES_K = 6, 30
# Largest k at which the first climbs kick supports, too.
_FEW = 20
# On a core of this rank the usual effort takes a few seconds. On cores of higher rank a step costs more, and the search
# makes fewer of them in proportion.
_USUAL_RANK = 100
# Another round follows if a round gained at least this part of what was left to gain.
_ROUND_GAIN = 0.02
SEARCH_TOL = 1e-3
"""Excess over PCA's loss at which a search stops, if none is given."""


@dataclass(frozen=True)
class SearchStage:
    """Progress of a search.

    Attributes
    ----------
    n_done, n_rounds : int
        Rounds done or not needed, and the largest number of rounds: climbs from nothing, from rotated components and
        from the start, and those of rebuilding.
    loss : float
        Least loss so far.
    """

    n_done: int
    n_rounds: int
    loss: float


Watch = Callable[[SearchStage], None]


class _Course:
    """Progress of a search, reported to a watcher; it changes no bit of the answer."""

    def __init__(self, watch: Watch | None, unit: float) -> None:
        self.watch, self.unit = watch, unit
        self.n_done = self.n_rounds = 0
        self.least = np.inf

    def begin(self, n_rounds: int) -> None:
        self.n_rounds = n_rounds

    def end_round(self) -> None:
        self.n_done += 1
        self._tell()

    def end(self) -> None:
        """Count the rounds that were not needed as done."""
        if self.n_done < self.n_rounds:
            self.n_done = self.n_rounds
            self._tell()

    def visited(self, state: State) -> None:
        self.least = min(self.least, state.loss)
        self._tell()

    def _tell(self) -> None:
        if self.watch is not None:
            self.watch(SearchStage(self.n_done, self.n_rounds, float(self.least) * self.unit))


@dataclass(frozen=True, eq=False)
class PolishedEncoder:
    """An encoder whose columns have supports of their own.

    Attributes
    ----------
    H : ndarray (d, k')
        Unit columns with at most r nonzeros, by descending sequential explained variance (among columns of equal r).
        ``k'`` is less than k only if k' codes already explain everything.
    G : ndarray (k', d)
        Its optimal decoder.
    loss : float
        Loss of H.
    supports : tuple of ndarray
        Nonzero rows of each column, ascending.
    sweeps : int
        Sweeps over all columns made by the search.
    history : tuple of float
        Loss of the best encoder known at the start and after each stage of the search; never rises.
    """

    H: FloatArray
    G: FloatArray
    loss: float
    supports: tuple[IntArray, ...]
    sweeps: int
    history: tuple[float, ...]


def encode_polished(
    core: FloatArray,
    k: int,
    r: int | Sequence[int],
    *,
    start_H: FloatArray | None = None,
    rng: np.random.Generator | None = None,
    effort: float = 1.0,
    search_tol: float = SEARCH_TOL,
    allowed: IntArray | None = None,
    free: IntArray | None = None,
    rank_tol: float = DEPENDENT,
    climbed: bool = False,
    watch: Watch | None = None,
) -> PolishedEncoder:
    """Search for the k columns of at most r nonzeros each that lose least.

    Parameters
    ----------
    core : ndarray (m, d)
        Core of X.
    k : int
        Number of codes.
    r : int or sequence of int
        Nonzeros allowed in each column of H, or in the first, second, ... column.
    start_H : ndarray (d, k'), optional
        Encoder to start from, ``k' <= k``; the result loses no more. Columns must keep to r.
    rng : Generator, optional
        Generator that draws the supports to rebuild and to kick, and a sketch if the core is wide. If None, the seed is
        fixed.
    effort : float
        Effort of the search after the first climb; 0 to stop there. Rounds, kicks and rebuilds grow in proportion. On
        cores of rank above 100, the same effort searches less.
    search_tol : float
        Excess over PCA's loss, the least of any codes of the columns searched, at which the search stops.
    allowed : ndarray of int, optional
        The only columns H may use; ``start_H`` keeps to them. All if None.
    free : ndarray of int, optional
        Columns among them that each column of H may use beside its r.
    rank_tol : float, optional
        Relative length of a column's part outside the other codes and the rest of a support below which the column
        gets no weight; 1e-6 of what the other codes leave of it at least.
    climbed : bool, optional
        True if ``start_H`` is the answer of a search with effort 0. Climbs from nothing and from rotated components,
        which that search made, are not made again.
    watch : callable, optional
        Called with the progress of the search after every column. It changes no bit of the answer.

    Returns
    -------
    PolishedEncoder
        Encoder, decoder, and the course of the search.

    Raises
    ------
    InvalidInput
        If k, r or start_H do not fit the core or each other.

    Notes
    -----
    ``benchmarks/search.py`` measures times. Cores of more than about a million entries are searched on candidate
    columns, see :mod:`spae_dask.maths.encoders.candidates`.
    """
    scaled, scale = unit_scaled(core)
    budgets = budgets_of(k, r)
    if effort < 0:
        raise InvalidInput(
            f"effort = {effort} is negative; use 0 for one climb, 1 for the usual search, more for longer"
        )
    start = None if start_H is None else _padded(start_H, scaled.shape[1], budgets, free)
    rng = np.random.default_rng(0) if rng is None else rng
    if len(budgets) == 1 and allowed is None and free is None and effort > 0 and min(core.shape) <= SVD_LIMIT:
        start = _better_start(scaled, start, budgets[0], rank_tol)
    candidates = propose_candidates(scaled, budgets, start, rng, allowed, rank_tol=rank_tol, free=free)
    reduced = reduce_core(scaled, candidates, rank_tol=rank_tol, k=len(budgets), free=free)
    course = _Course(watch, scale * scale)
    cycle = ColumnCycle(reduced, budgets, rng, course.visited)
    worth = effort * min(1.0, _USUAL_RANK / max(1, reduced.sigma.size))
    stages = _search(cycle, start, worth, search_tol, course, climbed=climbed)
    H = _in_order(scaled, _settled(scaled, cycle, stages[-1], rng, rank_tol), budgets)
    loss = encoder_loss(scaled, H)
    if start is not None:
        known = encoder_loss(scaled, start)
        if loss > (1.0 + TIE) * known + rounding_error(known, total_variance(scaled)):
            H, loss = _in_order(scaled, start, budgets), known
    supports = tuple(np.flatnonzero(h) for h in H.T)
    unit = scale * scale
    return PolishedEncoder(
        H,
        optimal_decoder(core, H),
        loss * unit,
        supports,
        cycle.sweeps,
        (*(stage.loss * unit for stage in stages), min(loss, stages[-1].loss) * unit),
    )


def _search(
    cycle: ColumnCycle, start: FloatArray | None, effort: float, search_tol: float, course: _Course, *, climbed: bool
) -> list[State]:
    """Best state after each stage of the search; that of the given encoder comes first."""
    rounds = math.ceil(effort * max(1, _ROUNDS_TIMES_K // cycle.k))
    kicks = max(_KICKS, round(effort * max(_KICKS, _KICKS_TIMES_K // cycle.k)))
    rebuilds = (
        max(1, round(effort * max(min(cycle.k // 3, _REBUILDS), _REBUILDS_TIMES_K // cycle.k))) if cycle.k > 1 else 0
    )
    given = [] if start is None else [cycle.state_of(start)]
    first = _KICKS if cycle.k <= _FEW else 0
    anew = [] if climbed and given else [(cycle.empty(), first), (cycle.rotated(), first)]
    begun = [*anew, *((state, 0) for state in given)]
    course.begin(len(begun) + rounds)
    ends = []
    for state, kicked in begun:
        ends.append(cycle.climb(state, kicks=kicked))
        course.end_round()
    stages = [*given, functools.reduce(_better, ends)]
    for _ in range(rounds):
        best = before = stages[-1]
        left = before.loss - cycle.pca_loss
        if left <= max(search_tol * cycle.pca_loss, EXACT * cycle.empty().loss):
            break
        best = cycle.climb(best, kicks=kicks)
        for _ in range(rebuilds):
            best = _better(best, cycle.climb(cycle.rebuilt(best), kicks=kicks, rival=best))
        stages.append(best)
        course.end_round()
        if before.loss - best.loss < _ROUND_GAIN * left:
            break
    course.end()
    return stages


def _settled(
    scaled: FloatArray, cycle: ColumnCycle, state: State, rng: np.random.Generator, rank_tol: float
) -> FloatArray:
    """The encoder with the best coefficients on its supports: a search on the columns it uses alone."""
    used = np.unique(np.concatenate([np.zeros(0, dtype=np.intp), *map(np.array, state.supports)]))
    alone = ColumnCycle(reduce_core(scaled, cycle.reduced.candidates[used], rank_tol=rank_tol), cycle.budgets, rng)
    return alone.encoder(alone.settled(alone.taken_over(state, cycle.reduced)), scaled.shape[1])


def _better(best: State, trial: State) -> State:
    return trial if trial.preferred_to(best) else best


def _better_start(scaled: FloatArray, start: FloatArray | None, r: int, rank_tol: float) -> FloatArray:
    """Better of a given start and the result of exchange, which searches the support of a single column harder."""
    columns = exchange(scaled, 1, r, rank_tol=rank_tol)
    H = _padded(encoder_from_columns(scaled, columns, 1, rank_tol=rank_tol)[0], scaled.shape[1], (r,))
    return H if start is None or encoder_loss(scaled, H) < (1.0 - TIE) * encoder_loss(scaled, start) else start


def _padded(start_H: FloatArray, d: int, budgets: Sequence[int], free: IntArray | None = None) -> FloatArray:
    """Check a given encoder and fill it up with zero columns."""
    k = len(budgets)
    if start_H.ndim != 2 or start_H.shape[0] != d or start_H.shape[1] > k:
        raise InvalidInput(f"start_H has shape {start_H.shape}; it must have d = {d} rows and at most k = {k} columns")
    if not np.all(np.isfinite(start_H)):
        raise InvalidInput("start_H holds NaN or infinite entries; give a finite encoder, or none")
    counts = counted(start_H, free)
    for j, (count, budget) in enumerate(zip(counts, budgets, strict=False)):
        if count > budget:
            raise InvalidInput(f"column {j} of start_H has {count} nonzeros, more than its r = {budget}")
    padded = np.zeros((d, k))
    padded[:, : start_H.shape[1]] = start_H
    return padded


def _in_order(scaled: FloatArray, H: FloatArray, budgets: Sequence[int]) -> FloatArray:
    """Unit columns with signs fixed, without zero ones, by explained variance where budgets are equal."""
    made = np.flatnonzero(np.any(H != 0.0, axis=0)).tolist()
    waiting = [made[j] for j in explained_order(scaled, H[:, made])]
    order = []
    for place in made:
        order.append(next(j for j in waiting if budgets[j] == budgets[place]))
        waiting.remove(order[-1])
    return fix_signs(unit_columns(H[:, order])[0])
