"""Checkpoint of a run: its location, its identity, and its description in a plan.

A fit in parts is made by processes that know nothing of each other: each sweeps its parts of the passes into one
checkpoint.
"""

import hashlib
import os
import platform
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy

from spae_dask import __version__
from spae_dask.blocks import asked_of
from spae_dask.errors import InvalidInput
from spae_dask.estimators.preparing import raw_rows
from spae_dask.passes.checkpoint import ArrayPart, Checkpoint, MissingSpans, PassesComplete, PassIncomplete, digest_of
from spae_dask.passes.plan import Plan
from spae_dask.quantities import format_nbytes
from spae_dask.rules import RULES
from spae_dask.storage.artifacts.fingerprint import fingerprint
from spae_dask.storage.checkpoints.checkpoint_record import (
    PACKAGE,
    Job,
    States,
    begin_or_resume,
    remember_parts,
    states_at,
)
from spae_dask.storage.chosen import ROWS
from spae_dask.storage.remote.address import without_secrets
from spae_dask.storage.sources.dask_blocks import DaskBlocks
from spae_dask.storage.sources.stored_chunks import CheckedSource
from spae_dask.strategies.folds import FoldPlan
from spae_dask.strategies.parameters import OF_ROWS, PARAMETERS, FitParameters

if TYPE_CHECKING:
    from spae_dask.estimators.sparse_encoder import SparseEncoder

Place = str | Path


@dataclass(frozen=True)
class CheckpointAt:
    """A checkpoint that is asked for.

    Attributes
    ----------
    place : str or Path
        Folder or URL.
    part : ArrayPart or None
        Part of the spans to reduce; None for all that are missing.
    """

    place: Place
    part: ArrayPart | None = None


def checkpoint_at(given: object) -> CheckpointAt | None:
    """Return the checkpoint that an estimator's parameter ``checkpoint`` asks for.

    Raises
    ------
    InvalidInput
        If it is no folder or URL.
    """
    if given is None or isinstance(given, CheckpointAt):
        return given
    if isinstance(given, os.PathLike):
        given = os.fsdecode(given)
    if not isinstance(given, str) or not given:
        raise InvalidInput(
            f"checkpoint={given!r} is not allowed: give a folder, or a URL such as 's3://bucket/run', or None."
        )
    return CheckpointAt(given)


def open_checkpoint(
    wanted: CheckpointAt | None,
    checked: CheckedSource,
    kind: str,
    strategy: str,
    parameters: dict[str, Any],
    n_passes: int | None = None,
    *,
    exact_sums: bool = False,
) -> Checkpoint | None:
    """Begin or resume the checkpoint of a run; return None if none is wanted.

    Parameters
    ----------
    wanted : CheckpointAt or None
        Checkpoint to open; None for none.
    checked : CheckedSource
        The data, of which a sample is read.
    kind, strategy : str
        Kind of run, and the strategy taken.
    parameters : dict
        All that decides what comes of it.
    n_passes : int, optional
        Number of passes of the run, if it is known. A process that does a part of the run ends when the last pass is
        complete.
    exact_sums : bool
        True if a pass has exact sums, so that machines of other kinds may resume it.

    Raises
    ------
    InvalidInput
        If it is the checkpoint of other data or parameters, or no checkpoint.
    StorageError
        If it cannot be read or written.
    """
    if wanted is None:
        return None
    store: States = states_at(wanted.place)
    versions = {PACKAGE: __version__, "numpy": np.__version__, "scipy": scipy.__version__}
    versions["machine"] = platform.machine()
    job = Job(kind, _known_by(checked), {**parameters, "strategy": strategy}, versions)
    begin_or_resume(store, job, checked.snapshot, any_machine=exact_sums)
    if wanted.part is not None and wanted.part.number:
        remember_parts(store, wanted.part.of)
    return Checkpoint(store, wanted.part, digest_of(job.flat()), n_passes, digest_of(job.flat(any_machine=True)))


def parameters_of(params: FitParameters) -> dict[str, Any]:
    """Return the parameters that decide the result of a fit. Missing values and recipe are recorded with the data.

    Parameters of the search, and rules, are named only if they are not the defaults: earlier checkpoints do not have
    them.
    """
    of_rows: dict[str, Any] = dict.fromkeys(OF_ROWS)
    found = asdict(replace(params, missing_value=None, recipe=None, **of_rows))
    for name in ("missing_value", "recipe", "keep_state", *OF_ROWS):
        del found[name]
    for name in OF_ROWS:
        value = getattr(params, name)
        if value is not None:
            of_plan = isinstance(value, FoldPlan)
            found[name] = digest_of((value.rows, value.components, value.nonzeros) if of_plan else value)[:24]
    left_out = ("search_tol", "effort", "n_top_features", "top_features_flavor", "n_features", "folds", "bootstraps")
    for name in left_out:
        if found[name] == PARAMETERS[name].default:
            del found[name]
    if isinstance(params.scale, tuple):
        found["scale"] = hashlib.sha256(repr(params.scale).encode()).hexdigest()[:24]
    for name in RULES:
        rule = found.pop(name)
        if isinstance(rule, tuple):
            found[name] = f"{len(rule)} features, {hashlib.sha256(repr(rule).encode()).hexdigest()[:12]}"
        elif rule is not None:
            found[name] = repr(rule)
    found["n_nonzero"] = params.sizes
    found["keep"] = params.wanted_share
    for name in ("eps", "keep"):
        if params.n_nonzero is not None or found[name] is None:
            del found[name]
    return found


