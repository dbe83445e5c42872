"""``spae evaluate``: the exact loss of an encoder on data."""

from spae_dask.cli import options
from spae_dask.cli.ended import end_checkpoint
from spae_dask.cli.session import session

EXAMPLES = """Examples:

  spae evaluate TEST.zarr ENC.zarr
  spae evaluate TEST.zarr ENC.zarr --json | jq .certificate.ratio
  spae evaluate TEST.zarr ENC.zarr --json | jq .certificate.metrics
"""


def evaluate(
    data: options.DataArgument,
    encoder: options.EncoderArgument,
    array: options.ArrayOption = None,
    columns: options.ColumnsOption = None,
    strict: options.StrictOption = False,
    strategy: options.StrategyOption = options.Strategy.auto,
    checkpoint: options.CheckpointOption = None,
    keep_checkpoint: options.KeepCheckpointOption = False,
    cluster: options.ClusterOption = None,
    performance_report: options.PerformanceOption = None,
    tls_dir: options.TlsDirOption = None,
    memory: options.MemoryOption = None,
    as_json: options.JsonOption = False,
    quiet: options.QuietOption = False,
    verbose: options.VerboseOption = 0,
    debug: options.DebugOption = False,
    log_json: options.LogJsonOption = False,
) -> None:
    """Measure what ENCODER loses on DATA, held-out data too, against PCA of the same data.

    One read. DATA are taken about the mean the encoder was fitted with. Also
    shown: loss after each component, symmetric and adjusted variance,
    nonzeros, and how correlated the codes are.
    """
    with session(
        "evaluate", as_json=as_json, quiet=quiet, verbose=verbose, debug=debug, log_json=log_json, strict=strict
    ) as screen:
        from spae_dask.cli.performance import wanted_report
        from spae_dask.cli.place import Place, check_checkpoint
        from spae_dask.estimators.evaluation import evaluate as evaluate_encoder
        from spae_dask.estimators.saved import load_encoder
        from spae_dask.storage.open import open_matrix

        check_checkpoint(checkpoint, data)
        source, fitted = open_matrix(data, array=array, columns=options.columns_of(columns)), load_encoder(encoder)
        with Place(cluster, memory, tls_dir, wanted_report(performance_report)).ready(source, screen):
            certificate = evaluate_encoder(
                source,
                fitted,
                strategy=strategy.value,
                memory_limit=memory,
                checkpoint=checkpoint,
                progress=screen.progress,
            )
        screen.result(str(certificate), {"data": data, "encoder": encoder, "certificate": certificate.as_dict()})
        if checkpoint is not None:
            end_checkpoint(checkpoint, screen, keep=keep_checkpoint)
