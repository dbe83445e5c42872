"""Cohorts for tests, in the formats of genotypes; real libraries write .bed and .pgen files."""

import warnings
from pathlib import Path
from typing import Any

import bed_reader
import numpy as np
import pgenlib
import zarr
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def dosages(n: int = 203, d: int = 40, seed: int = 0, missing: float = 0.03) -> Floats:
    """Numbers of alleles (samples, variants) of three populations, NaN where a call is missing."""
    rng = np.random.default_rng(seed)
    shares = rng.uniform(0.05, 0.95, (3, d))
    calls = rng.binomial(2, shares[rng.integers(0, 3, n)]).astype(float)
    calls[rng.random((n, d)) < missing] = np.nan
    return calls


def names(d: int) -> tuple[str, ...]:
    """Ids of variants."""
    return tuple(f"rs{variant}" for variant in range(d))


def write_bed(path: Path, calls: Floats) -> Path:
    """By bed-reader, with the .bim and .fam files beside it."""
    n, d = calls.shape
    properties = {"sid": list(names(d)), "iid": [f"s{i}" for i in range(n)]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        bed_reader.to_bed(path, np.ascontiguousarray(calls), properties=properties)
    return path


def write_pgen(path: Path, calls: Floats, written: str = "hard calls") -> Path:
    """By pgenlib, with .pvar and .psam files beside it."""
    n, d = calls.shape
    hard, fractions = np.where(np.isnan(calls), -9, calls).T, written != "hard calls"
    with pgenlib.PgenWriter(bytes(path), n, variant_ct=d, nonref_flags=False, dosage_present=fractions) as file:
        for variant in hard:
            if fractions:
                file.append_dosages(variant.astype(np.float32))
            else:
                file.append_biallelic(variant.astype(np.int8))
    lines = [f"1\t{place + 1}\t{name}\tA\tC" for place, name in enumerate(names(d))]
    beside(path, ".pvar", ["##fileformat=VCFv4.2", "#CHROM\tPOS\tID\tREF\tALT", *lines])
    beside(path, ".psam", ["#IID\tSEX", *(f"s{i}\tNA" for i in range(n))])
    return path


def beside(path: Path, end: str, lines: list[str]) -> None:
    """Write a file of lines beside another."""
    path.with_suffix(end).write_text("".join(f"{line}\n" for line in lines))


def alleles_of(calls: Floats) -> NDArray[np.int8]:
    """Diploid alleles (variants, samples, 2) with these sums."""
    first, second = (calls.T >= 1).astype(np.int8), (calls.T == 2).astype(np.int8)
    both = np.stack([second, first], axis=-1)
    both[np.isnan(calls.T)] = -1
    return both


def write_vcf(path: Path, alleles: NDArray[np.int8], zarr_format: Any = 3, **options: Any) -> Path:
    """A group in the layout that bio2zarr writes, as far as it matters here."""
    d, n, _ = alleles.shape
    group = zarr.open_group(path, mode="w", zarr_format=zarr_format)
    dimensions = ["variants", "samples", "ploidy"]
    calls = group.create_array("call_genotype", data=alleles, **options)
    calls.attrs["_ARRAY_DIMENSIONS"] = dimensions
    mask = group.create_array("call_genotype_mask", data=alleles < 0)
    mask.attrs["_ARRAY_DIMENSIONS"] = dimensions
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # format 3 does not settle how texts are stored
        group.create_array("variant_id", data=np.array(names(d), dtype="T"))
        group.create_array("sample_id", data=np.array([f"s{i}" for i in range(n)], dtype="T"))
        group.create_array("contig_id", data=np.array(["1", "X"], dtype="T"))
    group.create_array("variant_contig", data=np.zeros(d, np.int8))
    group.create_array("variant_position", data=np.arange(1, d + 1, dtype=np.int32))
    return path
