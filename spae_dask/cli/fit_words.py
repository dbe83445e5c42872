"""A fit step of a pipeline in words of the command line."""

from pathlib import Path
from typing import Any

from spae_dask.pipelines.schema import Fit
from spae_dask.plain_files import listed

WORDS = {
    "n_components": "--components",
    "n_nonzero": "--nonzeros",
    "n_rows": "--rows",
    "n_repeats": "--repeats",
    "n_candidates": "--candidates",
}
"""Options that are not called as their keys are."""


def fit_words(step: Fit, output: Path) -> tuple[str, ...]:
    """Options that make ``spae fit-part`` do what the step does, in the checkpoint that the step goes on from.

    Parameters
    ----------
    step : Fit
        The step; keys with their default values are left out.
    output : Path
        Folder of the pipeline's results.
    """
    given = step.model_dump(exclude={"name", "kind", "data", "checkpoint"}, exclude_defaults=True)
    words: list[str] = []
    for key, value in given.items():
        words += _option(WORDS.get(key, f"--{key.replace('_', '-')}"), value)
    checkpoint = step.checkpoint or f"{step.name}.checkpoint"
    return (*words, "--checkpoint", checkpoint if "://" in checkpoint else str(output / checkpoint))


def _option(option: str, value: Any) -> list[str]:
    if value is True:
        return [option]
    if value is False:
        return [option.replace("--", "--no-", 1)]
    if isinstance(value, list | tuple):
        return [option, listed(value)]
    return [option, str(value)]
