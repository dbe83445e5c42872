"""Losses of all methods at the same sparsity: the table of quality.md.

Run ``python -m benchmarks.quality --size full`` (about ten minutes), or without ``--size``. Every method gets the
same k and the same r nonzeros a component, and the same number is measured for each: loss of the encoder with its
best decoder, over PCA's. scikit-learn's SparsePCA and MiniBatchSparsePCA have no such parameter: their components are
cut to their r largest entries. TPower and GPower work on the matrix itself where X is one, as in the paper's
experiments.
"""

import argparse
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from sklearn.decomposition import MiniBatchSparsePCA, SparsePCA

from benchmarks.machine import describe_machine
from spae_dask.baselines.gpower import gpower
from spae_dask.baselines.tpower import tpower
from spae_dask.datasets.indian_pines import checkerboard, load_indian_pines
from spae_dask.maths.encoders.batch import encode_batch
from spae_dask.maths.encoders.iterative import encode_iterative
from spae_dask.maths.linalg.loss import encoder_loss
from spae_dask.maths.linalg.spectral import core_from_gram, pca_loss, right_singular
from spae_dask.strategies.methods import METHODS as OURS
from spae_dask.strategies.methods import Search
from spae_dask.strategies.parameters import FitParameters
from tests import reference_data

Floats = npt.NDArray[np.float64]
Encode = Callable[[Floats, int, int], Floats]

HERE = Path(__file__).parent
SIZES = {
    "quick": ((2, 5), (5, 10)),
    "full": tuple((k, r) for k in (1, 2, 5, 10) for r in (3, 5, 10, 20)),
}


@dataclass(frozen=True)
class DataSet:
    """Training data as a core, one for TPower and GPower, and one of held-out rows about the training mean, if any."""

    name: str
    core: Floats
    covariance_core: Floats
    held_out: Floats | None = None


def data_sets() -> Iterator[DataSet]:
    """The paper's three matrices and a fourth (X = the matrix itself), an image, and tall synthetic factors."""
    for name in ("pitprops", "colon", "lymphoma", "eisen"):
        matrix = getattr(reference_data, name)()
        yield DataSet(name, matrix, core_from_gram(matrix))
    pines = load_indian_pines()
    training = checkerboard(pines.image.shape[:2], 29).reshape(-1)
    yield split("pines", pines.pixels.astype(np.float64), training)
    rng = np.random.default_rng(0)
    loadings = rng.standard_normal((6, 60)) * (rng.random((6, 60)) < 0.3)
    X = rng.standard_normal((20_000, 6)) @ loadings + 0.5 * rng.standard_normal((20_000, 60))
    yield split("factors", X, np.arange(20_000) < 10_000)


def split(name: str, X: Floats, training: npt.NDArray[np.bool_]) -> DataSet:
    """Cores of both halves, about the mean of the first."""
    mean = X[training].mean(axis=0)
    cores = [np.linalg.qr(rows - mean)[1] for rows in (X[training], X[~training])]
    return DataSet(name, cores[0], cores[0], cores[1])


def cut(components: Floats, r: int) -> Floats:
    """Encoder (d, k) of the r largest entries of each component (k, d)."""
    H = np.zeros_like(components.T)
    for j, row in enumerate(components):
        kept = np.argsort(-np.abs(row), kind="stable")[:r]
        H[kept, j] = row[kept]
    return H


def sklearn_sparse_pca(model: type) -> Encode:
    """Components of a scikit-learn model at its default penalty, cut to r entries."""

    def encode(core: Floats, k: int, r: int) -> Floats:
        scale = np.linalg.norm(core) / np.sqrt(core.shape[1])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it says that it did not converge, which is for the reader of the table
            fitted = model(k, random_state=0, max_iter=100).fit(core / scale * np.sqrt(core.shape[0]))
        return cut(fitted.components_, r)

    return encode


