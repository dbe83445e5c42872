"""Names of the kinds of data that can be read as a matrix, and checks that hold for all of them."""

import math
from glob import glob
from pathlib import Path
from typing import Any

import numpy as np

from spae_dask.errors import InvalidInput, NotNumbers

STORED = (
    "a Zarr array or group (CSR, AnnData, VCF), an .npy, .h5ad, .h5, .bed, .pgen or Arrow file, or a Parquet file or "
    "folder"
)
"""Data at a path or a URL."""

COMPANIONS = {".bed": (".bim", ".fam"), ".pgen": (".pvar", ".psam")}
"""Ends of the names of genotype files, and of the files beside them: of their variants, and of their samples."""

HDF5 = (".h5ad", ".h5mu", ".h5", ".hdf5")
"""Ends of the names of HDF5 files."""

NETCDF = (".nc", ".nc4", ".cdf", ".netcdf")
GRIB = (".grib", ".grb", ".grib2", ".grb2")
"""Ends of the names of files that hold grids."""

METADATA = ("zarr.json", ".zgroup", ".zarray")
"""Files that make a folder a store of Zarr."""

UNREAD = {
    (".mtx", ".mtx.gz"): "Read its folder with scanpy.read_10x_mtx(folder), and write it with .write_h5ad(...)",
    (".loom",): "It holds genes in rows. Read it with anndata.io.read_loom(path), and write it with .write_h5ad(...)",
    (".rds",): "Write the object as .h5ad in R, with the package anndataR",
    (".vcf", ".vcf.gz", ".bcf"): "Convert it to VCF Zarr once: vcf2zarr convert x.vcf.gz x.vcz (of bio2zarr)",
    (".bgen",): "Convert it once: plink2 --bgen x.bgen ref-first --make-pgen --out x",
    (".tif", ".tiff"): "Open it with rioxarray.open_rasterio(path), and fit a GridEncoder",
    GRIB: "Open it with xarray in Python, with cfgrib as its engine, and fit a GridEncoder",
    (".npz",): "Load it with scipy.sparse.load_npz(path) or numpy.load(path), and give the matrix in Python",
    (".mat",): "Load it with scipy.io.loadmat(path), and give the matrix in Python, or write it as .npy",
    (".xlsx", ".xls", ".ods"): "Save the table as .csv",
    (".pkl", ".pickle"): "Pickles run code when they are loaded. Write the matrix as .npy or Zarr",
}
"""Ends of the names of files that are not read, and the way from each to one that is."""

READABLE = (
    f"the path or URL of {STORED}; or a zarr.Array, AnnData object, numpy array, scipy.sparse matrix, "
    "DataFrame, dask array or xarray.DataArray of two dimensions"
)
"""Everything that is read as a matrix."""

MAX_BLOCKS = 1 << 24
"""Row blocks of an array: their bounds are listed in memory. Blocks are of 16 MiB or more, so this is 256 TiB."""

MAX_LENGTH = (1 << 63) - 1
"""Largest length of an axis that indices can count."""

MAX_SPARSE_ROWS = 1 << 34
"""Rows of a sparse matrix, whose pointers are read before its entries: 128 GiB of them."""


MAX_OBJECTS = 1 << 28
"""Chunks, or shards, of an array: which of them are stored takes a bit for each, 32 MiB in all, in every task."""


def within_hdf5(path: str) -> tuple[str, str] | None:
    """The HDF5 file that a path leads to or into, and the rest of the path inside; None if there is none.

    ``cells.h5mu/mod/rna`` is the member ``mod/rna`` of a file, as it is of a Zarr store.
    """
    place = Path(path)
    for each in (place, *place.parents):
        if each.name.lower().endswith(HDF5) and not each.is_dir():
            return str(each), place.relative_to(each).as_posix() if each != place else ""
    return None


def refuse_unread(path: str) -> None:
    """Refuse a file of a format that is not read, with the way to one that is.

    Raises
    ------
    InvalidInput
        If its name ends as one of `UNREAD`.
    """
    for ends, advice in UNREAD.items():
        if path.lower().endswith(ends):
            raise InvalidInput(f"{path} is of a format that is not read. {advice}.")


def grid_files(path: str) -> tuple[str, ...] | None:
    """Files of grids that a pattern of names matches, or that are in a folder, in the order of the numbers in names.

    None if the path is one of a file or a store. Metadata tell a store, whose folder may have millions of files.
    """
    place = Path(path)
    if place.is_dir():
        if any((place / name).exists() for name in METADATA):
            return None
        found = [str(each) for each in place.iterdir() if each.suffix.lower() in NETCDF]
    elif not place.exists() and any(each in path for each in "*?["):
        found = [each for each in glob(path, recursive=True) if Path(each).suffix.lower() in (*NETCDF, ".zarr")]
    else:
        return None
    from dask.utils import natural_sort_key

    return tuple(sorted(found, key=natural_sort_key)) or None


def many_files(path: str) -> InvalidInput | None:
    """The error for a local path that leads to nothing readable, if it is a pattern of names or a folder of GRIB."""
    folder = Path(path)
    if folder.is_dir():
        if not any(each.suffix.lower() in GRIB for each in folder.iterdir()):
            return None
        return InvalidInput(
            f"{path} is a folder of GRIB files, which are not read. Open them in Python with xarray and cfgrib, and "
            "fit a GridEncoder. Or write that dataset as Zarr with .to_zarr(...)."
        )
    if not folder.exists() and any(each in path for each in "*?["):
        return InvalidInput(
            f"{path} is a pattern of names that no grid matches. Only files of grids ({', '.join(NETCDF)}, .zarr) are "
            "read together. Give one file, store or folder."
        )
    return None


def check_objects(grid: tuple[int, ...], name: str) -> None:
    """Refuse an array of more chunks than can be kept track of: no listing of them would ever end."""
    if math.prod(grid) > MAX_OBJECTS:
        raise InvalidInput(
            f"the metadata of {name} declare {math.prod(grid):,} chunks, but at most {MAX_OBJECTS:,} are "
            "allowed. Restore damaged metadata, or write the data in larger chunks or in shards."
        )


def check_blocks(shape: tuple[int, int], rows_per_block: int, name: str) -> None:
    """Refuse an array of a shape that can only be damage, before anything is made of its length."""
    n_blocks = -(-shape[0] // rows_per_block)
    if max(shape) > MAX_LENGTH or n_blocks > MAX_BLOCKS:
        raise InvalidInput(
            f"the metadata of {name} declare the shape {shape}, which makes {n_blocks:,} row blocks, but at "
            f"most {MAX_BLOCKS:,} are allowed. Restore damaged metadata, or write the data in larger chunks."
        )


def check_two_dimensional(ndim: int, shape: tuple[int, ...], name: str) -> None:
    """Refuse anything but a matrix."""
    if ndim != 2:
        raise InvalidInput(
            f"{name} has {ndim} dimension(s), shape {tuple(shape)}. Expected 2D array: rows are samples, columns are "
            "features. Reshape your data: one sample is x.reshape(1, -1), one feature is x.reshape(-1, 1)."
        )


def check_real(dtype: np.dtype[Any], name: str) -> None:
    """Refuse types that are not real numbers."""
    if dtype.kind == "c":
        raise InvalidInput(f"{name} is {dtype}. Complex data not supported: give real and imaginary parts as columns.")
    if dtype.kind not in "fiub":
        raise NotNumbers(
            f"{name} holds {dtype}, not numbers. Allowed are floats, integers and booleans of any size: "
            "convert or drop the columns that are not numeric."
        )
