"""Fitted encoders, written to a store and read back, with the state of a fit to which rows are added.

The bytes of a state are those of a checkpoint's file, so that nothing is believed of them that the recipe does not
allow.
"""

import io
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted

from spae_dask.blocks import ASKED
from spae_dask.errors import InvalidInput, NotFound, StorageError
from spae_dask.estimators.applying import fitted_grid
from spae_dask.estimators.covariates import Removed
from spae_dask.estimators.folds import frequencies_of
from spae_dask.estimators.record import parameters_of, provenance_of
from spae_dask.estimators.sparse_encoder import SparseEncoder
from spae_dask.estimators.streams import RowStream, stream_of
from spae_dask.flags import flags_checked
from spae_dask.passes.accumulators.base import has_exact_sums
from spae_dask.passes.online import OnlinePass
from spae_dask.passes.state_file import UnusableState, read_state, state_bytes
from spae_dask.passes.sweep import Swept
from spae_dask.recipes import recipe_of
from spae_dask.storage.artifacts.artifact import EncoderArtifact, damaged, digest_of
from spae_dask.storage.artifacts.artifact_reading import is_encoder, read_encoder, read_state_bytes
from spae_dask.storage.artifacts.artifact_writing import write_encoder
from spae_dask.strategies.certificate import Certificate
from spae_dask.strategies.feature_table import FeatureFacts
from spae_dask.strategies.parameters import FitParameters
from spae_dask.strategies.path import SparsityPath
from spae_dask.strategies.table import STRATEGIES


@flags_checked
def save_encoder(
    encoder: SparseEncoder,
    path: str | Path,
    *,
    source: Any = None,
    overwrite: bool = False,
    attach: Callable[[Any], None] | None = None,
) -> None:
    """Write a fitted encoder as a Zarr group, which appears only when it is complete.

    The encoder's ``curve`` is stored with it. If it was not computed yet, it is computed now. With ``keep_state=True``
    the state of the fit is stored too.

    Parameters
    ----------
    encoder : SparseEncoder
        Fitted encoder.
    path : str or Path
        Path of the new store; usually ends in ``.zarr``.
    source : object, optional
        Data of the fit. The record gets their fingerprint.
    overwrite : bool
        True to replace an existing encoder of that name.
    attach : callable, optional
        Function that writes more members into the group, as for ``write_encoder``.

    Raises
    ------
    OutputExists
        If ``path`` exists and ``overwrite`` is False.
    InvalidInput
        If ``path`` cannot be written to, or the parts of the encoder do not fit together.
    StorageError
        If writing fails.
    """
    check_is_fitted(encoder)
    H = sp.csc_array(encoder.components_.T)
    H.sort_indices()
    names, curve = getattr(encoder, "feature_names_in_", None), encoder.curve()
    stream = stream_of(encoder) if encoder.keep_state else None
    if encoder.keep_state and stream is None:
        raise InvalidInput("keep_state=True stores the state of a fit, and this fit kept none. Call fit again.")
    state, state_record = (None, None) if stream is None else as_stored(stream)
    certificate = encoder.certificate_.as_dict()
    held_out = certificate.pop("held_out", None)  # earlier versions read certificates without it
    artifact = EncoderArtifact(
        indptr=H.indptr,
        indices=H.indices,
        values=H.data,
        decoder=encoder.decoder_,
        mean=encoder.mean_,
        scale=encoder.scale_,
        fill=np.zeros(0) if encoder.fill_ is None else encoder.fill_,
        spectrum=encoder.singular_values_,
        certificate=certificate,
        parameters=parameters_of(encoder),
        provenance=provenance_of(encoder, source),
        feature_names=None if names is None else tuple(names),
        curve=None if curve is None else curve.as_dict(),
        state=state,
        state_record=state_record,
        held_out=held_out,
        **_record_of(getattr(encoder, "covariates_", None)),
    )
    write_encoder(path, artifact, overwrite=overwrite, attach=attach or _grid_of(encoder))


