"""A fit step of a pipeline as arguments of the command line."""

from pathlib import Path

from spae_dask.pipelines.schema import Fit
from spae_dask.strategies.parameters import PARAMETERS, option_words


def fit_words(step: Fit, output: Path) -> tuple[str, ...]:
    """Options that make ``spae fit-part`` do the step's work, in the checkpoint that the step resumes from.

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
        words += PARAMETERS[key].words(value) if key in PARAMETERS else option_words(f"--{key}", value)
    checkpoint = step.checkpoint or f"{step.name}.checkpoint"
    return (*words, "--checkpoint", checkpoint if "://" in checkpoint else str(output / checkpoint))
