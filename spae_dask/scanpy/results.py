"""Results of a fitted encoder in an AnnData object: codes of the cells, and the certificate of their loss."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from spae_dask.blocks import LazyRowBlocks, RowBlocks
from spae_dask.estimators.applying import encode_rows
from spae_dask.estimators.sparse_encoder import SparseEncoder
from spae_dask.strategies.certificate import LEADING

TOLD = (
    *LEADING,
    *("loss", "pca_loss", "loss_kind", "pca_loss_kind", "loss_error", "total", "bound", "theorem"),
    *("loss_lower", "loss_upper", "pca_loss_lower", "pca_loss_upper", "ratio_lower", "ratio_upper"),
    *("combined_nonzero", "passes", "bytes_read", "target_met"),
)
"""Fields of a certificate that are copied to ``uns``."""

ELSEWHERE = ("center", "memory_limit", "checkpoint", "progress", "random_state")
"""Parameters that concern the machine of the fit, or that are recorded under scanpy's names."""


def codes_of(encoder: SparseEncoder, source: RowBlocks, dtype: np.dtype[Any]) -> Any:
    """Codes (n, k) of all rows: lazy for dask arrays, else computed where the fit was."""
    rows = encoder.row_encoder()
    if source.in_process:
        blocks = [rows.encode(source.read(number), start) for number, start in enumerate(source.bounds[:-1])]
        return np.concatenate(blocks).astype(dtype, copy=False)
    codes = encode_rows(source, rows).astype(dtype)
    return codes if isinstance(source, LazyRowBlocks) else codes.compute()


def summary_of(encoder: SparseEncoder, params: dict[str, Any]) -> dict[str, Any]:
    """Make the entries of ``uns``, of types that h5ad and Zarr files store; unknown values are left out."""
    certificate, n = encoder.certificate_, encoder.n_samples_seen_
    asked = {name: value for name, value in encoder.get_params().items() if name not in ELSEWHERE}
    curve = encoder.curve()
    summary = {
        **{name: getattr(certificate, name) for name in TOLD},
        "params": {**params, **asked, "random_state": encoder.seed_},
        "n_nonzero": (encoder.components_ != 0).sum(axis=1),
        "variance": encoder.explained_variance_ratio_ * certificate.total / max(1, n - 1),
        "variance_ratio": encoder.explained_variance_ratio_,
        "curve": None if curve is None else _columns(curve.records()),
    }
    kept: dict[str, Any] = _storable(summary)
    return kept


def _columns(records: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The fields of some records that all of them have, as arrays."""
    known = [name for name in records[0] if all(record[name] is not None for record in records)]
    return {name: np.asarray([record[name] for record in records]) for name in known}


def _storable(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _storable(each) for name, each in value.items() if each is not None}
    return np.asarray(value) if isinstance(value, list | tuple) else value
