"""The step that sets methods side by side, on several matrices, as in the paper's experiments."""

import time

from spae_dask.estimators.fitting import fit
from spae_dask.passes.threads import one_blas_thread
from spae_dask.pipelines.matrices import load_covariance
from spae_dask.pipelines.schema import Compare, Matrix
from spae_dask.pipelines.work import Result, Work
from spae_dask.quantities import format_seconds
from spae_dask.storage.open import open_matrix
from spae_dask.storage.writing.json_and_csv import write_csv
from spae_dask.storage.writing.publish import publish
from spae_dask.strategies.comparison import (
    ComparisonPoint,
    Subject,
    encoder_records,
    encoder_table,
    matrix_subject,
    point_records,
)
from spae_dask.strategies.comparison import compare as compare_methods
from spae_dask.strategies.core_summary import CoreSummary
from spae_dask.strategies.parameters import FitParameters


def compare(step: Compare, work: Work) -> Result:
    """Run every method on every matrix for every r; write the table, the encoders and the figure."""
    if step.figure:  # first, since the libraries it needs may be missing
        from spae_dask.report.comparison_figure import comparison_figure
        from spae_dask.report.figures import save_figure
    subjects = [
        _subject(step, matrix, work.files[("matrix", number, "source")], work)
        for number, matrix in enumerate(step.matrix)
    ]
    points = _points(step, subjects, work)
    text = _write_encoders(step, subjects, points, work)
    write_csv(point_records(points), work.outputs[".csv"])
    for kind in step.figure:
        save_figure(comparison_figure(points), work.outputs[f".{kind}"], overwrite=True)
    return Result(text, {"points": point_records(points)})


def _points(step: Compare, subjects: list[Subject], work: Work) -> list[ComparisonPoint]:
    """All encoders; every matrix is checked before the first is worked on."""
    runs = [
        compare_methods(subject, step.methods, step.n_components, sizes, selection=step.selection, seed=step.seed)
        for subject, sizes in zip(subjects, map(step.sizes_of, step.matrix), strict=True)
    ]
    points: list[ComparisonPoint] = []
    for subject, run in zip(subjects, runs, strict=True):
        began = time.perf_counter()
        with one_blas_thread():
            found = list(run)
        points += found
        work.machinery.say(
            f"{subject.name}: {len(step.methods)} methods at {len(found) // len(step.methods)} sparsities "
            f"in {format_seconds(time.perf_counter() - began)}"
        )
    return points


def _write_encoders(step: Compare, subjects: list[Subject], points: list[ComparisonPoint], work: Work) -> str:
    """Write the encoders that were asked for, coefficient by coefficient; their table, or nothing."""
    wanted = step.encoders
    if wanted is None:
        return ""
    (subject,) = [each for each in subjects if each.name == wanted.matrix]
    shown = [p for p in points if (p.subject, p.n_nonzero) == (wanted.matrix, wanted.n_nonzero)]
    table = encoder_table(shown, subject.features)
    write_csv(encoder_records(shown, subject.features), work.outputs[".encoders.csv"])
    with publish(work.outputs[".encoders.txt"], overwrite=True) as unfinished:
        unfinished.write_text(f"{table}\n", encoding="utf-8")
    return table


def _subject(step: Compare, matrix: Matrix, source: str, work: Work) -> Subject:
    """One of the matrices, or the core of data, for which those are read once."""
    where = work.machinery.where
    if step.x_is != "data":
        values, names = load_covariance(source, array=matrix.array, decode=not matrix.raw, memory=where.memory)
        return matrix_subject(matrix.name, values, x_is=step.x_is, features=names)
    blocks = open_matrix(source, **matrix.which)
    params = FitParameters(step.n_components, max(step.sizes_of(matrix)), method="batch", selection=step.selection)
    with where.ready(blocks):
        summary = fit(blocks, params, where.memory, work.machinery.progress).summary
    assert isinstance(summary, CoreSummary), "batch, from a core"
    names = getattr(blocks, "feature_names", None) or tuple(map(str, range(blocks.shape[1])))
    return Subject(matrix.name, summary.core, summary.core, tuple(names))
