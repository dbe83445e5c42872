"""An encoder of made-up numbers, that fits together."""

import math
from dataclasses import replace

import numpy as np
import scipy.sparse as sp

from spae_dask.storage.artifacts.artifact import EncoderArtifact

D, K, R = 30, 3, 4


def made(seed: int = 0, **changes) -> EncoderArtifact:
    rng = np.random.default_rng(seed)
    H = np.zeros((D, K))
    for j in range(K):
        H[rng.choice(D, R, replace=False), j] = rng.standard_normal(R)
    columns = sp.csc_array(H)
    artifact = EncoderArtifact(
        indptr=columns.indptr,
        indices=columns.indices,
        values=columns.data,
        decoder=rng.standard_normal((K, D)),
        mean=np.zeros(D),
        scale=np.ones(D),
        fill=np.zeros(0),
        spectrum=np.zeros(0),
        certificate={"loss": 1.5, "bound": math.inf, "theorem": None, "exact": True},
        parameters={"n_components": K, "n_nonzero": R},
        provenance={"seed": 0, "strategy": "gram"},
        feature_names=tuple(f"gene {j}" for j in range(D)),
    )
    return replace(artifact, **changes)
