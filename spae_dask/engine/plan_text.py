"""A plan as a table for the terminal, and for notebooks."""

from typing import TYPE_CHECKING

from spae_dask.engine.memory import format_nbytes
from spae_dask.engine.pricing import format_seconds
from spae_dask.markup import html_table, labelled_lines

if TYPE_CHECKING:
    from spae_dask.engine.plan import Alternative, Plan

NAME_WIDTH = 10
"""Characters of a name in the table for the terminal."""

HEAD = ("strategy", "passes", "read", "process", "finish", "time", "PCA's loss")


def plan_text(plan: "Plan") -> str:
    """One line a fact, the fact's name first; the table of strategies last but for notes."""
    return "\n".join([*_facts(plan), *_table(plan), *_notes(plan)])


def plan_html(plan: "Plan") -> str:
    """The same as two tables, of facts and of strategies."""
    facts = labelled_lines("\n".join([*_facts(plan), *_notes(plan)]), NAME_WIDTH)
    head, *rows = _prices(plan) or [HEAD]
    prices = html_table("What each strategy would take; * is the one taken", head, rows) if rows else ""
    return html_table("Plan", (), facts) + prices


def _notes(plan: "Plan") -> list[str]:
    return [f"note      {note}" for note in plan.notes]


def _facts(plan: "Plan") -> list[str]:
    (n, d), resources, last = plan.shape, plan.resources, plan.passes[-1]
    names = ", ".join(p.name for p in plan.passes)
    at_once = f"{plan.tasks_per_worker} of {resources.threads} threads at once"
    return [
        f"data      {plan.source}: {n:,} x {d:,} {plan.dtype}, {format_nbytes(plan.passes[0].nbytes)} decoded",
        f"strategy  {plan.strategy}: {plan.reason}",
        f"passes    {len(plan.passes)} ({names}), "
        f"{format_nbytes(plan.bytes_read)} read in {sum(p.n_spans for p in plan.passes)} spans",
        f"where     {resources.where}: {resources.n_workers} x {resources.threads} threads",
        f"memory    {format_nbytes(plan.worker_nbytes)} a process above its idle size, {at_once}; "
        f"limit {format_nbytes(resources.memory_limit)}",
        f"task      blocks of {format_nbytes(last.block_nbytes)}, state {format_nbytes(last.state_nbytes)}, "
        f"{format_nbytes(last.task_nbytes)} in all",
        f"finish    {format_nbytes(plan.finish_nbytes)} in this process",
        f"time      about {_time_text(plan)}",
        f"rates     {plan.calibration or 'nominal; nothing was read for them'}",
    ]


def _time_text(plan: "Plan") -> str:
    sweeps = sum(p.seconds for p in plan.passes)
    parts = f": {format_seconds(sweeps)} of passes, {format_seconds(plan.finish_seconds)} after them"
    how = "nominal" if plan.calibration is None else "measured"
    return f"{format_seconds(plan.seconds)} at {how} rates{parts if plan.finish_seconds else ''}"


def _prices(plan: "Plan") -> list[tuple[str, ...]]:
    """Headings and a row a strategy; empty if no prices are known."""
    rows = [_cells(each, chosen=each.strategy == plan.strategy) for each in plan.alternatives]
    return [HEAD, *rows] if rows else []


def _table(plan: "Plan") -> list[str]:
    rows = _prices(plan)
    if not rows:
        return []
    columns = list(zip(*rows, strict=True))[:-1]
    widths = [max(map(len, column)) for column in columns]
    lines = []
    for name, *numbers, remark in rows:
        cells = [name.ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(numbers, widths[1:], strict=True))]
        lines.append(f"          {'  '.join(cells)}  {remark}")
    return [f"prices  {lines[0][8:]}", *lines[1:]]


def _cells(each: "Alternative", *, chosen: bool) -> tuple[str, ...]:
    name = f"{each.strategy} *" if chosen else each.strategy
    if each.seconds is None or each.bytes_read is None or each.worker_nbytes is None or each.finish_nbytes is None:
        return name, "-", "-", "-", "-", "-", str(each.refusal)
    nbytes = (format_nbytes(each.bytes_read), format_nbytes(each.worker_nbytes), format_nbytes(each.finish_nbytes))
    return name, str(each.n_passes), *nbytes, format_seconds(each.seconds), each.refusal or each.pca_loss