METHODS: dict[str, Encode] = {
    "batch": lambda core, k, r: encode_batch(core, k, r, selection="exchange", rng=np.random.default_rng(0)).H,
    "iterative": lambda core, k, r: encode_iterative(core, k, r).H,
    "TPower": lambda core, k, r: tpower(core, r, k),
    "GPower l0": lambda core, k, r: gpower(core, penalty="l0", n_nonzero=r, n_components=k),
    "GPower l1": lambda core, k, r: gpower(core, penalty="l1", n_nonzero=r, n_components=k),
    "SparsePCA": sklearn_sparse_pca(SparsePCA),
    "MiniBatchSparsePCA": sklearn_sparse_pca(MiniBatchSparsePCA),
    # as SparseEncoder(k, n_nonzero=r) makes it on a core
    "polished": lambda core, k, r: OURS["polished"](FitParameters(k, r), core, r, Search()).H,
}


ON_COVARIANCE = ("TPower", "GPower l0", "GPower l1")


def ratio(core: Floats, H: Floats, k: int) -> float:
    """Information loss."""
    best = pca_loss(right_singular(core, 0)[0], k)
    loss = encoder_loss(core, H)
    return loss / best if best > 0 else float("nan")


def rows_of(data: DataSet, k: int, r: int) -> dict[str, tuple[float, float | None, float]]:
    """Of each method: ratio in training, ratio held out, seconds."""
    found: dict[str, tuple[float, float | None, float]] = {}
    for name, encode in METHODS.items():
        began = time.perf_counter()
        core = data.covariance_core if name in ON_COVARIANCE else data.core
        H = encode(core, k, r)
        seconds = time.perf_counter() - began
        held_out = None if data.held_out is None else ratio(data.held_out, H, k)
        found[name] = (ratio(data.core, H, k), held_out, seconds)
    return found


def table(size: str) -> str:
    """The Markdown table."""
    names = list(METHODS)
    head = f"| data | k | r | {' | '.join(names)} | polished is best | seconds, polished |"
    lines = [head, "|" + "---|" * (len(names) + 5)]
    for data in data_sets():
        for k, r in SIZES[size]:
            if k > data.core.shape[1] or r > data.core.shape[1]:
                continue
            found = rows_of(data, k, r)
            cells = [shown(*found[name][:2]) for name in names]
            best = min(value[0] for value in found.values())
            is_best = "yes" if found["polished"][0] <= best * (1 + 1e-9) else "**no**"
            line = f"| {data.name} | {k} | {r} | {' | '.join(cells)} | {is_best} | {found['polished'][2]:.1f} |"
            print(line, flush=True)
            lines.append(line)
    return "\n".join(lines)


def shown(training: float, held_out: float | None) -> str:
    """A cell: the ratio in training, and held out."""
    return f"{training:.4f}" if held_out is None else f"{training:.4f} / {held_out:.4f}"


TEXT = """# Quality

Information loss (loss over PCA's at the same k, at least 1) of all methods with the same number r of nonzeros
per component. For pitprops, colon, lymphoma and eisen, X is the matrix itself, as in the paper. Two data sets have a
second number, on held-out rows: pines (the hyperspectral image, in squares of 29 x 29 pixels like a chessboard) and
factors (10,000 rows of six sparse factors in noise). `batch` has all its components on the same r columns, chosen by
exchange. `polished` is the encoder of a default fit. scikit-learn's methods have no such r, so only the r largest
entries of each component are kept. Made by
`python -m benchmarks.quality --size {size} --markdown`, on {machine}.

{table}
"""


def main() -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", choices=list(SIZES), default="quick")
    parser.add_argument("--markdown", action="store_true", help="write quality.md")
    given = parser.parse_args()
    found = table(given.size)
    if given.markdown:
        text = TEXT.format(size=given.size, machine="; ".join(describe_machine()), table=found)
        (HERE / "quality.md").write_text(text)


if __name__ == "__main__":
    main()