def _grid_of(encoder: SparseEncoder) -> Callable[[Any], None] | None:
    """Function that stores the grid of the data, if they are one, for maps and for ``GridEncoder.load``."""
    grid = fitted_grid(encoder)
    if grid is None:
        return None
    from spae_dask.storage.grids.grid_artifact import GridRecord, write_grid
    from spae_dask.storage.grids.weights import COSLAT

    parameters, weights = parameters_of(encoder), getattr(encoder, "_asked", {}).get("weights")
    cells = replace(grid.cells, missing_value=encoder.missing_value, recipe=recipe_of(parameters["recipe"]))
    given = None
    if weights not in (None, COSLAT) and grid.cells.factor is not None:
        on_grid = grid.layout.on_grid(grid.cells.factor, cells.numbers, 0.0)
        given = grid.layout.labelled(on_grid, (), None, {})
    parameters["weights"] = weights if given is None else "given"
    record = GridRecord(grid.layout, cells, parameters, given, by_encoder=True)
    return lambda group: write_grid(group, record)


def _record_of(removed: Removed | None) -> dict[str, Any]:
    """Covariates as an artifact holds them; nothing if there are none."""
    if removed is None:
        return {}
    return {
        "covariates": {"names": list(removed.names), "levels": [each and list(each) for each in removed.levels]},
        "covariate_mean": removed.mean,
        "covariate_coefficients": removed.coefficients,
    }


def _stored_grid(path: str | Path, d: int) -> Any:
    """The grid that is stored with an encoder of d columns; None if xarray is not installed.

    It is read with the encoder: later there may be another one at the path.

    Raises
    ------
    InvalidInput
        If it has another number of columns.
    """
    if find_spec("xarray") is None:
        return None
    from spae_dask.storage.grids.grid_artifact import read_grid

    record = read_grid(path)
    if record.cells.d != d:
        raise InvalidInput(
            f"the encoder at {path} contradicts itself: {d} columns, but {record.cells.d} cells. Fit again, or restore "
            "a complete copy."
        )
    return record


def load_encoder(path: str | Path) -> SparseEncoder:
    """Read an encoder that :func:`save_encoder` or ``spae fit`` wrote.

    Parameters
    ----------
    path : str or Path
        Path or URL of the encoder's Zarr group.

    Returns
    -------
    SparseEncoder
        Fitted encoder. It has no ``plan_``; ``provenance_`` holds the record of its fit. A state that was stored with
        it stays on the disk until ``update`` or ``partial_fit`` adds rows.

    Raises
    ------
    NotFound
        If there is nothing at ``path``.
    InvalidInput
        If it is no encoder, or one that this version cannot read.
    StorageError
        If the store is damaged.
    """
    artifact = read_encoder(path)
    encoder = SparseEncoder(**known_parameters(SparseEncoder, artifact.parameters))
    encoder.components_ = artifact.H.toarray().T
    encoder.decoder_ = artifact.decoder
    encoder.mean_ = artifact.mean
    encoder.scale_ = artifact.scale
    encoder.fill_ = artifact.fill if artifact.fill.size else None
    encoder.seed_ = encoder.random_state
    encoder.singular_values_ = artifact.spectrum
    encoder.selected_features_ = np.flatnonzero(encoder.components_.any(axis=0))
    encoder.n_components_, encoder.n_features_in_ = encoder.components_.shape
    try:
        encoder.certificate_ = Certificate.from_dict({**artifact.certificate, "held_out": artifact.held_out})
        encoder.explained_variance_ratio_ = np.array(artifact.provenance["explained_variance_ratio"], dtype=np.float64)
        encoder.constant_features_ = np.array(artifact.provenance["constant_features"], dtype=np.intp)
        encoder.n_samples_seen_ = int(artifact.provenance["n_samples"])
        encoder._facts = FeatureFacts.from_dict(artifact.provenance.get("features", {}))
        encoder._curve = None if artifact.curve is None else SparsityPath.from_dict(artifact.curve)
        for name, found in frequencies_of(encoder.certificate_.held_out, encoder.n_features_in_).items():
            setattr(encoder, name, found)
    except (TypeError, KeyError, ValueError, IndexError) as error:
        raise InvalidInput(
            f"the encoder at {path} lacks a part of its record ({error}). Fit again, or restore a complete copy."
        ) from error
    encoder.provenance_ = dict(artifact.provenance)
    encoder._grid = _stored_grid(path, encoder.n_features_in_) if artifact.has_grid else None
    encoder._kept = None if artifact.state_record is None else KeptState.of(artifact.state_record, os.fsdecode(path))
    encoder._asked = {name: artifact.provenance[name] for name in ASKED if name in artifact.provenance}
    if "selected_rows" in artifact.provenance:
        encoder.selected_rows_ = np.array(artifact.provenance["selected_rows"], dtype=np.int64)
    if artifact.covariates is not None:
        assert artifact.covariate_mean is not None
        assert artifact.covariate_coefficients is not None
        levels = tuple(None if each is None else tuple(each) for each in artifact.covariates["levels"])
        names = tuple(artifact.covariates["names"])
        encoder.covariates_ = Removed(names, levels, artifact.covariate_mean, artifact.covariate_coefficients)
    if artifact.feature_names is not None:
        encoder.feature_names_in_ = np.array(artifact.feature_names, dtype=object)
    return encoder


