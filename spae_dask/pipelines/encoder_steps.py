"""Steps about encoders: fit, transform, evaluate, path."""

from dataclasses import asdict

from spae_dask.estimators.evaluation import evaluate as evaluate_encoder
from spae_dask.estimators.paths import fit_path
from spae_dask.estimators.saved import load_encoder, save_encoder
from spae_dask.estimators.sparse_encoder import SparseEncoder
from spae_dask.estimators.writing import transform_to_zarr
from spae_dask.pipelines.checkpoints import forget, resumed
from spae_dask.pipelines.data_steps import opened, plan_of
from spae_dask.pipelines.files import write_csv, write_json
from spae_dask.pipelines.schema import Evaluate, Fit, Path, Transform, arguments_of
from spae_dask.pipelines.work import Result, Work


def fit(step: Fit, work: Work) -> Result:
    """Find a sparse encoder and certify its loss."""
    source, where = opened(step, work.data, say=work.machinery.say), work.machinery.where
    plan_of(step, source, where.memory)  # refuses what no process could do before any is started
    with where.ready(source):
        encoder = SparseEncoder(**step.encoder_parameters, memory_limit=where.memory, progress=work.machinery.progress)
        resumed(step, work, lambda place: encoder.set_params(checkpoint=place).fit(source))
    save_encoder(encoder, work.outputs[".zarr"], source=source, overwrite=True)
    forget(step, work)
    certificate = encoder.certificate_
    selected = encoder.selected_features_.tolist()
    return Result(str(certificate), {"certificate": certificate.as_dict(), "selected_features": selected})


def transform(step: Transform, work: Work) -> Result:
    """Write the codes of all rows."""
    encoder = load_encoder(work.files[("encoder",)])
    source, where = opened(step, work.data, encoder, work.machinery.say), work.machinery.where
    with where.ready(source):
        written = transform_to_zarr(
            source,
            encoder,
            str(work.outputs[".zarr"]),
            overwrite=True,
            memory_limit=where.memory,
            progress=work.machinery.progress,
        )
    return Result(written.describe(), {"codes": written.as_dict()})


def evaluate(step: Evaluate, work: Work) -> Result:
    """Measure the loss of an encoder on data."""
    encoder = load_encoder(work.files[("encoder",)])
    source, where = opened(step, work.data, encoder, work.machinery.say), work.machinery.where
    with where.ready(source):
        certificate = resumed(
            step,
            work,
            lambda place: evaluate_encoder(
                source,
                encoder,
                strategy=step.strategy,
                memory_limit=where.memory,
                checkpoint=place,
                progress=work.machinery.progress,
            ),
        )
    write_json(certificate.as_dict(), work.outputs[".json"])
    forget(step, work)
    return Result(str(certificate), {"certificate": certificate.as_dict()})


def path(step: Path, work: Work) -> Result:
    """Draw loss against sparsity, for every k and r, from one read."""
    if step.figure:  # first, since the libraries it needs may be missing
        from spae_dask.report.path_figure import path_figure
        from spae_dask.report.saving import save_figure
    source, where = opened(step, work.data, say=work.machinery.say), work.machinery.where
    with where.ready(source):
        found = resumed(
            step,
            work,
            lambda place: fit_path(
                source,
                **arguments_of(step),
                memory_limit=where.memory,
                checkpoint=place,
                progress=work.machinery.progress,
            ),
        )
    write_csv(found.records(), work.outputs[".csv"])
    for kind in step.figure:
        save_figure(path_figure(found), work.outputs[f".{kind}"], overwrite=True)
    forget(step, work)
    return Result(str(found), {"method": step.method, "points": [asdict(point) for point in found.points]})
