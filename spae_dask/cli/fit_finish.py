"""``spae fit-finish``: from the parts of a fit to its encoder."""

from spae_dask.cli.console import command_context
from spae_dask.cli.fit import FitGiven, write_encoder
from spae_dask.cli.fit_part import command_of_parts
from spae_dask.cli.options.groups import takes_groups
from spae_dask.cli.options.output import (
    Checkpoint,
    EncoderOutput,
    ForceOption,
    KeepCheckpointOption,
    SharedCheckpointOption,
)

EXAMPLES = """Examples:

  spae fit-finish X.zarr -k 10 -r 12 --checkpoint shared/run -o ENC.zarr
  spae fit-finish X.zarr -k 10 -r 12 --checkpoint shared/run -o ENC.zarr --json
"""

MOST_COMMANDS = 20
"""Parts whose commands are written out; the others' differ in the number."""


@takes_groups
def fit_finish(
    *,
    given: FitGiven,
    output: EncoderOutput,
    force: ForceOption = False,
    checkpoint: SharedCheckpointOption,
    keep_checkpoint: KeepCheckpointOption = False,
) -> None:
    """Merge the parts of `spae fit-part`, and write the encoder.

    Give the DATA and options of the parts. The encoder has the bits of a single
    `spae fit`. This command reads no rows. If parts are missing, it ends with 75
    and names the commands that do them. It also ends with 75 between two passes,
    since a pass begins when the one before it is complete: then run all parts
    again.
    """
    with command_context("fit-finish", given.shown, strict=given.strict) as console:
        given.check()
        from spae_dask.cli.target import Target, check_checkpoint, check_paths
        from spae_dask.errors import PartsMissing
        from spae_dask.estimators.checkpointing import CheckpointAt, parts_missing
        from spae_dask.estimators.sparse_encoder import SparseEncoder
        from spae_dask.passes.checkpoint import ArrayPart, MissingSpans, PassIncomplete
        from spae_dask.storage.checkpoints.checkpoint_record import parts_of, states_at
        from spae_dask.storage.checkpoints.checkpoint_summary import summarize

        check_paths(output, [given.data], force=force)
        check_checkpoint(checkpoint, given.data, output)
        summarize(checkpoint)  # refuses a folder that is not a checkpoint, and makes none
        source = given.open(console)
        at = CheckpointAt(checkpoint, ArrayPart(0, 1))
        with Target("none", given.memory).ready(source, console):
            try:
                encoder = SparseEncoder(**given.fitted, checkpoint=at, progress=console.progress).fit(source)
            except PassIncomplete as found:
                lacking: MissingSpans = found.args[0]
                of = parts_of(states_at(checkpoint))
                parts = () if of is None else parts_missing(lacking, of)
                numbers = [f"{i}/{of}" for i in parts[:MOST_COMMANDS]] or ["I/N"]
                commands = [f"`{command_of_parts(given, checkpoint, each)}`" for each in numbers]
                more = f" and {len(parts) - MOST_COMMANDS} more" if len(parts) > MOST_COMMANDS else ""
                console.document |= {"pass": lacking.number, "missing_parts": parts}
                raise PartsMissing(
                    f"pass {lacking.number} ({lacking.name}) is incomplete: {len(lacking.missing)} of "
                    f"{lacking.n_spans} spans are missing. Run {', '.join(commands)}{more}, then run this again."
                ) from None
        write_encoder(encoder, source, output, given, console, force=force)
        Checkpoint(checkpoint, keep_checkpoint).end(console)
