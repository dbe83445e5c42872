"""Genotypes as PLINK 1 writes them: 400 simulated samples of three populations by 500 variants, .bed, .bim and .fam.

Allele frequencies of the populations drift by the model of Balding and Nichols (1995). One call in fifty is missing.
Every fifth sample is held out. The same seed gives the same genotypes.

    python pipelines/data/raw_genotypes.py      # writes made/cohort.bed and made/cohort_new.bed beside this file
"""

from pathlib import Path

import numpy as np
import numpy.typing as npt

MADE = Path(__file__).parent / "made"

CODES = np.array([0b11, 0b10, 0b00, 0b01], dtype=np.uint8)
"""Two bits of a call: no allele A1, one, two, missing."""


def simulate(n_samples: int = 400, n_variants: int = 500, seed: int = 0) -> npt.NDArray[np.int8]:
    """Copies of allele A1 (samples, variants); 3 for a missing call. Populations follow each other in turn."""
    rng = np.random.default_rng(seed)
    ancestral = rng.uniform(0.1, 0.9, n_variants)
    frequency = rng.beta(9 * ancestral, 9 * (1 - ancestral), size=(3, n_variants))
    calls = rng.binomial(2, frequency[np.arange(n_samples) % 3]).astype(np.int8)
    calls[rng.random(calls.shape) < 0.02] = 3
    return calls


def write_bed(path: Path, calls: npt.NDArray[np.int8]) -> None:
    """Write a .bed file, variant by variant, four calls a byte, with the two text files beside it."""
    n_samples, n_variants = calls.shape
    padded = np.zeros((n_variants, -(-n_samples // 4) * 4), dtype=np.uint8)
    padded[:, :n_samples] = CODES[calls.T]
    packed = (padded.reshape(n_variants, -1, 4) << np.array([0, 2, 4, 6], dtype=np.uint8)).sum(axis=2, dtype=np.uint8)
    path.write_bytes(b"\x6c\x1b\x01" + packed.tobytes())
    variants = (f"1\trs{number}\t0\t{1000 + number}\tA\tG\n" for number in range(n_variants))
    path.with_suffix(".bim").write_text("".join(variants))
    path.with_suffix(".fam").write_text("".join(f"f{number} s{number} 0 0 0 -9\n" for number in range(n_samples)))


def make(folder: Path = MADE) -> None:
    """Write the samples to fit and those held out."""
    calls = simulate()
    held_out = np.arange(len(calls)) % 5 == 0
    folder.mkdir(parents=True, exist_ok=True)
    for name, chosen in (("cohort.bed", ~held_out), ("cohort_new.bed", held_out)):
        write_bed(folder / name, calls[chosen])


if __name__ == "__main__":
    make()
