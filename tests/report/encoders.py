"""Results of encoders, made by hand, for pages and figures."""

from typing import Any

import numpy as np

from spae_dask.report.encoder_results import EncoderResults
from spae_dask.strategies.certificate import Certificate
from spae_dask.strategies.path import PathPoint, SparsityPath

HOSTILE = (
    "<script>document.title = 'owned'</script>",
    '"><img src=x onerror="document.title = 1">',
    "</td></table></style><h2>mine</h2>",
    "$\\frac{$",
    "温度",
    "a\nb\u202ec",
    "",
    "&amp;",
    "n" * 400,
    "{}{0}%s",
)
"""Names that would do harm on a careless page."""


def certificate(**changes: Any) -> Certificate:
    """Of an encoder that loses 12 of 100, where PCA loses 10."""
    given: dict[str, Any] = {
        "loss": 12.0, "pca_loss": 10.0, "ratio": 1.2, "pca_loss_kind": "exact", "total": 100.0, "explained": 0.88,
        "symmetric_explained": 80.0, "symmetric_ratio": 0.9, "bound": 5.0, "theorem": "Theorem 1", "n_components": 2,
        "n_nonzero": 3, "combined_nonzero": 4, "loss_error": 1e-9, "passes": 1, "bytes_read": 1000,
    }  # fmt: skip
    return Certificate(**(given | changes))


def results(k: int = 2, m: int = 4, d: int = 50, *, names: Any = None, **changes: Any) -> EncoderResults:
    """Of an encoder of k components on the first m of d features, all of them on each."""
    rng = np.random.default_rng(0)
    components = rng.standard_normal((k, m))
    components /= np.linalg.norm(components, axis=1, keepdims=True) if m else 1.0
    given: dict[str, Any] = {
        "certificate": certificate(n_components=k, n_nonzero=m, combined_nonzero=m),
        "components": components,
        "selected": np.arange(m),
        "names": names,
        "n_features": d,
        "explained": np.full(k, 0.88 / k),
        "spectrum": np.sqrt([60.0, 30.0, 10.0]),
        "parameters": {"n_components": k, "n_nonzero": m},
        "provenance": {},
    }
    return EncoderResults(**(given | changes))


def curve(k: int = 2, *, bound: float | None = 5.0) -> SparsityPath:
    """Losses of 30, 20 and 11 % for 1, 2 and 6 nonzeros; and of another k."""
    shares = {1: 0.3, 2: 0.2, 6: 0.11}
    points = [
        PathPoint(k, r, r + 1, 100 * share, 10.0, 10 * share, 1 - share, 0.9, bound) for r, share in shares.items()
    ]
    return SparsityPath((*points, PathPoint(k + 1, 1, 1, 90.0, 5.0, 18.0, 0.1, 0.5, None)), "polished")
