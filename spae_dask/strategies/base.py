"""The shape of a strategy: one fit from its parameters to its certificate.

A strategy is one object in the file that holds its mathematics. `table` lists all of them and chooses.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from spae_dask.blocks import RowBlocks
from spae_dask.errors import InvalidInput
from spae_dask.maths.encoders.budgets import budgets_of
from spae_dask.maths.linalg.spectral import SVD_LIMIT
from spae_dask.passes.accumulators import Accumulator
from spae_dask.passes.accumulators.base import State
from spae_dask.passes.memory import TASK_OVERHEAD
from spae_dask.passes.online import OnlinePass
from spae_dask.passes.plan import Finish
from spae_dask.strategies.certificate import Certificate
from spae_dask.strategies.methods import Report
from spae_dask.strategies.parameters import FitParameters
from spae_dask.strategies.sparse_encoder import FittedEncoder

Shape = tuple[int, int]
Passes = Sequence[tuple[str, Accumulator[Any]]]
Result = TypeVar("Result")

FINISH_MATRICES = 12
"""d x d float64 matrices alive at the peak of the in-memory solve: the state, the core, the same scaled, and an
SVD's own copies, vectors and work space. Measured at 11.7; at 6.4 where the Gram matrix's eigenvectors are enough."""

CORE_SECONDS, LARGE_CORE_SECONDS = 6e-10, 2e-10
"""Seconds of the decompositions of a core, times d^3: by an SVD, and of a larger core by its products. These constants
were measured on a server core of 15 Gflop/s."""

POLISH_SECONDS = 0.012
"""Seconds of polishing on a core a nonzero of all components, and of each column: within half and twice of what was
measured for d = 13 to 2000, k = 3 to 50, r = 5 to 20."""

POLISH_SECONDS_OF_COLUMN = 8e-6

SKETCH_POLISH_SECONDS = 2e-5
"""Seconds of polishing on a sketch and on its candidates, times d and the nonzeros, beside two of those on a core:
within half and twice of what was measured for d = 20 to 8000."""

SELECTION_SHARE = 0.1
"""Part of that time taken by methods that choose columns and do not polish."""

TRIES = 2.0
"""Time of the search for the fewest nonzeros that reach a target, over that of one search."""

SHARE_OF_SEARCH = 0.5
"""Time of a quick search that starts from an encoder of similar data, over that of a search. Measured at 0.5 to 0.6."""

UNKNOWN_NONZERO = 20
"""Nonzeros that a component is planned to have if the fit has a target."""


class RunBlocks(Protocol):
    """Read some row blocks, in the order of their numbers. All calls together count as one pass."""

    def __call__(self, numbers: npt.NDArray[np.intp], accumulator: Accumulator[Result], name: str) -> Result: ...


class Reader(Protocol):
    """Reads the data of a fit, as the engine's runner does."""

    def run_pass(self, accumulator: Accumulator[Result], name: str = ...) -> Result:
        """Read all rows, and return what an accumulator makes of them."""
        ...

    def run_state(self, accumulator: Accumulator[Any], name: str = ...) -> State:
        """Read all rows, and return the accumulator's state, to which more rows can be added."""
        ...

    @property
    def run_blocks(self) -> RunBlocks:
        """Read some row blocks, as :class:`RunBlocks` says."""
        ...


@dataclass(frozen=True, eq=False)
class Reports:
    """Functions that receive the progress of a fit.

    Attributes
    ----------
    search : callable or None
        Receives the progress of a search.
    estimate : callable
        Receives the estimate of each round of a sample.
    """

    search: Report | None = None
    estimate: Callable[[Any], None] = lambda _: None


@dataclass(frozen=True, eq=False)
class Outcome:
    """Result of a strategy.

    Attributes
    ----------
    fitted : FittedEncoder
        The encoder with its certificate.
    summary : object or None
        The core or the candidates on which further encoders can be built without a read. None if there is neither.
    rows : ndarray of int64 or None
        Rows of a doubly sparse encoder.
    online : OnlinePass or None
        State of the rows, to which more rows can be added.
    warnings : tuple of (str, type)
        Text and category of warnings for the user.
    """

    fitted: FittedEncoder
    summary: Any = None
    rows: npt.NDArray[np.int64] | None = None
    online: OnlinePass | None = None
    warnings: tuple[tuple[str, type[Warning]], ...] = ()