@contextmanager
def in_order(data: str | Path, encoder: str | Path, remedy: str) -> Iterator[None]:
    """Open ``encoder`` in a ``with`` block, whose error says so if ``data`` is the encoder of the two.

    Parameters
    ----------
    data, encoder : str or Path
        Paths or URLs, as they were given.
    remedy : str
        Sentence that says how to give them in the right order.

    Raises
    ------
    InvalidInput
        If ``encoder`` is no encoder, but ``data`` is one. Other errors of the block are raised as they are.
    """
    try:
        yield
    except NotFound:
        raise
    except InvalidInput as error:
        if is_encoder(encoder) or not is_encoder(data):
            raise
        raise InvalidInput(f"{data} is an encoder, and {encoder} is not: they are swapped. {remedy}") from error


def known_parameters(kind: type[Any], stored: Mapping[str, Any]) -> dict[str, Any]:
    """Stored parameters that an estimator has; later versions may have added others."""
    return {name: stored[name] for name in kind().get_params() if name in stored}


KEY, NODE = "encoder", (0, 0)
"""Names of the state in its file: there is one, of all rows."""


@dataclass(frozen=True)
class KeptState:
    """State that an encoder was stored with, which stays on the disk until rows are added to it.

    Attributes
    ----------
    path : str
        Path or URL of the encoder.
    digest : str
        SHA-256 of its bytes.
    record : dict
        Its description, as the encoder has it.
    """

    path: str
    digest: str
    record: dict[str, Any]

    @classmethod
    def of(cls, record: Mapping[str, Any], path: str) -> "KeptState":
        """The state that a record describes."""
        return cls(path, str(record.get("sha256")), dict(record))

    def stream(self, params: FitParameters, n_features: int) -> RowStream:
        """Read it.

        Raises
        ------
        InvalidInput
            If it is not the state of such a fit, or not that of the encoder that was loaded.
        StorageError
            If it cannot be read.
        """
        found = read_state_bytes(self.path)
        if digest_of(found) != self.digest:
            raise InvalidInput(
                f"the encoder {self.path} was written again after it was loaded. Load it again, and then add the rows."
            )
        try:
            strategy, n_rows = STRATEGIES[self.record["strategy"]], int(self.record["n_rows"])
            dtype = None if self.record["dtype"] is None else np.dtype(self.record["dtype"])
            recipe = strategy.batch_recipe(params, n_features, n_rows, dtype if self.record["exact_sums"] else None)
            state = read_state(io.BytesIO(found.data), KEY, NODE, recipe).state
            online = OnlinePass(recipe, state, n_rows)
            return RowStream(strategy.name, online, params.seed, int(self.record["bytes_read"]), dtype)
        except (KeyError, TypeError, ValueError, NotImplementedError) as error:
            raise InvalidInput(damaged(self.path, f"its attribute 'state' is wrong ({error})")) from error
        except UnusableState as error:
            raise StorageError(damaged(self.path, f"its state cannot be used: {error}")) from error


def as_stored(stream: RowStream) -> tuple[npt.NDArray[np.uint8], dict[str, Any]]:
    """Bytes of the state of a stream, and its description."""
    pieces = state_bytes(Swept(stream.online.state), KEY, NODE)
    stored = np.frombuffer(b"".join(pieces), dtype=np.uint8)
    return stored, {
        "strategy": stream.strategy,
        "n_rows": stream.online.n_rows,
        "dtype": None if stream.dtype is None else stream.dtype.str,
        "exact_sums": has_exact_sums(stream.online.recipe),
        "bytes_read": stream.nbytes,
        "sha256": digest_of(stored),
    }
