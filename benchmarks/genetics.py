"""A fit of a cohort of genotypes in its PLINK 1 file, beside a read of all of it by bed-reader.

    python -m benchmarks.genetics --samples 20000 --variants 50000 --scratch /some/disk

The cohort has four populations, which drift apart at a share of the variants, and 1 % of its calls are missing. The fit
runs in a process of its own, whose peak of resident memory is the system's. bed-reader reads all calls as int8 into one
array, in another process. The files are in the operating system's cache.
"""

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

import bed_reader
import numpy as np

from benchmarks.process_tree import Watched, watch
from spae_dask.passes.memory import IDLE_NBYTES
from spae_dask.quantities import format_nbytes, format_seconds

N_POPULATIONS, DRIFT, SHARE_DRIFTING, SHARE_MISSING = 4, 0.1, 0.2, 0.01


def make_cohort(path: Path, n_samples: int, n_variants: int, seed: int = 0) -> None:
    """Write a cohort, one variant after another."""
    rng = np.random.default_rng(seed)
    population = rng.integers(0, N_POPULATIONS, n_samples)
    properties = {"iid": [f"s{i}" for i in range(n_samples)], "sid": [f"rs{j}" for j in range(n_variants)]}
    with bed_reader.create_bed(path, iid_count=n_samples, sid_count=n_variants, properties=properties) as file:
        for _ in range(n_variants):
            share = np.full(N_POPULATIONS, rng.uniform(0.05, 0.95))
            if rng.random() < SHARE_DRIFTING:  # as Balding and Nichols model it
                share = rng.beta(share * (1 - DRIFT) / DRIFT, (1 - share) * (1 - DRIFT) / DRIFT)
            calls = rng.binomial(2, share[population]).astype(np.int8)
            calls[rng.random(n_samples) < SHARE_MISSING] = -127
            file.write(calls)


def read_all(path: Path) -> dict[str, float]:
    """Seconds that bed-reader takes for all calls."""
    began = time.perf_counter()
    with bed_reader.open_bed(path) as file:
        file.read(dtype="int8")
    return {"seconds": time.perf_counter() - began}


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--samples", type=int, default=2000)
    arguments.add_argument("--variants", type=int, default=5000)
    arguments.add_argument("--components", type=int, default=10)
    arguments.add_argument("--nonzeros", type=int, default=20)
    arguments.add_argument("--strategy", default="auto", help="Strategy of the fit.")
    arguments.add_argument("--memory", default=None, help="Memory limit of the fit. Default: that of the machine.")
    arguments.add_argument("--scratch", type=Path, default=None, help="Folder for the cohort, kept if it is given.")
    arguments.add_argument("--read", type=Path, default=None, help=argparse.SUPPRESS)
    given = arguments.parse_args()
    if given.read is not None:
        print(json.dumps(read_all(given.read)))
        return
    with tempfile.TemporaryDirectory() as own:
        path = (given.scratch or Path(own)) / f"cohort-{given.samples}-{given.variants}.bed"
        if not path.exists():
            make_cohort(path, given.samples, given.variants)
        parameters = {
            "n_components": given.components,
            "n_nonzero": given.nonzeros,
            "missing": "mean",
            "strategy": given.strategy,
        }
        job = {
            "path": str(path),
            "out": str(Path(own) / "encoder.npz"),
            "parameters": parameters,
            "n_workers": 0,
            "memory": given.memory,
            "as_command": True,
        }
        reading = watch("benchmarks.genetics", ["--read", str(path)])
        fit = watch("benchmarks.scale_fit", [json.dumps(job)])
    n_entries = given.samples * given.variants
    print(f"cohort      {given.samples:,} x {given.variants:,}, {format_nbytes(n_entries // 4)} packed")
    print(f"bed-reader  {_told(reading)}")
    print(f"fit         {_told(fit)}")
    if reading.answer is None or fit.answer is None:
        sys.exit(1)
    certificate, plan = fit.answer["certificate"], fit.answer["plan"]
    planned = IDLE_NBYTES + max(plan["worker_nbytes"], plan["finish_nbytes"])
    print(f"plan        {plan['strategy']}, peak {format_nbytes(planned)} with the idle process")
    passes = fit.answer["pass_seconds"]
    print(f"passes      {len(passes)} of {format_seconds(sum(passes) / len(passes))} on average")
    print(f"ratio       {certificate['ratio']:.4f} x PCA's loss")


def _told(watched: Watched) -> str:
    if watched.answer is None:
        return f"failed: {watched.failure}"
    return f"{format_seconds(watched.answer['seconds'])}, peak {format_nbytes(watched.caller_nbytes)} resident"


if __name__ == "__main__":
    main()