class Strategy(ABC):
    """A way to fit an encoder: the passes that it makes, and the state that each keeps of the rows.

    Attributes
    ----------
    name : str
        Value of the parameter ``strategy``.
    pca_loss : str
        Kind of value that PCA's loss is: exact, or an estimate between certified bounds.
    is_rival : bool
        True if its encoder is as good as those of the others, so that their times can be compared.
    is_tried : bool
        True if its arithmetic can be tried on a block with the placeholders of its recipes.
    takes_batches : bool
        True if ``partial_fit`` can use it.
    """

    name: ClassVar[str]
    pca_loss: ClassVar[str]
    is_rival: ClassVar[bool] = True
    is_tried: ClassVar[bool] = True
    takes_batches: ClassVar[bool] = False

    def reason(self, source: RowBlocks) -> str:  # noqa: ARG002 - one strategy looks at the source
        """Return the reason for the strategy if the user asked for it."""
        return "requested"

    @abstractmethod
    def cannot(self, params: FitParameters) -> str | None:
        """Return the reason for refusing a fit; None if the strategy can make it."""

    @abstractmethod
    def passes(self, params: FitParameters, source: RowBlocks) -> Passes:
        """Names and recipes of all passes, for planning. Numbers in the recipes are placeholders."""

    @abstractmethod
    def finish(self, params: FitParameters, shape: Shape) -> Finish:
        """Memory and time of the in-memory solve."""

    def notes(self, params: FitParameters, source: RowBlocks) -> list[str]:  # noqa: ARG002 - most have none
        """Remarks of the plan on the way that the data are read."""
        return []

    def n_passes_known(self, params: FitParameters) -> bool:  # noqa: ARG002 - most know
        """Return True if the number of passes is known before the first one."""
        return True

    @abstractmethod
    def fit(self, params: FitParameters, reader: Reader, source: RowBlocks, reports: Reports) -> Outcome:
        """Fit an encoder and certify it.

        Parameters
        ----------
        params : FitParameters
            Parameters of the fit, checked.
        reader : Reader
            Reads the data.
        source : RowBlocks
            The data, of which only shape, type and row bounds are used.
        reports : Reports
            Receives the progress.
        """

    def batch_recipe(
        self, params: FitParameters, n_features: int, n_rows: int | None = None, dtype: np.dtype[Any] | None = None
    ) -> Accumulator[Any]:
        """Recipe for rows whose gaps are filled already: batches of any length, or so many dense rows of a type."""
        raise NotImplementedError(f"strategy={self.name!r} takes no batches")

    def begin_update(
        self,
        params: FitParameters,  # noqa: ARG002 - of cores
        online: OnlinePass,
        n_features: int,  # noqa: ARG002
        n_more: int,  # noqa: ARG002
        dtype: np.dtype[Any] | None,  # noqa: ARG002
        forget: float,
    ) -> tuple[OnlinePass, float]:
        """The pass over the rows so far, as it is before more rows are added, and the weight that its rows have.

        Parameters
        ----------
        params : FitParameters
            Parameters of the fit.
        online : OnlinePass
            The pass.
        n_features, n_more : int
            d, and the number of rows to come.
        dtype : numpy.dtype or None
            Type that holds the rows so far and those to come, if all are dense.
        forget : float
            Weight of the rows so far that is wanted.

        Raises
        ------
        InvalidInput
            If they cannot have this weight.
        """
        if forget != 1.0:
            raise InvalidInput(
                f"forget={forget:g} gives old rows a smaller weight, which a sketch cannot. Leave it out, or fit with "
                "strategy='gram' or 'tsqr'."
            )
        return online, 1.0

    def fit_batches(
        self,
        params: FitParameters,
        online: OnlinePass,
        n_features: int,
        report: Report | None,
        *,
        integers: bool = False,
    ) -> Outcome:
        """Fit an encoder to the rows of a pass. ``integers`` is True if all their entries are integers."""
        raise NotImplementedError(
            f"strategy={self.name!r} makes more than one pass, which a stream of batches does not allow"
        )

    def arithmetic(self, source: RowBlocks) -> "Strategy":  # noqa: ARG002 - a sample has that of its core
        """Return the strategy whose rounding the loss has."""
        return self

    def lacks_digits(self, found: Certificate, precision: str) -> bool:
        """Return True if rounding leaves the loss so few digits that other data, or another strategy, give more."""
        if precision == "fast":
            return 0.0 < found.loss < 1e2 * found.loss_error
        # a loss that is zero to rounding is as exact as it can be
        return found.loss_error < found.loss < 1e2 * found.loss_error or found.left_out > found.loss

    def rounding_cause(self, found: Certificate, precision: str) -> str:
        """Cause of an uncertain loss, and the remedy."""
        if found.left_out > found.loss_error / 2:
            return (
                f"{found.n_left_out} columns vary by no more than the rounding of their entries and are left out. "
                "Subtract a constant near their mean before you store them."
            )
        if precision == "fast":
            return "products are made in float32. Use precision='exact' for more digits."
        return (
            "float64 holds few digits of data whose mean is large compared with their spread, or of integers "
            "beyond 2**53, so mean_ is rounded. Subtract a constant near the mean of each column before you "
            "store them."
        )


def finish_nbytes(n_features: int, n_rows: int | None = None) -> int:
    """Peak bytes of the in-memory solve on a core (m, d), in the calling process; m is d by default."""
    return TASK_OVERHEAD + FINISH_MATRICES * 8 * (n_features if n_rows is None else n_rows) * n_features


