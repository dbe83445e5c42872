"""Few columns and few rows: the doubly sparse encoder C Phi R, out of core."""

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from spae_dask.accumulators import Imputed, PooledRows, RowPool
from spae_dask.algorithms.certify import certify
from spae_dask.algorithms.core import RunPass
from spae_dask.algorithms.core_summary import CoreSummary
from spae_dask.algorithms.problem import Problem
from spae_dask.algorithms.sparse_encoder import FittedEncoder, padded
from spae_dask.algorithms.theory import target_of
from spae_dask.encoding.doubly_sparse import encode_doubly_sparse, leverage_coefficients
from spae_dask.linalg.loss import sequential_explained

POOL = 10
"""Rows sampled by leverage for every row to be chosen."""

ROWS_PER_COMPONENT = 4
"""Rows chosen for each component, if their number is not given: more hardly lower the loss."""


def rows_wanted(problem: Problem) -> int:
    """Rows to choose."""
    return ROWS_PER_COMPONENT * problem.n_components if problem.n_rows is None else problem.n_rows


def pool_size(problem: Problem) -> int:
    """Rows to sample."""
    return POOL * rows_wanted(problem)


@dataclass(frozen=True, eq=False)
class FittedRows:
    """A doubly sparse encoder.

    Attributes
    ----------
    fitted : FittedEncoder
        Its decoder is a mix of the chosen rows; ``certificate.decoder_loss`` is the loss with that decoder.
    rows : ndarray of int64
        Numbers of the chosen rows of X, ascending.
    """

    fitted: FittedEncoder
    rows: npt.NDArray[np.int64]


def choose_rows(problem: Problem, summary: CoreSummary, run_pass: RunPass, columns_only: FittedEncoder) -> FittedRows:
    """Choose rows for the columns of a batch encoder, and rebuild encoder and decoder on both.

    Passes: 1, beside that of the core: rows are sampled by leverage into a pool, and targeted greedy chooses from it
    those that span what the decoder needs. The loss is exact.

    Parameters
    ----------
    problem : Problem
        What is asked for.
    summary : CoreSummary
        Core of the data.
    run_pass : callable
        Sweeps the data.
    columns_only : FittedEncoder
        The batch encoder on the chosen columns.
    """
    n_rows = rows_wanted(problem)
    core, k, columns = summary.core, problem.n_components, columns_only.chosen
    pooled: PooledRows = run_pass(row_pool(problem, summary, columns), "rows")
    made = encode_doubly_sparse(core, columns, pooled.rows, k, n_rows)
    H, G = padded(made.H.T, k).T, padded(made.G, k)
    before = columns_only.certificate
    certificate = certify(
        summary,
        H,
        bound=None,
        theorem="Boutsidis & Woodruff 2014, C Phi R: measured exactly; the sampled rows carry no bound of their own",
        passes=before.passes + 1,
        bytes_read=before.bytes_read,
        target=target_of(problem),
        decoder_loss=made.loss,
    )
    fitted = replace(
        columns_only,
        H=H,
        G=G,
        selected=np.flatnonzero(H.any(axis=1)),
        explained_ratio=sequential_explained(core, H) / certificate.total if certificate.total > 0 else np.zeros(k),
        certificate=certificate,
    )
    return FittedRows(fitted, np.sort(pooled.numbers[made.rows]))


def row_pool(problem: Problem, summary: CoreSummary, columns: npt.NDArray[np.intp]) -> RowPool | Imputed[PooledRows]:
    """Recipe of the pass."""
    T = leverage_coefficients(summary.core, columns, problem.n_components)
    pool = RowPool(pool_size(problem), columns, T, summary.center, summary.scale, seed=problem.seed)
    return pool if summary.fill is None else Imputed(pool, summary.fill)
