"""The step that sets methods side by side, on several matrices, as in the paper's experiments."""

import time

from spae_dask.algorithms.comparison import ComparisonPoint, Subject, matrix_subject
from spae_dask.algorithms.comparison import compare as compare_methods
from spae_dask.algorithms.comparison_tables import encoder_records, encoder_table, point_records
from spae_dask.algorithms.problem import Problem
from spae_dask.engine.threads import one_blas_thread
from spae_dask.estimators.fitting import fit
from spae_dask.pipelines.files import write_csv
from spae_dask.pipelines.matrices import load_covariance
from spae_dask.pipelines.schema import Compare, Matrix
from spae_dask.pipelines.work import Result, Work
from spae_dask.storage.open import open_matrix
from spae_dask.storage.publish import publish


def compare(step: Compare, work: Work) -> Result:
    """Run every method on every matrix for every r; write the table, the encoders and the figure."""
    points: list[ComparisonPoint] = []
    table = ""
    subjects = [
        _subject(step, matrix, work.files[("matrix", number, "source")], work)
        for number, matrix in enumerate(step.matrix)
    ]
    runs = [
        compare_methods(
            subject,
            step.methods,
            step.n_components,
            step.sizes_of(matrix),
            selection=step.selection,
            seed=step.seed,
        )
        for subject, matrix in zip(subjects, step.matrix, strict=True)
    ]
    for subject, matrix, run in zip(subjects, step.matrix, runs, strict=True):
        began = time.perf_counter()
        with one_blas_thread():
            found = list(run)
        points += found
        if step.encoders is not None and step.encoders.matrix == matrix.name:
            shown = [point for point in found if point.n_nonzero == step.encoders.n_nonzero]
            table = encoder_table(shown, subject.features)
            write_csv(encoder_records(shown, subject.features), work.outputs[".encoders.csv"])
            with publish(work.outputs[".encoders.txt"], overwrite=True) as unfinished:
                unfinished.write_text(f"{table}\n", encoding="utf-8")
        work.machinery.say(
            f"{matrix.name}: {len(step.methods)} methods at {len(found) // len(step.methods)} sparsities "
            f"in {time.perf_counter() - began:.1f} s"
        )
    records = point_records(points)
    write_csv(records, work.outputs[".csv"])
    if step.figure:
        from spae_dask.report.comparison_figure import comparison_figure
        from spae_dask.report.saving import save_figure

        for kind in step.figure:
            save_figure(comparison_figure(points), work.outputs[f".{kind}"], overwrite=True)
    return Result(table, {"points": records})


def _subject(step: Compare, matrix: Matrix, source: str, work: Work) -> Subject:
    """One of the matrices, or the core of data, for which those are read once."""
    where = work.machinery.where
    if step.x_is != "data":
        values, names = load_covariance(source, array=matrix.array, memory=where.memory)
        return matrix_subject(matrix.name, values, x_is=step.x_is, features=names)
    blocks = open_matrix(source, array=matrix.array)
    problem = Problem(step.n_components, max(step.sizes_of(matrix)), method="batch", selection=step.selection)
    with where.ready(blocks):
        summary = fit(blocks, problem, where.memory, work.machinery.progress).summary
    assert summary is not None
    names = getattr(blocks, "feature_names", None) or tuple(map(str, range(blocks.shape[1])))
    return Subject(matrix.name, summary.core, summary.core, tuple(names))
