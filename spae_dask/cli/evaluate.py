"""``spae evaluate``: the exact loss of an encoder on data."""

from spae_dask.cli.options.checkpoint import Checkpoint
from spae_dask.cli.options.data import DataArgument, EncoderArgument, StrictOption, WhichData
from spae_dask.cli.options.groups import takes_groups
from spae_dask.cli.options.parameters import OneStrategy
from spae_dask.cli.options.screen import ScreenOptions
from spae_dask.cli.options.where import MemoryOption, PerformanceOption, Where
from spae_dask.cli.session import session

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
    strict: StrictOption = False,
    by: OneStrategy,
    kept: Checkpoint,
    where: Where,
    performance_report: PerformanceOption = None,
    memory: MemoryOption = None,
    shown: ScreenOptions,
) -> None:
    """Measure the loss of ENCODER on DATA, also held-out data, against PCA of the same data.

    The command makes one pass. It centers DATA on the mean that the encoder was
    fitted with. It also shows the loss after each component, symmetric and adjusted
    variance, nonzeros, and correlations of the codes.
    """
    with session("evaluate", shown, strict=strict) as screen:
        from spae_dask.cli.performance import wanted_report
        from spae_dask.cli.place import check_checkpoint
        from spae_dask.estimators.evaluation import evaluate as evaluate_encoder
        from spae_dask.estimators.saved import load_encoder

        check_checkpoint(kept.checkpoint, data)
        fitted = load_encoder(encoder)
        source = which.open(data, memory, screen, fitted)
        with where.place(memory, wanted_report(performance_report)).ready(source, screen):
            certificate = evaluate_encoder(
                source,
                fitted,
                **by.parameters,
                memory_limit=memory,
                checkpoint=kept.checkpoint,
                progress=screen.progress,
            )
        text = certificate.text(verbose=screen.verbose > 0)
        screen.result(text, {"data": data, "encoder": encoder, "certificate": certificate.as_dict()})
        kept.end(screen)
