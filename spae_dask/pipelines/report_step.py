"""The step that writes a page about an encoder."""

from spae_dask.estimators.reporting import curve_from_data, write_report
from spae_dask.estimators.saved import load_encoder
from spae_dask.pipelines.data_steps import opened
from spae_dask.pipelines.schema import Report
from spae_dask.pipelines.work import Result, Work
from spae_dask.report.path_file import origin_of, read_path


def report(step: Report, work: Work) -> Result:
    """Write the report of an encoder, with the losses of a path, or those drawn from data, if that is asked for."""
    file, output = work.files[("encoder",)], work.outputs[".html"]
    encoder = load_encoder(file)
    curve, origin = None, ""
    if step.path is not None:
        table = work.files[("path",)]
        curve, origin = read_path(table, encoder.n_components_), origin_of(table, output)
    elif step.data is not None:
        source, where = opened(step, work.data, encoder, work.machinery.say), work.machinery.where
        with where.ready(source):
            curve, origin = curve_from_data(
                encoder, source, memory_limit=where.memory, progress=work.machinery.progress
            )
    write_report(encoder, file, output, curve=curve, origin=origin, overwrite=True)
    return Result(f"report    {output}", {"encoder": file, "curve": curve is not None or encoder.curve() is not None})
