"""Kinds of steps. A new kind is a model, a function, and a line here."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from spae_dask.pipelines import compare_schema, compare_step, schema, steps
from spae_dask.pipelines.work import Result, Work


@dataclass(frozen=True)
class Kind:
    """A kind of step.

    Attributes
    ----------
    model : type
        Model of the step's table.
    run : callable
        Function of ``(step, work)`` that writes all of ``work.outputs``. Each appears only when it is complete.
    """

    model: type[schema.Step]
    run: Callable[[Any, Work], Result]


KINDS: Mapping[str, Kind] = MappingProxyType(
    {
        "ingest": Kind(schema.Ingest, steps.ingest),
        "check": Kind(schema.Check, steps.check),
        "plan": Kind(schema.Plan, steps.plan),
        "fit": Kind(schema.Fit, steps.fit),
        "transform": Kind(schema.Transform, steps.transform),
        "evaluate": Kind(schema.Evaluate, steps.evaluate),
        "path": Kind(schema.Path, steps.path),
        "report": Kind(schema.Report, steps.report),
        "compare": Kind(compare_schema.Compare, compare_step.compare),
    }
)
"""By the name that ``kind`` gives, in the order of use."""
