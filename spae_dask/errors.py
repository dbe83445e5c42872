"""Every exception and warning of the package; imports nothing but Python.

Each class is also the built-in exception a caller would expect to catch, so ``except ValueError`` and
``except OSError`` keep working. A message says what was given, what is allowed and what to do.
"""

import sys
import warnings

OURS = ("spae_dask", "contextlib")
"""Modules, and what they call through, whose lines a warning does not point at."""


class SpaeError(Exception):
    """Root of all errors raised on purpose by this package."""


class InvalidInput(SpaeError, ValueError):
    """The data or a parameter cannot be used as given.

    Attributes
    ----------
    place : tuple of int, optional
        Row and column of the entry that cannot be used, where they are known.
    """

    place: tuple[int, int] | None = None


class NotNumbers(InvalidInput, TypeError):
    """The data are of a type that does not stand for real numbers."""


class NonFiniteInput(InvalidInput):
    """The data hold NaN or infinite entries and the policy is to refuse them. ``place`` is that of the first one."""


class NotFound(InvalidInput, FileNotFoundError):
    """A named store, array or file does not exist."""


class OutputExists(InvalidInput, FileExistsError):
    """The output is already there and may not be overwritten."""


class OtherCheckpoint(InvalidInput):
    """The checkpoint is of other data, parameters or versions."""


class MemoryBudgetExceeded(SpaeError, RuntimeError):
    """The plan needs more memory than the budget allows; nothing was read."""


class StorageError(SpaeError, OSError):
    """Reading or writing a store failed, or what came back is not what was written."""


class DataChanged(StorageError):
    """The data changed while a run read them, so that its result would be of no data that ever were."""

    @classmethod
    def told(cls, what: str) -> "DataChanged":
        """The error, saying by what the change was noticed."""
        return cls(
            f"the data changed while they were read: {what}. The result would mix two states of the data. Run "
            "again when no process writes to them, or run on a copy."
        )


class TransientStorageError(StorageError):
    """A store did not give what it holds, and may when it is asked again: it was slow, throttled or out of reach."""


class PassFailed(SpaeError, RuntimeError):
    """A sweep over the data could not be finished for a reason that is not the data's."""


class ClusterUnavailable(SpaeError, RuntimeError):
    """No scheduler, or no worker, answered in time."""


class PartsMissing(SpaeError, RuntimeError):
    """Other parts of an array job have to be done first."""


class ImpossibleCertificate(SpaeError, ArithmeticError):
    """The numbers of a certificate contradict each other, which is a bug."""


class SpaeWarning(UserWarning):
    """Root of all warnings issued by this package."""


class MissingChunksWarning(SpaeWarning):
    """Chunks absent from the store were read as the fill value."""


class RankDeficientWarning(SpaeWarning):
    """Fewer components or columns than asked for carry anything."""


class WantedExcessWarning(SpaeWarning):
    """A target, ``eps`` or ``keep``, could not be reached."""


class PrecisionWarning(SpaeWarning):
    """A reported number has fewer correct digits than usual."""


class SlowClusterWarning(SpaeWarning):
    """A cluster has no workers left, or has finished nothing for much longer than its spans take."""


class UnlikeBlocksWarning(SpaeWarning):
    """Row blocks differ far more than blocks of shuffled rows do, or few blocks or rows decide the loss."""


class NewStreamWarning(SpaeWarning):
    """``partial_fit`` starts a stream that does not hold the rows of an earlier fit."""


class CheckpointWarning(SpaeWarning):
    """A stored state could not be used, and its rows are read again."""


class TransformedTwiceWarning(SpaeWarning):
    """A recipe for raw data is followed with data that seem to have followed it before."""


class NotCountsWarning(SpaeWarning):
    """Data that are taken for counts are not whole numbers."""


class CovariatesExplainWarning(SpaeWarning):
    """Covariates explain a column to rounding, and it is left out."""


def warn(message: str, category: type[Warning] = SpaeWarning) -> None:
    """Issue a warning at the line of the user: the nearest one outside this package."""
    frame, level = sys._getframe(1), 2  # as `warnings.warn` counts
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in OURS:
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)
