"""Genotypes as a Zarr dataset in the order of sgkit, variants by samples: 0, 1 or 2 copies as int8, -1 if not called.

Simulated: four populations whose allele frequencies drift from those of their ancestors by the model of Balding and
Nichols (1995), with a fixation index of 0.1, which is about that between continents. Variants of a block of ten are
inherited together: each chromosome of a sample copies the block from one of twelve founders of its population. One call
in fifty is missing. The same seed gives the same genotypes.

    python pipelines/data/genetics.py           # writes made/genotypes.zarr, genotypes_new.zarr beside this file

D. J. Balding and R. A. Nichols, *A method for quantifying differentiation between populations at multi-allelic loci*,
Genetica 96 (1995), 3-12.
"""

from pathlib import Path

import numpy as np
import xarray as xr

MADE = Path(__file__).parent / "made"

POPULATIONS = ("north", "east", "south", "west")

FIXATION = 0.1
"""F_ST, the share of the variance of allele frequencies that lies between populations."""


def simulate(n_samples: int = 600, n_variants: int = 600, block: int = 10, seed: int = 0) -> xr.Dataset:
    """Genotypes of samples of four populations in turn.

    Parameters
    ----------
    n_samples, n_variants : int
        How many.
    block : int
        Neighbouring variants that are inherited together; divides ``n_variants``.
    seed : int
        Of the random numbers.

    Returns
    -------
    Dataset
        ``call_dosage`` (variants, samples) of int8; the coordinates are ids, and the population of each sample.
    """
    rng = np.random.default_rng(seed)
    n_blocks, n_founders = n_variants // block, 12
    ancestral = rng.uniform(0.1, 0.9, n_variants)
    a, b = (p * (1 - FIXATION) / FIXATION for p in (ancestral, 1 - ancestral))
    frequency = rng.beta(a, b, size=(len(POPULATIONS), n_variants))
    founders = rng.random((len(POPULATIONS), n_founders, n_variants)) < frequency[:, None, :]
    population = np.arange(n_samples) % len(POPULATIONS)
    copied = rng.integers(n_founders, size=(2, n_samples, n_blocks)).repeat(block, axis=2)
    chromosomes = founders[population[:, None], copied, np.arange(n_variants)]
    dosage = chromosomes.sum(axis=0, dtype=np.int8)
    dosage[rng.random(dosage.shape) < 0.02] = -1
    return xr.Dataset(
        {"call_dosage": (("variants", "samples"), np.ascontiguousarray(dosage.T))},
        coords={
            "variants": [f"rs{1000 + number}" for number in range(n_variants)],
            "samples": [f"S{number:04d}" for number in range(n_samples)],
            "population": ("samples", np.array(POPULATIONS)[population]),
        },
    )


def make(folder: Path = MADE) -> None:
    """Write the samples to fit, and every fifth, which is held out."""
    genotypes = simulate()
    held_out = np.arange(genotypes.sizes["samples"]) % 5 == 0
    folder.mkdir(parents=True, exist_ok=True)
    for name, chosen in (("genotypes.zarr", ~held_out), ("genotypes_new.zarr", held_out)):
        genotypes.isel(samples=chosen).to_zarr(folder / name, mode="w", zarr_format=2)


if __name__ == "__main__":
    make()