def with_note(plan: Plan, wanted: CheckpointAt | None) -> Plan:
    """The plan, saying what the checkpoint may come to hold."""
    if wanted is None:
        return plan
    usual = sum(each.state_nbytes for each in plan.passes)
    largest = usual + max((each.n_spans - 1) * each.state_nbytes for each in plan.passes)
    note = (
        f"checkpoint in {wanted.place}: {format_nbytes(usual)} at the end, at most "
        f"{format_nbytes(largest)} before. Each span that is not merged yet has its own file"
    )
    return replace(plan, notes=(*plan.notes, note))


def _known_by(checked: CheckedSource) -> dict[str, Any]:
    """Return the identity of the data: name, shape, blocks, stored objects, and a sample of their entries."""
    source = checked.source
    bounds = np.asarray(source.bounds, dtype=np.int64)
    known = {
        "name": without_secrets(source.describe()),
        "shape": list(source.shape),
        "dtype": source.dtype.str,
        "row_blocks": f"{bounds.size - 1}, {hashlib.sha256(bounds.tobytes()).hexdigest()[:12]}",
        "content": fingerprint(raw_rows(source) or source)[:24],
        "objects": checked.snapshot.digest[:24],
        "missing_value": getattr(source, "missing_value", None),
    }
    recipe = getattr(source, "recipe", None)
    if recipe is not None:
        known["recipe"] = str(recipe)
    decoded = getattr(source, "decoded", None)
    if decoded is not None:
        known["decoded"] = decoded
    names = getattr(source, "feature_names", None)
    if names is not None:  # a mask may choose others of the same number
        known["columns"] = hashlib.sha256(repr(tuple(names)).encode()).hexdigest()[:12]
    rows = asked_of(source).get(ROWS)
    if rows is not None:
        known["rows"] = rows
    if isinstance(source, DaskBlocks):
        known["graph"] = source.array.name  # made of all that the array is computed from
    return known


@dataclass(frozen=True)
class PartDone:
    """Work that is left after a part.

    Attributes
    ----------
    lacking : MissingSpans or None
        Missing spans of the pass at hand; None if all passes are complete.
    of : int
        Into how many parts the spans are cut.
    """

    lacking: MissingSpans | None
    of: int

    @property
    def missing(self) -> tuple[int, ...]:
        """Numbers of the parts of which spans are missing."""
        return () if self.lacking is None else parts_missing(self.lacking, self.of)


def parts_missing(lacking: MissingSpans, of: int) -> tuple[int, ...]:
    """Numbers of the parts that have spans which a pass lacks."""
    missing = set(lacking.missing)
    return tuple(i for i in range(1, of + 1) if not missing.isdisjoint(ArrayPart(i, of).spans(lacking.n_spans)))


def fit_part(encoder: "SparseEncoder", x: Any, part: ArrayPart) -> PartDone:
    """Make a part of every pass that can begin. A pass begins when the one before it is complete.

    After the last pass no search is made: `spae fit-finish` makes it.

    Done again it does nothing, and that is no error: a scheduler may start a job anew that had done its work.

    Parameters
    ----------
    encoder : SparseEncoder
        Encoder whose ``checkpoint`` is a ``CheckpointAt`` with this part.
    x : object
        Anything :func:`spae_dask.open_matrix` opens.
    part : ArrayPart
        Part of the spans to reduce.
    """
    try:
        encoder.fit(x)
    except PassIncomplete as found:
        return PartDone(found.args[0], part.of)
    except PassesComplete:
        return PartDone(None, part.of)
    return PartDone(None, part.of)


def listed(parts: tuple[int, ...]) -> str:
    """``part 3``, or ``parts 3, 5 and 8``; the first few of many."""
    if len(parts) == 1:
        return f"part {parts[0]}"
    few = [str(each) for each in parts[:8]]
    if len(parts) > len(few):
        return f"parts {', '.join(few)} and {len(parts) - len(few)} more"
    return f"parts {', '.join(few[:-1])} and {few[-1]}"
