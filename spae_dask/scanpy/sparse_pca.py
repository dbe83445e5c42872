"""One call: fit on the matrix of an AnnData object, and write codes, encoder and certificate into it."""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from spae_dask.blocks import LazyRowBlocks, RowBlocks
from spae_dask.errors import InvalidInput, OutputExists, warn
from spae_dask.estimators.applying import encode_rows, open_rows
from spae_dask.estimators.covariates import adjustment_of, named_values
from spae_dask.estimators.folds import FREQUENCIES
from spae_dask.estimators.record import parameters_of
from spae_dask.estimators.sparse_encoder import SparseEncoder
from spae_dask.flags import flags_checked
from spae_dask.maths.encoders.codes import RowEncoder
from spae_dask.passes.events import Event
from spae_dask.plain_files import listed
from spae_dask.storage.anndata_objects import column_of
from spae_dask.storage.conditions import is_condition
from spae_dask.storage.masks import ALL, DEFAULT, checked_mask, find_mask
from spae_dask.storage.open import is_anndata, open_matrix
from spae_dask.storage.sources.submatrix import chosen_columns
from spae_dask.strategies.certificate import LEADING
from spae_dask.strategies.held_out import HeldOut
from spae_dask.strategies.parameters import OF_ROWS, takes_parameters


class DefaultMask(Enum):
    """The mask that is used if none is given: this column of ``var``, if it is there."""

    HIGHLY_VARIABLE = DEFAULT.removeprefix("var/")


Mask: TypeAlias = "str | npt.NDArray[np.bool_] | DefaultMask | None"

ADVICE = "or mask_var=None to use all of them"


def chosen_genes(adata: Any, mask_var: Mask) -> tuple[npt.NDArray[np.bool_] | None, str | None]:
    """The mask (d,), None for all genes, and the column of ``var`` it was, if it was one."""
    if mask_var is None:
        return None, None
    if not isinstance(mask_var, str | DefaultMask):
        return checked_mask(mask_var, adata.n_vars, "the mask", ADVICE), None
    asked = None if isinstance(mask_var, DefaultMask) else mask_var if is_condition(mask_var) else f"var/{mask_var}"
    var, d = adata.var, adata.n_vars
    found = find_mask(asked, "var", list(var.columns), partial(column_of, var), d, "adata", ADVICE)
    return (None, None) if found is None else (found.chosen, found.name.removeprefix("var/"))


def mask_of(mask_var: Mask, use_highly_variable: bool | None) -> Mask:
    """The mask, which scanpy spelled ``use_highly_variable`` before."""
    if use_highly_variable is None:
        return mask_var
    if not isinstance(mask_var, DefaultMask):
        raise InvalidInput(
            f"use_highly_variable={use_highly_variable} and mask_var both choose the genes. Give mask_var alone."
        )
    wanted = DefaultMask.HIGHLY_VARIABLE.value if use_highly_variable else None
    warn(f"use_highly_variable={use_highly_variable} is an old name. Give mask_var={wanted!r}.")
    return wanted


def warn_of_unused(**given: Any) -> None:
    """Warn of arguments that scanpy's function takes and that change nothing here."""
    unused = [f"{name}={value!r}" for name, value in given.items() if value is not None and value is not False]
    if unused:
        warn(f"{listed(unused)}: sparse_pca ignores this. It reads any matrix once, in blocks, and has one solver.")


TOLD = (
    *LEADING,
    *("loss", "pca_loss", "loss_kind", "pca_loss_kind", "loss_error", "total", "bound", "theorem"),
    *("loss_lower", "loss_upper", "pca_loss_lower", "pca_loss_upper", "ratio_lower", "ratio_upper"),
    *("combined_nonzero", "passes", "bytes_read", "target_met"),
)
"""Fields of a certificate that are copied to ``uns``."""

ELSEWHERE = ("center", "memory_limit", "checkpoint", "progress", "random_state")
"""Parameters that concern the machine of the fit, or that are recorded under scanpy's names."""


def codes_of(rows: RowEncoder, source: RowBlocks, dtype: np.dtype[Any]) -> Any:
    """Codes (n, k) of all rows: lazy for dask arrays, else computed where the fit was."""
    if source.in_process:
        blocks = [rows.encode(source.read(number), start) for number, start in enumerate(source.bounds[:-1])]
        return np.concatenate(blocks).astype(dtype, copy=False)
    codes = encode_rows(source, rows).astype(dtype)
    return codes if isinstance(source, LazyRowBlocks) else codes.compute()


