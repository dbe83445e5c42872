"""``spae evaluate``: the exact loss of an encoder on data."""

from spae_dask.cli.context import command_context
from spae_dask.cli.options.checkpoint import Checkpoint
from spae_dask.cli.options.console import ConsoleOptions
from spae_dask.cli.options.data import DataArgument, EncoderArgument, StrictOption, WhichData
from spae_dask.cli.options.groups import takes_groups
from spae_dask.cli.options.parameters import OneStrategy, RowsCovariates, Weights
from spae_dask.cli.options.target import MemoryOption, PerformanceOption, TargetOptions

EXAMPLES = """Examples:

  spae evaluate TEST.zarr ENC.zarr
  spae evaluate TEST.zarr ENC.zarr --json | jq .certificate.ratio
  spae evaluate TEST.zarr ENC.zarr --json | jq .certificate.metrics
"""


@takes_groups
def evaluate(
    *,
    data: DataArgument,
    encoder: EncoderArgument,
    which: WhichData,
    beside: RowsCovariates,
    weights: Weights,
    strict: StrictOption = False,
    by: OneStrategy,
    kept: Checkpoint,
    where: TargetOptions,
    performance_report: PerformanceOption = None,
    memory: MemoryOption = None,
    shown: ConsoleOptions,
) -> None:
    """Measure the loss of ENCODER on DATA, also held-out data, against PCA of the same data.

    The command makes one pass. It centers DATA on the mean that the encoder was
    fitted with. It also shows the loss after each component, symmetric and adjusted
    variance, nonzeros, and correlations of the codes.
    """
    with command_context("evaluate", shown, strict=strict) as console:
        from spae_dask.cli.performance import wanted_report
        from spae_dask.cli.target import check_checkpoint
        from spae_dask.estimators.covariates import columns_beside
        from spae_dask.estimators.evaluation import evaluate as evaluate_encoder
        from spae_dask.estimators.saved import load_encoder

        check_checkpoint(kept.checkpoint, data)
        fitted = load_encoder(encoder)
        source = which.open(data, memory, console, fitted, columns_beside(weights.parameters["row_weights"]))
        with where.place(memory, wanted_report(performance_report)).ready(source, console):
            certificate = evaluate_encoder(
                source,
                fitted,
                **by.parameters,
                **beside.parameters,
                **weights.parameters,
                memory_limit=memory,
                checkpoint=kept.checkpoint,
                progress=console.progress,
            )
        text = certificate.text(verbose=console.verbose > 0)
        console.result(text, {"data": data, "encoder": encoder, "certificate": certificate.as_dict()})
        kept.end(console)
