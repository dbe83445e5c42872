"""Loss against sparsity from as few reads as the data allow: what ``spae path`` and pipelines do."""

from collections.abc import Sequence
from typing import Any

from spae_dask.blocks import RowBlocks
from spae_dask.estimators.planning import plan
from spae_dask.estimators.sparse_encoder import SparseEncoder
from spae_dask.passes.plan import Plan
from spae_dask.strategies.core import CORES
from spae_dask.strategies.path import SparsityPath


def fit_path(
    source: RowBlocks, n_components: Sequence[int], n_nonzero: Sequence[int], *, method: str, **options: Any
) -> SparsityPath:
    """Encoders of every k and r: one read of ``source``, two where they have too many columns for a core.

    Parameters
    ----------
    source : RowBlocks
        The data.
    n_components, n_nonzero : sequence of int
        Components and nonzeros.
    method : str
        Method that builds the encoders.
    **options
        Other parameters of ``SparseEncoder``.

    Raises
    ------
    InvalidInput
        If a k or r is out of range, or the method cannot keep to candidate columns where it must.
    """
    of_plan = ("missing", "missing_value", "recipe", "n_top_features", "covariates", "row_weights", "memory_limit")
    planned = {name: options[name] for name in of_plan if name in options}
    if plan_path(source, n_components, n_nonzero, method=method, **planned).strategy not in CORES:
        # candidates are chosen for one k and r: those of the largest serve the others
        encoder = SparseEncoder(max(n_components), n_nonzero=max(n_nonzero), method=method, **options).fit(source)
    else:
        # any encoder of a core suffices, and this one takes little time
        encoder = SparseEncoder(min(n_components), n_nonzero=max(n_nonzero), method="batch", **options).fit(source)
    path: SparsityPath = encoder.set_params(method=method).sparsity_path(n_components, n_nonzero)
    return path


def plan_path(
    source: RowBlocks, n_components: Sequence[int], n_nonzero: Sequence[int], *, method: str, **options: Any
) -> Plan:
    """Plan `fit_path`, which takes what a fit of its largest encoder does.

    Parameters
    ----------
    source, n_components, n_nonzero, method
        As of `fit_path`.
    **options
        Parameters of ``spae_dask.plan`` for the treatment of missing values and for the target.

    Raises
    ------
    MemoryBudgetExceeded
        If it does not fit there.
    """
    return plan(source, max(n_components), n_nonzero=max(n_nonzero), method=method, calibrate=False, **options)