def summary_of(encoder: SparseEncoder, params: dict[str, Any]) -> dict[str, Any]:
    """Make the entries of ``uns``, of types that h5ad and Zarr files store; unknown values are left out."""
    certificate, n = encoder.certificate_, encoder.n_samples_seen_
    asked = {name: _in_words(value) for name, value in parameters_of(encoder).items() if name not in ELSEWHERE}
    curve = encoder.curve()
    summary = {
        **{name: getattr(certificate, name) for name in TOLD},
        "params": {**params, **asked, "random_state": encoder.seed_},
        "n_nonzero": (encoder.components_ != 0).sum(axis=1),
        "variance": encoder.explained_variance_ratio_ * certificate.total / max(1, n - 1),
        "variance_ratio": encoder.explained_variance_ratio_,
        "curve": None if curve is None else _columns(curve.records()),
        "held_out": None if certificate.held_out is None else _held_out(certificate.held_out),
    }
    kept: dict[str, Any] = _storable(summary)
    return kept


def _held_out(found: HeldOut) -> dict[str, Any]:
    """Losses on folds of the cells; the genes of their encoders are in ``var``."""
    losses = {name: np.asarray(getattr(found, name)) for name in ("n_rows", "losses", "pca_losses", "totals")}
    of_all = {"ratio": found.ratio, "ratio_error": found.ratio_error, "folds": found.folds}
    drawn = found.bootstraps
    resamples = None if drawn is None else {"ratio": drawn.ratio, "ratios": drawn.ratios, "band": drawn.band}
    sizes = _columns([asdict(size) for size in found.sizes])
    return {**of_all, **losses, "sizes": sizes, "bootstraps": resamples}


