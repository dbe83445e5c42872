"""Loss against sparsity from as few reads as the data allow: what ``spae path`` and pipelines do."""

from collections.abc import Sequence
from typing import Any

from spae_dask.blocks import RowBlocks
from spae_dask.estimators.planning import plan
from spae_dask.estimators.sparse_encoder import SparseEncoder
from spae_dask.passes.plan import Plan
from spae_dask.rules import OF_PANEL
from spae_dask.strategies.core import CORES
from spae_dask.strategies.parameters import OF_PATHS, PARAMETERS
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
    names = (*OF_PATHS, "shared_support", "folds", "fold_groups", "memory_limit")
    planned = {name: options[name] for name in names if name in options}
    if plan_path(source, n_components, n_nonzero, method=method, **planned).strategy not in CORES:
        # candidates are chosen for one k and r: those of the largest serve the others
        encoder = SparseEncoder(max(n_components), n_nonzero=max(n_nonzero), method=method, **options).fit(source)
    else:
        # any encoder of a core suffices, and this one takes little time
        changed = {"selection": "greedy", **dict.fromkeys(["n_features", *OF_PANEL])}
        quick = options | changed | {"method": "batch"}
        encoder = SparseEncoder(min(n_components), n_nonzero=max(n_nonzero), **quick).fit(source)
        wanted = {name: options.get(name, PARAMETERS[name].default) for name in changed}
        encoder.set_params(method=method, **wanted)
    path: SparsityPath = encoder.sparsity_path(n_components, n_nonzero)
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
