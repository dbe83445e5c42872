"""Rows of other data added to a fit by a read of those rows alone."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from spae_dask.blocks import ASKED, RowBlocks, asked_of
from spae_dask.errors import InvalidInput
from spae_dask.estimators.applying import BY_NAME, fitted_grid, open_rows
from spae_dask.estimators.fitting import naming_declared, report_missing_chunks
from spae_dask.estimators.planning import plan_passes
from spae_dask.estimators.preparing import warn_of_twice, with_positions
from spae_dask.estimators.record import found_record, now, provenance_of
from spae_dask.estimators.runtime import active_client, runner_for
from spae_dask.estimators.streams import LEARNED, OF_ONE_FIT, RowStream, stream_of
from spae_dask.passes.accumulators import NonFinite
from spae_dask.passes.accumulators.nonfinite import refuse_non_finite
from spae_dask.passes.accumulators.together import part_of
from spae_dask.storage.artifacts.fingerprint import fingerprint
from spae_dask.storage.masks import ALL
from spae_dask.storage.remote.address import without_secrets
from spae_dask.strategies.core import filled
from spae_dask.strategies.parameters import is_number
from spae_dask.strategies.table import STRATEGIES

N_LISTED = 3
"""Parts of the rows that a certificate lists; of more, those in between are summed."""


def update(encoder: Any, X: Any, forget: float) -> None:
    """Add rows to a fitted encoder, which stays as it is if that fails; see ``SparseEncoder.update``."""
    check_is_fitted(encoder)
    if not is_number(forget) or not 0 < forget <= 1:
        raise InvalidInput(f"forget={forget!r} is not allowed: give a number above 0 and at most 1, such as 0.9.")
    stream = stream_of(encoder)
    if stream is None:
        raise InvalidInput(
            "the encoder keeps no state of its rows, so that none can be added. Fit it again with keep_state=True."
        )
    source = open_rows(encoder, X)
    n, d = source.shape
    params = replace(encoder._params(), seed=stream.seed, keep_state=True)
    params = with_positions(params, fitted_grid(encoder)).resolved(getattr(encoder, "feature_names_in_", None), d)
    params.check(None, d)
    dtype = None if stream.dtype is None else np.promote_types(stream.dtype, source.dtype)
    before = provenance_of(encoder)
    strategy = STRATEGIES[stream.strategy]
    online, share = strategy.begin_update(params, stream.online, d, n, dtype, float(forget))
    recipe, client = filled(online.recipe, params, d), active_client(source)
    plan = plan_passes(
        source,
        [("update", recipe)],
        client,
        encoder.memory_limit,
        reason="the new rows alone",
        finish_nbytes=strategy.finish(params, (stream.online.n_rows, d)).nbytes,
    )
    checked = report_missing_chunks(source)
    warn_of_twice(source)
    runner = runner_for(checked, client, plan, encoder.progress)
    with naming_declared(source):
        state = runner.run_state(recipe, "update")
        refuse_non_finite(NonFinite(d).result(part_of(state, "nonfinite")), once=True)
    online, nbytes = online.followed_by(state, n), stream.nbytes + runner.tally.nbytes
    del state  # as large as that of all rows
    merged = RowStream(stream.strategy, online, stream.seed, nbytes, dtype)
    fitted, summary = merged.fit(params, d, encoder.progress)
    parts = [
        *({**each, "weight": each["weight"] * share} for each in parts_of(before)),
        _part(source, n, float(forget)),
    ]
    missing = [each for each in (encoder.certificate_.missing_chunks, checked.missing_chunks) if each is not None]
    certificate = replace(fitted.certificate, missing_chunks="; ".join(missing) or None, rows=rows_text(parts))
    for name in (*LEARNED, *OF_ONE_FIT):
        encoder.__dict__.pop(name, None)
    encoder._store(replace(fitted, certificate=certificate), params.rules, summary)
    encoder._stream, encoder.seed_ = merged, stream.seed
    encoder.n_samples_seen_ = merged.online.n_rows
    encoder.provenance_ = before | found_record(encoder) | {"shape": [merged.online.n_rows, d], "parts": parts}


def parts_of(provenance: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Data that the rows of an encoder came from, one after the other, each with its weight."""
    if "parts" in provenance:
        return list(provenance["parts"])
    names = (*ASKED, "source", "dtype", "date", "data_fingerprint", "raw")
    known = {name: provenance[name] for name in names if name in provenance}
    return [known | {"n_rows": int(provenance["n_samples"]), "weight": 1.0}]


def _part(source: RowBlocks, n_rows: int, forget: float) -> dict[str, Any]:
    asked = {name: value for name, value in asked_of(source).items() if name != "mask" or value not in (ALL, BY_NAME)}
    record = {
        **asked,
        "source": without_secrets(source.describe()),
        "dtype": str(source.dtype),
        "date": now(),
        "data_fingerprint": fingerprint(getattr(source, "raw", source)),
        "n_rows": n_rows,
        "weight": 1.0,
        "forget": forget,
    }
    return record | ({"raw": True} if getattr(source, "passed_over", ()) else {})


def rows_text(parts: Sequence[Mapping[str, Any]]) -> str:
    """Rows of all parts in words; of many parts, those in between are summed."""
    listed = [*parts[: N_LISTED - 1], parts[-1]] if len(parts) > N_LISTED else list(parts)
    between = sum(int(each["n_rows"]) for each in parts) - sum(int(each["n_rows"]) for each in listed)
    told = [f"{each['n_rows']:,} of {each['source']}{_weight_text(each['weight'])}" for each in listed]
    if between:
        told.insert(-1, f"{between:,} of {len(parts) - len(listed)} updates")
    return f"{sum(int(each['n_rows']) for each in parts):,}: {', '.join(told)}"


def _weight_text(weight: float) -> str:
    return "" if weight == 1.0 else f" at weight {weight:.4g}"
