"""Reads, memory and time of a fit, as planned and as measured."""

from collections.abc import Mapping
from typing import Any

from spae_dask.passes.calibration import format_seconds
from spae_dask.passes.memory import format_nbytes
from spae_dask.report.encoder_results import EncoderResults
from spae_dask.report.html import Markup, Section, filled, joined, number, paragraph, table


def cost_section(results: EncoderResults) -> Section:
    """Passes, bytes, memory and time. Encoders of earlier versions, and streams, know less of them."""
    c = results.certificate
    planned, measured = (_mapping(results.provenance, name) for name in ("planned", "measured"))
    passes, sweeps = _list(planned, "passes"), _list(measured, "passes")
    rows: list[list[Markup | str]] = [
        [
            "reads of the data",
            number(len(passes), f"{len(passes)}") if passes else "",
            number(c.passes, f"{c.passes:,}"),
        ],
        ["read, decoded", _bytes(planned.get("bytes_read")), _bytes(c.bytes_read)],
        ["time of the passes", _total(passes, "seconds"), _total(sweeps, "seconds")],
        ["time after them", _seconds(planned.get("finish_seconds")), _rest(measured, sweeps)],
        ["time in all", _seconds(planned.get("seconds")), _seconds(measured.get("seconds"))],
        ["memory of a process in a pass, above its idle size", _bytes(planned.get("worker_nbytes")), ""],
        ["memory of the final linear algebra", _bytes(planned.get("finish_nbytes")), ""],
        [
            "memory of the calling process at its peak, libraries and all",
            "",
            _bytes(measured.get("peak_nbytes")),
        ],
    ]
    rows = [row for row in rows if any(row[1:])]
    intro = _intro(results, planned)
    costs = table("What the fit was planned to take, and took.", ["", "planned", "measured"], rows)
    return Section("What it took", joined(intro, costs) if intro else costs)


def _intro(results: EncoderResults, planned: Mapping[str, Any]) -> Markup:
    strategy, reason = results.provenance.get("strategy"), planned.get("reason")
    told = Markup("")
    if isinstance(strategy, str):
        why = filled(": {}", reason) if isinstance(reason, str) else ""
        told = paragraph("Strategy {}{}.", Markup("<code>{}</code>").format(strategy), why)
    place = planned.get("resources")
    if isinstance(place, Mapping) and isinstance(place.get("where"), str):
        limit = _bytes(place.get("memory_limit"))
        return joined(told, paragraph("It ran on {}, each process limited to {}.", place["where"], limit or "nothing"))
    return told


def _mapping(record: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = record.get(name)
    return found if isinstance(found, Mapping) else {}


def _list(record: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    found = record.get(name)
    return [each for each in found if isinstance(each, Mapping)] if isinstance(found, list | tuple) else []


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _bytes(value: Any) -> Markup | str:
    return number(value, format_nbytes(value)) if _is_number(value) else ""


def _seconds(value: Any) -> Markup | str:
    return number(value, format_seconds(value)) if _is_number(value) else ""


def _total(passes: list[Mapping[str, Any]], name: str) -> Markup | str:
    found = [each[name] for each in passes if _is_number(each.get(name))]
    return _seconds(sum(found)) if found else ""


def _rest(measured: Mapping[str, Any], sweeps: list[Mapping[str, Any]]) -> Markup | str:
    whole = measured.get("seconds")
    if whole is None or not _is_number(whole) or not sweeps:
        return ""
    return _seconds(max(0.0, whole - sum(each["seconds"] for each in sweeps if _is_number(each.get("seconds")))))