def core_finish(params: FitParameters, n_rows: int, n_features: int) -> Finish:
    """In-memory solve on a core (m, d): m is d, or the number of rows if those few rows are the core."""
    seconds = _core_seconds(n_rows, n_features) + encoding_seconds(params, n_rows, n_features)
    return Finish(finish_nbytes(n_features, n_rows), seconds)


def _core_seconds(n_rows: int, n_features: int) -> float:
    """Seconds of the decompositions of a core (m, d)."""
    rate = CORE_SECONDS if min(n_rows, n_features) <= SVD_LIMIT else LARGE_CORE_SECONDS
    return rate * (n_rows * n_rows * n_features)


def encoding_seconds(params: FitParameters, n_rows: int, n_features: int) -> float:
    """Seconds of one encoder on a core (m, d) whose singular vectors are known."""
    a_nonzero = POLISH_SECONDS + POLISH_SECONDS_OF_COLUMN * n_features
    residuals = params.planned_components if params.method == "iterative" else 0  # each is decomposed
    return residuals * _core_seconds(n_rows, n_features) + a_nonzero * searched(params)


def share_of_search(params: FitParameters) -> float:
    """Time of one more encoder of similar data, over that of the first: a search starts where the first one ended."""
    return SHARE_OF_SEARCH if params.method == "polished" else 1.0


def holds_integers(source: RowBlocks) -> bool:
    """Return True if all entries are integers, which are read without rounding."""
    return source.dtype.kind in "iub"


def nonzeros(params: FitParameters) -> int:
    """Nonzeros of all components."""
    return sum(budgets_of(params.planned_components, UNKNOWN_NONZERO if params.sizes is None else params.sizes))


def searched(params: FitParameters) -> float:
    """Nonzeros of all components, weighted by the time that the method takes for one."""
    found = nonzeros(params) * (1.0 if params.method == "polished" else SELECTION_SHARE)
    return found if params.sizes is not None else TRIES * found


def refuse_fast(params: FitParameters) -> str | None:
    """Return the reason of a strategy that has no float32 products for refusing ``precision="fast"``."""
    if params.precision == "fast":
        return "precision='fast' multiplies in float32, which only strategy 'auto', 'gram' and 'sketch' support"
    return None


def refuse_rules(params: FitParameters) -> str | None:
    """Return the reason of a strategy that does not keep to rules for refusing them."""
    if params.rules:
        return f"it does not keep to {params.rules.told}, which 'gram', 'tsqr', 'sketch' and 'sample' do"
    return None


def refuse_panel(params: FitParameters) -> str | None:
    """Return the reason of a strategy without a core for refusing components that use a part of a panel."""
    if params.n_features is not None:
        return "a panel of which each component uses n_nonzero features needs strategy 'gram', 'tsqr' or 'sample'"
    return None


def refuse_no_candidates(params: FitParameters) -> str | None:
    """Return the reason of a strategy that knows candidate columns only."""
    if not params.can_sketch:
        return (
            "it selects candidate columns only. It needs a given n_nonzero with method 'polished', 'batch' "
            "or 'iterative', or eps or keep with method='polished' and shared_support=False"
        )
    return None


def refuse_covariates(params: FitParameters) -> str | None:
    """Return the reason of a summary of which no residuals can be taken for refusing covariates."""
    if params.covariates is not None:
        return (
            "it cannot remove covariates. Use strategy 'auto', 'gram', 'tsqr' or 'sketch', without tolerance and "
            "certified=True, or leave out the covariates"
        )
    return None


def refuse_folds(params: FitParameters) -> str | None:
    """Return the reason of a strategy that keeps no summary of the rows to merge for refusing folds."""
    if params.folds is not None:
        return (
            "it keeps no summary of the columns for each fold. Use strategy 'gram', 'tsqr' or 'sketch', without "
            "tolerance, or leave out folds"
        )
    return None


def refuse_share(params: FitParameters) -> str | None:
    """Return the reason of a strategy that does not know the spectrum before it chooses for refusing a share of it."""
    if params.pca_share is not None:
        return (
            f"n_components={params.pca_share:g} is a share of the variance, and it needs the number before it knows "
            "the whole spectrum. Use strategy 'gram' or 'tsqr', without tolerance, or give a number of components"
        )
    return None


def refuse_row_weights(params: FitParameters) -> str | None:
    """Return the reason of a summary that counts each row once for refusing row weights."""
    if params.row_weights is not None:
        return (
            "it cannot weigh rows. Use strategy 'auto', 'gram', 'tsqr' or 'sketch', without tolerance, or leave out "
            "the row weights"
        )
    return None


def refuse_mean(params: FitParameters) -> str | None:
    """Return the reason of a strategy that sees each row once for refusing ``missing="mean"``."""
    if params.missing == "mean":
        return (
            "missing='mean' needs an extra pass to compute column means, which this strategy cannot make. "
            "Use missing='zero'"
        )
    return None
