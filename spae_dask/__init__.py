"""Sparse PCA with a certificate, on matrices that do not fit in memory.

>>> from spae_dask import SparseEncoder
>>> encoder = SparseEncoder(n_components=10, n_nonzero=12)   # then .fit(x), .certificate_, .transform(x)

Public names are imported when first used, so that the numerical rooms can be imported without dask or scikit-learn.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from spae_dask.estimators.column_selector import ColumnSelector
    from spae_dask.estimators.evaluation import evaluate, evaluate_by
    from spae_dask.estimators.planning import plan
    from spae_dask.estimators.saved import load_encoder
    from spae_dask.estimators.sparse_encoder import SparseEncoder
    from spae_dask.recipes import Recipe
    from spae_dask.storage.open import open_matrix
    from spae_dask.strategies.metrics import encoder_metrics

__version__ = "0.1.0"

_HOME = {
    "ColumnSelector": "spae_dask.estimators.column_selector",
    "Recipe": "spae_dask.recipes",
    "SparseEncoder": "spae_dask.estimators.sparse_encoder",
    "encoder_metrics": "spae_dask.strategies.metrics",
    "evaluate": "spae_dask.estimators.evaluation",
    "evaluate_by": "spae_dask.estimators.evaluation",
    "load_encoder": "spae_dask.estimators.saved",
    "open_matrix": "spae_dask.storage.open",
    "plan": "spae_dask.estimators.planning",
}

__all__ = [
    "ColumnSelector",
    "Recipe",
    "SparseEncoder",
    "__version__",
    "encoder_metrics",
    "evaluate",
    "evaluate_by",
    "load_encoder",
    "open_matrix",
    "plan",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'spae_dask' has no attribute {name!r}; it has {', '.join(sorted(__all__))}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
