"""Genotypes as PLINK 1 and 2 store them: ``.bed`` and ``.pgen`` files, and the text files beside them.

Rows are samples and columns are variants, named by their ids. Missing calls are NaN.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import numpy.typing as npt

from spae_dask.blocks import RowBlocks
from spae_dask.errors import InvalidInput, NotFound, StorageError
from spae_dask.plain_files import beside, refuse_pipes
from spae_dask.storage.groups import name_of_variant
from spae_dask.storage.readable import COMPANIONS, check_blocks
from spae_dask.storage.sources.bed_blocks import BY_SAMPLE, BY_VARIANT, HEADER_NBYTES, MAGIC, BedBlocks, record_nbytes
from spae_dask.storage.sources.dosages import CALLED
from spae_dask.storage.sources.sentinel import SentinelBlocks
from spae_dask.storage.sources.variant_blocks import VariantBlocks

DOSAGES = "dosages"
"""Member of a ``.pgen`` file that holds dosages, not hard calls."""

BIM, FAM = ("CHROM", "ID", "CM", "POS", "ALT", "REF"), ("FID", "IID", "FATHER", "MOTHER", "SEX", "PHENO")
"""Columns of files without a header, by the names of PLINK 2."""


def companions(path: str) -> tuple[str, ...]:
    """Files that belong to a file of genotypes; none of any other file."""
    place = Path(path)
    return tuple(str(place.with_suffix(end)) for end in COMPANIONS.get(place.suffix, ()))


def open_genotypes(path: str, array: str | None, *, decode: bool) -> RowBlocks:
    """Samples by variants of a ``.bed`` or a ``.pgen`` file.

    Parameters
    ----------
    path : str
        The file.
    array : str, optional
        ``dosages`` for those of a ``.pgen`` file; hard calls if not given.
    decode : bool
        False to read a missing call as -1.

    Raises
    ------
    NotFound
        If the file does not exist, or one of those beside it.
    InvalidInput
        If it is another kind of file, or the files do not fit each other.
    StorageError
        If one of them is cut off or cannot be read.
    """
    where = str(Path(path).absolute())  # of links too: their targets may have other names
    for each in (path, *companions(path)):
        refuse_pipes(each)
        if not Path(each).is_file():
            told = f".{beside(each)}" if each == path else f", which {path} needs."
            others = " and ".join(COMPANIONS[Path(path).suffix])
            raise NotFound(
                f"there is no file {each}{told} Keep the {others} files beside the file of genotypes, "
                "under the same name."
            )
        if each.endswith(".bed"):
            _refuse_other_files(each)
    if array is not None and (array, Path(path).suffix) != (DOSAGES, ".pgen"):
        raise InvalidInput(
            f"array={array!r} names a member of a Zarr group, but {path} is a single matrix. Leave it out. "
            f"Only a .pgen file has a member, {DOSAGES!r}."
        )
    blocks = _open_bed(where) if where.endswith(".bed") else _open_pgen(where, dosages=array is not None)
    if 0 not in blocks.shape:  # or else it is refused as empty
        check_blocks(blocks.shape, blocks.rows_per_block, path)
    return SentinelBlocks(blocks, CALLED) if decode else replace(blocks, passed_over=tuple(CALLED.attributes or ()))


def _open_bed(path: str) -> VariantBlocks:
    of_variants, of_samples = companions(path)
    names, _ = _variants(of_variants)
    n = _n_samples(of_samples)
    nbytes, wanted = Path(path).stat().st_size, HEADER_NBYTES + len(names) * record_nbytes(n)
    if nbytes != wanted:
        raise StorageError(
            f"{path} has {nbytes:,} bytes, but {len(names):,} variants ({of_variants}) of {n:,} samples "
            f"({of_samples}) take {wanted:,}. The file is cut off, or these files do not belong together. Restore "
            "them from a copy."
        )
    return BedBlocks(path, (of_variants, of_samples), n, len(names), names)


def _refuse_other_files(path: str) -> None:
    """Look at the first three bytes of a ``.bed`` file."""
    with _reading(path), Path(path).open("rb") as file:
        start = file.read(HEADER_NBYTES)
    if start[:2] == MAGIC and start[2:] == BY_SAMPLE:
        raise InvalidInput(
            f"{path} is stored one sample after another, as PLINK before 1.0 wrote it. Convert it once: "
            "plink --bfile OLD --make-bed --out NEW."
        )
    if start != MAGIC + BY_VARIANT:
        raise InvalidInput(
            f"{path} is not a PLINK 1 .bed file of genotypes: it starts with the bytes {start.hex(' ') or '(none)'}, "
            f"not {(MAGIC + BY_VARIANT).hex(' ')}. A .bed file of genomic intervals holds no matrix."
        )


def _open_pgen(path: str, *, dosages: bool) -> VariantBlocks:
    if find_spec("pgenlib") is None:
        raise InvalidInput(f'{path} needs pgenlib, which is not installed. Run `pip install "spae-dask[genetics]"`.')
    from spae_dask.storage.sources.pgen_blocks import PgenBlocks, opened

    of_variants, of_samples = companions(path)
    names, n_alleles = _variants(of_variants)
    n = _n_samples(of_samples)
    try:
        with opened(path, n_alleles) as reader:
            found = reader.get_variant_ct(), reader.get_raw_sample_ct()
    except Exception as error:  # the library raises exceptions of any type
        raise InvalidInput(
            f"{path} cannot be read as a .pgen file: {_told(error)}. Restore it from a copy, or write it with PLINK 2."
        ) from error
    if found != (len(names), n):
        raise StorageError(
            f"{path} has {found[0]:,} variants of {found[1]:,} samples, but {of_variants} has {len(names):,} variants "
            f"and {of_samples} has {n:,} samples. These files do not belong together. Restore them from a copy."
        )
    return PgenBlocks(path, (of_variants, of_samples), n, len(names), names, n_alleles=n_alleles, dosages=dosages)


def _told(error: Exception) -> str:
    said = error.args[0] if error.args else error
    return (said.decode(errors="replace") if isinstance(said, bytes) else str(said)).strip().rstrip(".")


def _variants(path: str) -> tuple[tuple[str, ...], npt.NDArray[np.intp] | None]:
    """Names of all variants, and their numbers of alleles if any has more than two."""
    names, n_alleles = list[str](), list[int]()
    for name, chromosome, position, others in _fields(path, BIM, ("ID", "CHROM", "POS", "ALT")):
        names.append(name_of_variant(name, chromosome, position))
        n_alleles.append(2 + others.count(","))
    return tuple(names), np.array(n_alleles, np.intp) if max(n_alleles, default=2) > 2 else None


def _n_samples(path: str) -> int:
    return sum(1 for _ in _fields(path, FAM, ("IID",)))


def _fields(path: str, usual: Sequence[str], wanted: Sequence[str]) -> Iterator[list[str]]:
    """Some fields of each line of a text file; ``usual`` are the columns of a file without a header."""
    columns, places, last = list(usual), list[int](), 0
    try:
        with _reading(path), Path(path).open(encoding="utf-8") as file:
            for number, line in enumerate(file, start=1):
                if line.startswith("#") and not places:
                    columns = columns if line.startswith("##") else line[1:].split()
                elif line.strip():
                    if not places:
                        places = _places(columns, wanted, path)
                        last = max(places)
                    row = line.split(None, last + 1)
                    if len(row) <= last:
                        raise InvalidInput(
                            f"line {number} of {path} has {len(row)} fields, but {last + 1} or more are needed: "
                            f"{line[:80]!r}. Restore the file from a copy, or write it with PLINK."
                        )
                    yield [row[place] for place in places]
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{path} is not a text file ({error}). Write it with PLINK.") from error


def _places(columns: Sequence[str], wanted: Sequence[str], path: str) -> list[int]:
    lacking = [name for name in wanted if name not in columns]
    if lacking:
        raise InvalidInput(
            f"{path} has no column {', '.join(lacking)}; its header has {', '.join(columns)}. Write it with PLINK."
        )
    return [list(columns).index(name) for name in wanted]


@contextmanager
def _reading(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StorageError(
            f"{path} cannot be read: {error}. Check your permissions, or restore the file from a copy."
        ) from error