def _columns(records: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The fields of some records that all of them have, as arrays."""
    known = [name for name in records[0] if all(record[name] is not None for record in records)]
    return {name: np.asarray([record[name] for record in records]) for name in known}


def _storable(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _storable(each) for name, each in value.items() if each is not None}
    return np.asarray(value) if isinstance(value, list | tuple) else value


def _in_words(value: Any) -> Any:
    """Values by name as a text, since a name may be no key of a file."""
    return listed(f"{name}={each}" for name, each in value.items()) if isinstance(value, dict) else value


def check_target(adata: Any, copy: bool) -> None:
    """Refuse what results cannot be written to, before anything is read."""
    if not is_anndata(adata):
        raise InvalidInput(
            "sparse_pca writes its results into AnnData objects, but was given an object of type "
            f"{type(adata).__name__}. For other matrices use SparseEncoder(n_components=..., "
            "n_nonzero=...).fit_transform(x). Open files with anndata.read_h5ad(path, backed='r')."
        )
    if adata.isbacked and (copy or adata.is_view):
        what = "a view of a backed object cannot hold results" if adata.is_view else "copy=True needs X in memory"
        raise InvalidInput(
            f"the AnnData object is backed by {adata.filename}, but {what}. Take it into memory with "
            "adata.to_memory(), use mask_var to choose genes, or write the results into the object itself."
        )


IN_VAR = ("frequency", "bootstrap_frequency")
"""Endings of the columns of ``var`` that hold ``FREQUENCIES``."""


def keys_of(key_added: str | None, frequencies: Sequence[str]) -> list[tuple[str, str]]:
    """Slots and names of the results: codes, encoder, record, selected genes and, with folds, their frequencies."""
    if key_added is None:
        return _keys("X_spae", "spae", frequencies)
    if not isinstance(key_added, str) or not key_added or "/" in key_added:
        raise InvalidInput(f"key_added={key_added!r} is not allowed: give a name without slashes, such as 'spae_hvg'.")
    return _keys(key_added, key_added, frequencies)


def _keys(codes: str, name: str, frequencies: Sequence[str]) -> list[tuple[str, str]]:
    keys = [("obsm", codes), ("varm", name), ("uns", name), ("var", f"{name}_selected")]
    return [*keys, *(("var", f"{name}_{each}") for each in frequencies)]


def refuse_existing(adata: Any, keys: Sequence[tuple[str, str]]) -> None:
    """Refuse names that something has."""
    there = [f"{slot}[{key!r}]" for slot, key in keys if key in getattr(adata, slot)]
    if there:
        raise OutputExists(
            f"adata.{', adata.'.join(there)} exist{'s' if len(there) == 1 else ''} already. Give "
            "overwrite=True to replace it, or key_added=... to store the results beside it."
        )


def float_type(dtype: Any) -> np.dtype[Any]:
    """The type that codes are wanted in."""
    try:
        wanted: np.dtype[Any] | None = np.dtype(dtype)
    except TypeError:
        wanted = None
    if wanted is None or wanted.name not in ("float32", "float64"):
        raise InvalidInput(f"dtype={dtype!r} is not allowed for codes: give 'float32' or 'float64'.")
    return wanted


@flags_checked
@takes_parameters(without=["center", "missing_value", "keep_state"])
def sparse_pca(
    adata: Any,
    n_comps: int | float | str | None = None,
    *,
    n_components: int | float | str | None = None,
    layer: str | None = None,
    mask_var: Mask = DefaultMask.HIGHLY_VARIABLE,
    key_added: str | None = None,
    zero_center: bool = True,
    dtype: str = "float32",
    copy: bool = False,
    overwrite: bool = False,
    memory_limit: int | str | None = None,
    checkpoint: str | Path | None = None,
    progress: Callable[[Event], None] | None = None,
    use_highly_variable: bool | None = None,
    svd_solver: str | None = None,
    chunked: bool = False,
    chunk_size: int | None = None,
    **parameters: Any,
) -> Any:
    """Sparse PCA of cells by genes: each component uses a few genes, and its loss against PCA's is stored with it.

    X is read once to fit, in row blocks: from memory, from the file of a backed object, or from a lazily opened store;
    sparse stays sparse. The codes of the cells take a second read, of a dask array when they are computed; of stores
    cut by columns it reads only the chunks that hold selected genes. No more of X is held than the plan of the fit
    says. Results are written when all is done: after an error the object is as it was.

    Parameters
    ----------
    adata : anndata.AnnData
        n cells by d genes, usually normalized and log-transformed. Raw counts take
        ``recipe="normalize_total(1e4), log1p"``: what scanpy's functions of these names make of all genes. X may be
        dense or CSR, in memory, backed (``backed="r"``), or a dask array as ``read_lazy`` makes one. CSC in memory is
        converted, and on disk read in few large blocks; lazily opened it is one block of all rows, as far as that fits.
        For matrices that are not in an AnnData object use ``SparseEncoder(...).fit_transform(x)``.
    n_comps : int, float or "cv", default 10
        k, the number of components. A share between 0 and 1 stands for the fewest with which PCA explains more of the
        total variance.
    n_components : int, float or "cv", optional
        The same, by the name that ``SparseEncoder`` has for it. Giving both is an error.
    n_nonzero : int or sequence of int, optional
        The most genes a component may use: one number, or one for each component. If not given, the fewest found
        that reach the target: ``eps`` or ``keep``.
    eps : float, optional
        Target in place of ``n_nonzero``: a loss of at most ``1 + eps`` times PCA's.
    keep : float, optional
        Target in place of ``n_nonzero``: at least this share of the variance that PCA explains, between 0 and 1. It is
        0.95 if neither ``n_nonzero``, ``eps`` nor ``keep`` is given. Giving both ``eps`` and ``keep`` is an error. With
        ``n_nonzero`` neither is used.
    layer : str, optional
        A member of ``layers`` to use in place of X.
    mask_var : str or ndarray of bool (d,), optional
        Genes to use: a mask, the name of a column of ``var`` that is one, or a condition on columns of ``var``, such as
        ``"n_cells > 10 and not mt"``. By default ``var["highly_variable"]`` if
        there is such a column; None uses all.
    key_added : str, optional
        Name of the results in ``obsm``, ``varm`` and ``uns``, in place of ``X_spae``, ``spae`` and ``spae``; the column
        of ``var`` becomes ``KEY_selected``.
    zero_center : bool, default True
        Take genes about their means, without a dense copy.
    scale : bool, {"std", "patterson"}, str or array-like, default False
        Divide genes by their standard deviations, or as :class:`spae_dask.SparseEncoder` does. An array has a number
        for each gene of the mask.
    random_state : int, Generator, RandomState or None, default 0
        Seed.
    dtype : str, default "float32"
        Type of the codes.
    copy : bool, default False
        Return a copy of the object with the results, and leave ``adata`` as it is.
    overwrite : bool, default False
        True to replace results of the same names.
    memory_limit, checkpoint, progress, **parameters
        As for :class:`spae_dask.SparseEncoder`: all of its parameters but ``center``, here ``zero_center``,
        ``missing_value`` and ``keep_state``.
    use_highly_variable : bool, optional
        ``mask_var`` as scanpy spelled it before: True is ``"highly_variable"``, False is None.
    svd_solver, chunked, chunk_size
        Arguments of ``scanpy.pp.pca`` without effect here; a warning says so. One read in blocks serves all data.

    Returns
    -------
    None, or AnnData if ``copy``
        With these fields:

        ``obsm["X_spae"]`` (n, k)
            Codes of the cells: an array, or a dask array if X is one.
        ``varm["spae"]`` (d, k)
            The encoder: zero where a component does not use a gene, and outside the mask.
        ``var["spae_selected"]``
            Genes that any component uses.
        ``var["spae_frequency"]``
            With ``folds``: share of the encoders of all folds but one that use each gene.
        ``var["spae_bootstrap_frequency"]``
            With ``bootstraps``: share of the encoders of resampled folds that use each gene.
        ``uns["spae"]``
            ``explained`` and ``pca_explained``, shares of the total; ``ratio`` of the losses (1 is as good as PCA);
            ``explained_gap``, what is left to gain; ``explained_of_pca``; ``params``, with
            ``n_vars``, the number of genes that were used; ``loss``, ``pca_loss``,
            ``pca_loss_kind``, ``loss_kind``, ``total``; ``target_met``, where it is known; intervals such as
            ``loss_lower`` to ``loss_upper`` where a number is not exact; ``bound`` and ``theorem``, what was promised
            beforehand; ``n_nonzero`` of each component and ``combined_nonzero``;
            ``variance`` and ``variance_ratio`` explained by each component beyond those before it; ``passes``;
            ``curve``, losses for other ``n_nonzero``, where it takes no more than seconds; with ``folds``
            ``held_out``, losses on cells held out.

    Raises
    ------
    InvalidInput
        If ``adata`` is not an AnnData object, the mask is not a mask, or data or parameters cannot be used.
    NotFound
        If there is no such layer.
    OutputExists
        If results of these names exist and ``overwrite`` is False.
    MemoryBudgetExceeded
        If the plan does not fit; nothing is read then.
    StorageError
        If a file or store cannot be read.

    Notes
    -----
    Results of a backed object are in memory, as with all of scanpy; ``adata.write_h5ad`` stores them. Chunks of a few
    thousand rows make a dask array of many tasks: give ``read_lazy`` larger ones.
    """
    if n_comps is not None and n_components is not None:
        raise InvalidInput(
            f"n_comps={n_comps!r} and n_components={n_components!r} are two names of one parameter. Give one of them."
        )
    k = n_comps if n_components is None else n_components
    k = 10 if k is None else k
    check_target(adata, copy)
    codes_dtype = float_type(dtype)
    wanted = (parameters["folds"] is not None, parameters["bootstraps"] != 0)
    keys = keys_of(key_added, [name for name, is_wanted in zip(IN_VAR, wanted, strict=True) if is_wanted])
    if not overwrite:
        refuse_existing(adata, keys)
    warn_of_unused(svd_solver=svd_solver, chunked=chunked, chunk_size=chunk_size)
    mask, mask_name = chosen_genes(adata, mask_of(mask_var, use_highly_variable))
    source = open_matrix(adata, array=None if layer is None else f"layers/{layer}", mask=ALL)
    if mask is not None:
        source = chosen_columns(source, np.flatnonzero(mask))
    where: dict[str, Any] = {"memory_limit": memory_limit, "checkpoint": checkpoint, "progress": progress}
    by_name = {name: parameters.pop(name) for name in OF_ROWS}
    beside = {name: named_values(given, adata) for name, given in by_name.items()}
    encoder = SparseEncoder(k, center=zero_center, **beside, **parameters, **where).fit(source)
    rows = encoder.row_encoder(adjustment_of(encoder, source, source, beside["covariates"]))
    encoder.set_params(**by_name)  # as they are recorded
    genes = np.arange(adata.n_vars)[slice(None) if mask is None else mask]
    genes = genes[getattr(encoder, "top_features_", slice(None))]
    loadings, frequencies = np.zeros((adata.n_vars, encoder.n_components_)), np.zeros((len(IN_VAR), adata.n_vars))
    loadings[genes] = encoder.components_.T
    for frequency, name in zip(frequencies, FREQUENCIES, strict=True):
        frequency[genes] = getattr(encoder, name, 0.0)
    params = {"zero_center": zero_center, "mask_var": mask_name, "layer": layer, "n_vars": encoder.n_features_in_}
    codes = codes_of(rows, open_rows(encoder, source), codes_dtype)
    results = [codes, loadings, summary_of(encoder, params), (loadings != 0).any(axis=1), *frequencies]
    target = adata.copy() if copy else adata
    for (slot, key), result in zip(keys, results[: len(keys)], strict=True):
        getattr(target, slot)[key] = result
    return target if copy else None
