"""Loss and processor time of the search for supports, now and in another checkout: the table of search.md.

Run ``python -m benchmarks.search --before CHECKOUT --markdown``, or without ``--before`` for this checkout alone. Each
checkout searches in a process of its own, on one core, by the default parameters of a fit, on the same matrices. Times
are of the processor, so a busy machine makes them longer but not meaningless; look at the two side by side.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt

from benchmarks.machine import describe_machine
from spae_dask.maths.linalg.spectral import pca_loss, right_singular
from tests import reference_data

Floats = npt.NDArray[np.float64]

HERE = Path(__file__).parent
ROOT = HERE.parent

SEARCH = """
import json, sys, time
import numpy as np
from spae_dask.maths.linalg.loss import encoder_loss
from spae_dask.strategies.methods import METHODS, Search
from spae_dask.strategies.parameters import FitParameters
for line in sys.stdin:
    path, k, r, seed = json.loads(line)
    core, params = np.load(path), FitParameters(k, r, seed=seed)
    began = time.process_time()
    H = METHODS["polished"](params, core, r, Search()).H
    seconds = time.process_time() - began
    print(json.dumps([encoder_loss(core, H), seconds]), flush=True)
"""


def factors(n: int, d: int) -> Floats:
    """Eight dense factors in noise."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, 8)) @ rng.standard_normal((8, d)) + rng.standard_normal((n, d))
    return np.linalg.qr(X - X.mean(axis=0), mode="r")


def counts(n: int, d: int) -> Floats:
    """Logarithms of counts of a dozen gene programs."""
    rng = np.random.default_rng(0)
    V = rng.gamma(0.3, size=(12, d)) * rng.gamma(0.3, size=d)
    X = np.log1p(rng.poisson(rng.gamma(0.5, size=(n, 12)) @ V * 0.5))
    return np.linalg.qr(X - X.mean(axis=0), mode="r")


def noise(n: int, d: int) -> Floats:
    """Noise alone."""
    return np.linalg.qr(np.random.default_rng(0).standard_normal((n, d)), mode="r")


DATA: dict[str, Callable[[], Floats]] = {
    "pitprops": reference_data.pitprops,
    "colon": reference_data.colon,
    "lymphoma": reference_data.lymphoma,
    "eisen": reference_data.eisen,
    "counts, 309 columns": lambda: counts(700, 309),
    "counts, 2,000 columns": lambda: counts(4000, 2000),
    "factors, 2,000 columns": lambda: factors(3000, 2000),
    "counts, 8,000 columns": lambda: counts(3000, 8000),
    "noise, 1,024 columns": lambda: noise(8192, 1024),
}
GENES = ("colon", "lymphoma", "eisen")
SIZES = {
    "quick": [(name, 2, 5) for name in ("pitprops", *GENES)] + [(name, 10, 12) for name in GENES],
    "full": [(name, k, r) for name in ("pitprops", *GENES) for k, r in ((2, 5), (2, 10), (5, 10))]
    + [(name, 5, 5) for name in GENES]
    + [(name, 10, r) for name in GENES for r in (5, 12, 20)]
    + [(name, 20, 10) for name in GENES]
    + [
        ("counts, 309 columns", 50, 10),
        ("counts, 2,000 columns", 10, 12),
        ("factors, 2,000 columns", 10, 12),
        ("counts, 8,000 columns", 10, 12),
        ("noise, 1,024 columns", 5, 10),
    ],
}


def searched(checkout: Path, cases: list[tuple[str, int, int, int]]) -> list[tuple[float, float]]:
    """Loss and processor seconds of every case, ``(path, k, r, seed)``."""
    one_core = {f"{name}_NUM_THREADS": "1" for name in ("OPENBLAS", "OMP", "MKL")}
    done = subprocess.run(
        [sys.executable, "-c", SEARCH],
        input="\n".join(map(json.dumps, cases)),
        env=os.environ | one_core | {"PYTHONPATH": str(checkout)},
        cwd=checkout,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return [(float(loss), float(seconds)) for loss, seconds in map(json.loads, done.stdout.splitlines())]


def table(size: str, before: Path | None, seeds: int) -> list[str]:
    """Rows of the table, as Markdown; means over the seeds."""
    checkouts = [ROOT] if before is None else [before, ROOT]
    names = [""] if before is None else [", before", ", after"]
    head = ["data", "k", "r", *(f"excess{name}" for name in names), *(f"seconds{name}" for name in names)]
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    with tempfile.TemporaryDirectory() as scratch:
        least = {}
        for name in dict.fromkeys(name for name, _, _ in SIZES[size]):
            core = DATA[name]()
            np.save(Path(scratch) / f"{name}.npy", core)
            least[name] = right_singular(core, 0)[0]
        for name, k, r in SIZES[size]:
            cases = [(str(Path(scratch) / f"{name}.npy"), k, r, seed) for seed in range(seeds)]
            found = [np.mean(searched(checkout, cases), axis=0) for checkout in checkouts]
            excess = [f"{100 * (loss / pca_loss(least[name], k) - 1):.4f} %" for loss, _ in found]
            lines.append(f"| {' | '.join([name, str(k), str(r), *excess, *(f'{s:.2f}' for _, s in found)])} |")
            print(lines[-1], flush=True)
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", choices=sorted(SIZES), default="quick")
    parser.add_argument("--before", type=Path, help="another checkout of this project, to compare with")
    parser.add_argument("--seeds", type=int, default=1, help="seeds over which losses and times are averaged")
    parser.add_argument("--markdown", action="store_true", help="write search.md")
    given = parser.parse_args()
    lines = table(given.size, given.before, given.seeds)
    if given.markdown:
        (HERE / "search.md").write_text(
            "# Search\n\n"
            "Excess of the loss over PCA's, and processor seconds of the search for supports on one core, by the\n"
            "default parameters of a fit. A search stops at an excess of 0.1 % (`search_tol`), so what is below that\n"
            f"is not compared. Means over {given.seeds} seed(s). Made by\n"
            f"`python -m benchmarks.search --size {given.size} --seeds {given.seeds}"
            f"{' --before CHECKOUT' if given.before else ''} --markdown`, on {'; '.join(describe_machine())}.\n\n"
            + "\n".join(lines)
            + "\n"
        )


if __name__ == "__main__":
    main()
