"""Names of results in an AnnData object, and checks that run before any data are read."""

from typing import Any

import numpy as np

from spae_dask.errors import InvalidInput, OutputExists
from spae_dask.storage.open import is_anndata


def check_target(adata: Any, copy: bool) -> None:
    """Refuse what results cannot be written to, before anything is read."""
    if not is_anndata(adata):
        raise InvalidInput(
            f"sparse_pca was given an object of type {type(adata).__name__}, and writes its results into AnnData "
            "objects. For other matrices use SparseEncoder(n_components=..., n_nonzero=...).fit_transform(x); open "
            "files with anndata.read_h5ad(path, backed='r')."
        )
    if adata.isbacked and (copy or adata.is_view):
        what = "a view of a backed object cannot hold results" if adata.is_view else "copy=True needs X in memory"
        raise InvalidInput(
            f"the AnnData object is backed by {adata.filename}, and {what}. Take it into memory with "
            "adata.to_memory(), use mask_var for a choice of genes, or write the results into the object itself."
        )


def keys_of(key_added: str | None) -> dict[str, str]:
    """Names of the results by the slot they go to."""
    if key_added is None:
        return {"obsm": "X_spae", "varm": "spae", "uns": "spae", "var": "spae_selected"}
    if not isinstance(key_added, str) or not key_added or "/" in key_added:
        raise InvalidInput(f"key_added={key_added!r} is not allowed: give a name without slashes, such as 'spae_hvg'.")
    return {"obsm": key_added, "varm": key_added, "uns": key_added, "var": f"{key_added}_selected"}


def refuse_existing(adata: Any, keys: dict[str, str]) -> None:
    """Refuse names that something has."""
    there = [f"{slot}[{key!r}]" for slot, key in keys.items() if key in getattr(adata, slot)]
    if there:
        raise OutputExists(
            f"adata.{', adata.'.join(there)} exist{'s' if len(there) == 1 else ''}. Give overwrite=True to replace it, "
            "or key_added=... for results beside it."
        )


def float_type(dtype: Any) -> np.dtype[Any]:
    """The type that codes are wanted in."""
    try:
        wanted: np.dtype[Any] | None = np.dtype(dtype)
    except TypeError:
        wanted = None
    if wanted is None or wanted.name not in ("float32", "float64"):
        raise InvalidInput(f"dtype={dtype!r} is not allowed for codes: give 'float32' or 'float64'.")
    return wanted
