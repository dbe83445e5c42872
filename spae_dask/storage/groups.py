"""Choice of a matrix in a group: a member of a plain group or of an AnnData store, or the group itself.

Groups are Zarr's or h5py's, which are asked alike; a member that has a shape is an array.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import zarr

from spae_dask.blocks import RowBlocks, remember
from spae_dask.errors import InvalidInput, NotFound
from spae_dask.storage.artifacts.artifact import FORMAT as ENCODER
from spae_dask.storage.bounded import bounded
from spae_dask.storage.checks import refuse_code
from spae_dask.storage.conditions import INDEX
from spae_dask.storage.masks import Mask, find_mask, logged_by, refuse_mask, under_mask
from spae_dask.storage.sources.compressed_blocks import shape_of
from spae_dask.storage.sources.csc_blocks import CscBlocks
from spae_dask.storage.sources.csr_blocks import CsrBlocks

SPARSE = (CsrBlocks.encoding, CscBlocks.encoding)
"""Encodings of a group that is a single sparse matrix, as AnnData writes them."""

LEVELS = "__categories"
"""Member of ``obs`` and ``var`` that held the levels of labels before anndata 0.8."""

CALLS = "call_genotype"
"""Member of a VCF Zarr group that holds the genotypes: variants, samples, alleles."""


@dataclass(frozen=True, eq=False)
class Member:
    """Chosen member of a group.

    Attributes
    ----------
    node : zarr.Array, zarr.Group, h5py.Dataset or h5py.Group
        An array, or a group that is a sparse matrix.
    name : str
        Name of the member in messages.
    feature_names : tuple of str, optional
        Names of the columns, where they are stored beside it.
    mask : Mask, optional
        Mask of the columns to use; None for all.
    logged : str, optional
        Entry of the store that says that the matrix holds logarithms.
    is_grid : bool
        True for a group that is a dataset of which a grid is meant: xarray opens it by its path.
    """

    node: Any
    name: str
    feature_names: tuple[str, ...] | None = None
    mask: Mask | None = None
    logged: str | None = None
    is_grid: bool = False

    def chosen(self, blocks: RowBlocks) -> RowBlocks:
        """The columns that are used of its row blocks."""
        return remember(under_mask(blocks, self.mask), logged=self.logged)


def choose_member(group: Any, array: str | None, name: str, mask: str | None = None) -> Member:
    """The matrix meant by a group and, perhaps, the path of a member such as ``layers/counts``.

    ``mask`` is as for ``open_matrix``.

    Raises
    ------
    NotFound
        If there is no such member, or it is no matrix.
    InvalidInput
        If no array was named, and a plain group holds not exactly one two-dimensional array; or it has no such mask.
    """
    if array is None and _is_sparse(group):
        refuse_mask(mask, name)
        return Member(group, name)
    vcf = is_vcf(group)
    if vcf and array in (None, CALLS):
        refuse_mask(mask, name)
        return Member(group[CALLS], f"{name}/{CALLS}", _names_of_variants(group))
    if _is_anndata(group):
        node = _matrix_at(group, array or "X")
        if node is None:
            _refuse_dangling(group, array or "X", name)
            has = ", ".join(_matrices(group)) or "none"
            raise NotFound(f"the AnnData store {name} has no matrix {array or 'X'!r}; it has {has}.")
        path = array or "X"
        chosen = _mask_of_var(group, node, path, mask, name)
        logged = logged_by(path, group.get("uns"))
        return Member(node, f"{name}/{path}", _names_of_var(group, node, path), chosen, logged)
    arrays = {key: child for key in sorted(group) if is_array(child := group[key])}
    grids = {} if vcf or group.attrs.get("format") == ENCODER else named_grids(arrays)
    if array in grids or (array is None and grids):
        return Member(group, name, is_grid=True)
    refuse_mask(mask, name)
    if array is not None:
        node = _matrix_at(group, array)
        if node is None:
            raise NotFound(f"the group {name} has no array {array!r}; it has {_listed(arrays)}.")
        return Member(node, f"{name}/{array}" if _is_sparse(node) else name)
    if group.attrs.get("format") == ENCODER:
        raise InvalidInput(f"{name} is an encoder, not data. Give the data, or name an array of it with array=NAME.")
    matrices = [node for node in arrays.values() if len(node.shape) == 2]
    if len(matrices) == 1:
        return Member(matrices[0], name)
    if not arrays and (stores := _stores_below(group)):
        raise InvalidInput(
            f"{name} is no matrix, but holds AnnData stores. Give the path of one: "
            f"{', '.join(f'{name}/{each}' for each in stores)}."
        )
    raise InvalidInput(
        f"{name} is a group with {len(matrices)} two-dimensional arrays; it has {_listed(arrays)}. "
        f"Name one with array=NAME (--array NAME)."
    )


def refuse_grid(member: Member) -> None:
    """Refuse a grid of a group that was given as an object, or inside a file.

    Raises
    ------
    InvalidInput
        If it is one.
    """
    if member.is_grid:
        grids = named_grids({key: child for key in sorted(member.node) if is_array(child := member.node[key])})
        raise InvalidInput(
            f"{member.name} holds grids, not a matrix: {_listed(grids)}. Give its path, which is opened as a dataset, "
            "or open it with xarray and fit a GridEncoder. Or name a two-dimensional array of it: array=NAME (--array "
            "NAME)."
        )


def open_sparse_group(member: Member, kept: Callable[[Any], Any] | None = None) -> RowBlocks:
    """Row blocks of a group that is a sparse matrix; ``kept`` as for `CompressedBlocks.opened`.

    Raises
    ------
    InvalidInput
        If it is damaged.
    """
    kind = CscBlocks if _encoding(member.node) == CscBlocks.encoding else CsrBlocks
    return member.chosen(kind.opened(member.node, member.name, member.feature_names, kept))


def named_grids(arrays: Mapping[str, Any]) -> dict[str, Any]:
    """The arrays of more than two dimensions among those of a dataset, as xarray and netCDF write it; else none.

    In a dataset all arrays name their dimensions, and one of two dimensions is bounds, coordinates or areas of cells
    more often than data.
    """
    if not all(_names_dimensions(node) for node in arrays.values() if len(node.shape) > 0):
        return {}
    return {key: node for key, node in arrays.items() if len(node.shape) > 2}


def means_grid(group: Any, array: str | None) -> bool:
    """Return True if a group is a dataset, as xarray and netCDF write it, and a grid of it is meant."""
    if _is_anndata(group) or _is_sparse(group) or is_vcf(group) or group.attrs.get("format") == ENCODER:
        return False
    grids = named_grids({key: child for key in group if is_array(child := group[key])})
    return bool(grids) if array is None else array in grids


def _names_dimensions(node: Any) -> bool:
    in_attributes = any(each in node.attrs for each in ("_ARRAY_DIMENSIONS", "DIMENSION_LIST", "CLASS"))
    return in_attributes or bool(getattr(getattr(node, "metadata", None), "dimension_names", None))


def is_vcf(group: Any) -> bool:
    """Return True if a group holds genotypes in the layout of VCF Zarr, as bio2zarr and sgkit write it."""
    return is_calls(group.get(CALLS))


def is_calls(node: Any) -> bool:
    """Return True if a member of a group is the genotypes of VCF Zarr: alleles of variants and samples."""
    return (
        isinstance(node, zarr.Array)
        and node.basename == CALLS
        and node.ndim == 3
        and node.shape[2] > 0
        and np.dtype(node.dtype).kind == "i"
    )


def name_of_variant(given: str, chromosome: object, position: object) -> str:
    """Name of a variant: its id, or chromosome and position if it has none (``.``)."""
    return f"{chromosome}:{position}" if given in (".", "") else given


def _names_of_variants(group: Any) -> tuple[str, ...] | None:
    """Names of the variants of a VCF Zarr group; None if it has no ids."""
    n_variants = (group[CALLS].shape[0],)
    ids, contigs, places = (_column(group, f"variant_{each}") for each in ("id", "contig", "position"))
    if ids is None or ids.shape != n_variants:
        return None
    names = [text_of(each) for each in ids]
    chromosomes = _column(group, "contig_id")
    if chromosomes is None or any(each is None or each.shape != n_variants for each in (contigs, places)):
        return tuple(names)
    found = zip(names, contigs, places, strict=True)
    return tuple(name_of_variant(name, text_of(chromosomes[contig]), place) for name, contig, place in found)


def _column(group: Any, name: str) -> Any:
    """An array of one dimension of a group, read whole; None if there is none."""
    node = group.get(name)
    if not is_array(node) or node.ndim != 1:
        return None
    refuse_code(node, name)
    return np.asarray(bounded(node)[:])


def of_anndata(node: Any) -> bool:
    """Return True if a node is the group of an AnnData store."""
    return _is_group(node) and _is_anndata(node)


def obs_column(root: Any, name: str, called: str) -> Any:
    """A column of the ``obs`` of an AnnData store: numbers, or texts in which None is missing.

    Before anndata 0.7, ``obs`` was one array of records, and levels of labels were kept elsewhere.

    Raises
    ------
    NotFound
        If there is no such column. The message lists those that there are.
    InvalidInput
        If it holds something else than numbers and labels.
    """
    names, column_of = _columns_of(root, "obs", called)
    if name not in names:
        has = ", ".join(each for each in names if not each.startswith("_")) or "none"
        raise NotFound(f"{called} has no column {name!r} in obs; it has {has}.")
    column = column_of(name)
    if isinstance(column, str):
        raise InvalidInput(f"{name} in obs of {called} is a {column}, and neither numbers nor labels.")
    return column.numbers_or_texts()


def is_array(node: Any) -> bool:
    """Return True if a member of a group is an array."""
    return hasattr(node, "shape")


def _is_group(node: Any) -> bool:
    return hasattr(node, "attrs") and not is_array(node)


def _is_anndata(group: Any) -> bool:
    """Return True if a group is an AnnData store. Before anndata 0.8 only its members told."""
    return group.attrs.get("encoding-type") == "anndata" or all(key in group for key in ("X", "obs", "var"))


def _stores_below(group: Any) -> list[str]:
    """Paths of the AnnData stores in a group of groups, as MuData (``mod/rna``) and SpatialData (``tables/t``) have."""
    outer = {key: node for key in sorted(group) if _is_group(node := group[key])}
    inner = {f"{key}/{name}": node[name] for key, node in outer.items() for name in sorted(node)}
    return [path for path, node in (outer | inner).items() if of_anndata(node)]


def _encoding(group: Any) -> str | None:
    """Encoding of a sparse matrix, as anndata writes it, and as it did before 0.7: ``csr``."""
    former = group.attrs.get("h5sparse_format")
    encoding: str | None = f"{text_of(former)}_matrix" if former is not None else group.attrs.get("encoding-type")
    return encoding


def _is_sparse(node: Any) -> bool:
    return _is_group(node) and _encoding(node) in SPARSE


def _matrix_at(group: Any, path: str) -> Any:
    """An array or a sparse matrix below a group; None if there is nothing, or something else."""
    node = group.get(path)
    return node if is_array(node) or _is_sparse(node) else None


def _refuse_dangling(group: Any, path: str, name: str) -> None:
    """Tell a link of an HDF5 file that points to nothing from a member that was never there."""
    if path in group and group.get(path) is None:
        link = group.get(path, getlink=True)
        raise NotFound(
            f"{name} has a member {path!r}, but it is a link to "
            f"{getattr(link, 'path', '?')!r}{f' in {link.filename!r}' if hasattr(link, 'filename') else ''}, "
            "which does not exist. Put that file where the link points, or copy the matrix into this file."
        )


def _listed(arrays: Mapping[str, Any]) -> str:
    return ", ".join(f"{key} {node.shape} {node.dtype}" for key, node in arrays.items()) or "no arrays"


def _matrices(root: Any) -> list[str]:
    """Paths of the matrices of an AnnData store with a column for every variable."""
    layers, raw = root.get("layers"), root.get("raw")
    inner = sorted(f"layers/{key}" for key in layers) if _is_group(layers) else []
    raws = ["raw/X"] if _is_group(raw) and "X" in raw else ["raw.X"] if "raw.X" in root else []
    return [*(["X"] if "X" in root else []), *inner, *raws]


def _names_of_var(root: Any, matrix: Any, path: str) -> tuple[str, ...] | None:
    """The index of ``var``, whose attribute ``_index`` says which of its columns that is, if it fits the matrix.

    Before anndata 0.7, ``var`` was one array of records, whose index came first.
    """
    shape = matrix.shape if is_array(matrix) else shape_of(matrix)
    var = root.get(_path_of_var(path))
    if shape is None or len(shape) != 2:
        return None
    if is_array(var) and var.dtype.names and var.shape == (shape[1],):
        return tuple(text_of(each) for each in np.asarray(bounded(var)[:])[var.dtype.names[0]])
    if not _is_group(var):
        return None
    column = var.get(text_of(var.attrs.get("_index", "_index")))
    if _is_group(column) and column.attrs.get("encoding-type") == "nullable-string-array":
        column = column.get("values")
    if not is_array(column) or column.shape != (shape[1],):
        return None
    refuse_code(column, f"the names of the columns of {path}")
    return tuple(text_of(each) for each in np.asarray(bounded(column)[:]))


def _path_of_var(path: str) -> str:
    return {"raw/": "raw/var", "raw.": "raw.var"}.get(path[:4], "var")


def _mask_of_var(root: Any, matrix: Any, path: str, mask: str | None, name: str) -> Mask | None:
    """The mask that is asked for, a column of the ``var`` of a matrix."""
    shape = matrix.shape if is_array(matrix) else shape_of(matrix)
    if shape is None or len(shape) != 2:
        return None  # it is refused as no matrix
    names, read = table_of(root, _path_of_var(path), name)
    return find_mask(mask, _path_of_var(path), names, read, shape[1], name)


def table_of(root: Any, path: str, name: str) -> tuple[list[str], Callable[[str], Any]]:
    """Columns of ``obs`` or ``var``, and the function that reads one, or the names of the rows, of an AnnData store."""
    names, column_of = _columns_of(root, path, name)

    def read(column: str) -> Any:
        found = column_of(column)
        return np.asarray(found) if isinstance(found, str) else found.plain()  # which the error reports

    return names, read


@dataclass(frozen=True, eq=False)
class _Column:
    """A column of ``obs`` or ``var``.

    Attributes
    ----------
    values : ndarray (n,)
        Values, or places among the levels, of which those that are missing are negative.
    levels : ndarray, optional
        Levels of labels.
    absent : ndarray (n,) of bool, optional
        Entries of a column of a type for missing values that have none.
    """

    values: Any
    levels: Any = None
    absent: Any = None

    def plain(self) -> Any:
        """Values of their own types; None is missing."""
        if self.levels is not None:
            return self._chosen(self.levels)
        if self.absent is None or not self.absent.any():
            return self.values
        values = self.values.astype(object)
        values[self.absent] = None
        return values

    def numbers_or_texts(self) -> Any:
        """Numbers, of which NaN is missing, or texts, of which None is; labels are texts."""
        if self.levels is not None:
            texts = self.levels if self.levels.dtype.kind in "fiub" else map(text_of, self.levels)
            return self._chosen(np.array([str(each) for each in texts], dtype=object))
        if self.values.dtype.kind in "fiub":
            return self.values if self.absent is None else np.where(self.absent, np.nan, self.values.astype(np.float64))
        texts = np.array([text_of(each) for each in self.values], dtype=object)
        if self.absent is not None:
            texts[self.absent] = None
        return texts

    def _chosen(self, levels: Any) -> Any:
        values = np.full(self.values.shape, None, dtype=object)
        known = self.values >= 0
        values[known] = levels[self.values[known]]
        return values


def _columns_of(root: Any, path: str, name: str) -> tuple[list[str], Callable[[str], _Column | str]]:
    """Columns of ``obs`` or ``var``, and the function that reads one; of other kinds it returns the encoding.

    Before anndata 0.7 a table was one array of records, whose index came first, and levels were in ``uns``; before 0.8
    they were in `LEVELS`.
    """
    table = root.get(path)
    if is_array(table) and table.dtype.names:
        records, fields = np.asarray(bounded(table)[:]), tuple(table.dtype.names)

        def of_records(column: str) -> _Column | str:
            column = column if column in fields else fields[0]
            return _labelled(records[column], root.get(f"uns/{column}_categories"), f"{column} in {path} of {name}")

        return list(fields), of_records

    members = sorted(table) if _is_group(table) else []

    def of_group(column: str) -> _Column | str:
        stored = column if column in table or column != INDEX else text_of(table.attrs.get("_index", "_index"))
        node, told = table[stored], f"{column} in {path} of {name}"
        if is_array(node):
            levels = table.get(f"{LEVELS}/{stored}") if LEVELS in members else None
            return _labelled(_whole(node, told), levels, told) if node.ndim else "scalar"
        encoding = str(_encoding(node))
        if encoding == "categorical":
            return _labelled(_whole(node["codes"], told), node["categories"], told)
        if encoding.startswith("nullable") and "values" in node:
            return _Column(_whole(node["values"], told), None, _whole(node["mask"], told).astype(bool))
        return encoding

    return members, of_group


def _labelled(values: Any, levels: Any, name: str) -> _Column:
    """A column of places among levels, which may be an array, or a group that holds one; of values without levels."""
    if levels is None:
        return _Column(values)
    found = _whole(levels if is_array(levels) else levels["values"], name)
    if values.size and int(values.max()) >= len(found):
        raise InvalidInput(f"{name} is damaged: it has categories that are not stored. Write it again.")
    return _Column(values, found)


def _whole(node: Any, name: str) -> Any:
    refuse_code(node, name)
    return np.asarray(bounded(node)[:])


def text_of(value: Any) -> str:
    """A text of a store, which may be of bytes."""
    return value.decode() if isinstance(value, bytes) else str(value)
