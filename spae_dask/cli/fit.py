"""``spae fit``: the main job."""

from typing import TYPE_CHECKING, Any

from spae_dask.cli.fit_given import FitGiven
from spae_dask.cli.options.checkpoint import Checkpoint
from spae_dask.cli.options.groups import takes_groups
from spae_dask.cli.options.output import EncoderOutput, ForceOption
from spae_dask.cli.options.where import PerformanceOption, Where
from spae_dask.cli.session import session
from spae_dask.plain_files import in_shell

if TYPE_CHECKING:
    from spae_dask.blocks import RowBlocks
    from spae_dask.cli.screen import Screen
    from spae_dask.estimators.sparse_encoder import SparseEncoder

EXAMPLES = """Examples:

  spae fit X.zarr -k 10 -r 12 -o ENC.zarr
  spae fit X.zarr -k 10 --keep 0.95 -o ENC.zarr --cluster local:8 --memory 4GB
  spae fit X.zarr -k 10 -r 12 -o ENC.zarr --tolerance 0.01
  spae fit X.zarr -k 10 -r 12 -o ENC.zarr --checkpoint ENC.checkpoint
  spae fit X.zarr -k 10 -r 12 -o ENC.zarr --cluster tcp://10.0.0.5:8786
  spae fit X.zarr -k 10 -r 12 -o ENC.zarr --force --json > fit.json
"""

PLAN_LINES = ("data", "strategy", "passes", "where", "memory", "time", "note")
"""Lines of the plan worth seeing before a fit; `spae plan` shows all."""

WORTH_CALIBRATING = 20.0
"""Seconds of a fit, at nominal rates, from which on a second is spent on telling its time better. Nothing but the time
shown depends on it."""


@takes_groups
def fit(
    *,
    given: FitGiven,
    output: EncoderOutput,
    force: ForceOption = False,
    where: Where,
    kept: Checkpoint,
    performance_report: PerformanceOption = None,
) -> None:
    """Find a sparse encoder of DATA, and certify its loss against PCA.

    Needs -k, and exactly one of -r, --eps and --keep. The data are read once, or
    twice if they have thousands of features. --missing mean adds one pass;
    --tolerance may read only a part. The fit stays within the memory that the plan
    states before it starts.

    The encoder appears only when it is complete. With --checkpoint, the same
    command given again after a kill resumes the work.
    """
    with session("fit", given.shown, strict=given.strict) as screen:
        given.check()
        from spae_dask.cli.performance import wanted_report
        from spae_dask.cli.place import check_checkpoint, check_paths, tell_request
        from spae_dask.estimators.checkpointing import checkpoint_at, with_note
        from spae_dask.estimators.sparse_encoder import SparseEncoder

        page = wanted_report(performance_report, output)
        check_paths(output, [given.data], force=force)
        check_checkpoint(kept.checkpoint, given.data, output)
        source = given.which.open(given.data, given.memory)
        place = where.place(given.memory, page)
        long = given.plan(source).seconds > WORTH_CALIBRATING  # refuses what no process could do before any is started
        place = place.sized(source, [lambda resources: given.plan(source, resources=resources)])
        tell_request(place, screen)
        with place.ready(source, screen):
            plan = with_note(given.plan(source, calibrate=long), checkpoint_at(kept.checkpoint))
            screen.note(main_lines(place.named(plan, source)))
            encoder = SparseEncoder(**given.fitted, checkpoint=kept.checkpoint, progress=screen.progress).fit(source)
        write_encoder(encoder, source, output, given, screen, force=force)
        kept.end(screen)


def write_encoder(
    encoder: "SparseEncoder", source: "RowBlocks", output: str, given: FitGiven, screen: "Screen", *, force: bool
) -> None:
    """Write the fitted encoder, and print its summary and commands that use it."""
    from spae_dask.estimators.saved import save_encoder

    save_encoder(encoder, output, source=source, overwrite=force)
    data, certificate = given.data, encoder.certificate_
    screen.result(
        certificate.text(verbose=screen.verbose > 0),
        {
            "data": data,
            "encoder": output,
            "certificate": certificate.as_dict(),
            "selected_features": encoder.selected_features_,
            "plan": encoder.plan_.as_dict(),
        },
    )
    member = given.which.words
    screen.note(f"wrote              {output}")
    if certificate.fraction_read < 1:
        screen.note(f"exact              spae evaluate {in_shell(data)} {in_shell(output)}{member}")
    screen.note(f"next               spae inspect {in_shell(output)}")
    screen.note(f"                   spae report {in_shell(output)} -o report.html")
    screen.note(f"                   spae transform {in_shell(data)} {in_shell(output)} -o CODES.zarr{member}")


def main_lines(plan: Any) -> str:
    """The lines of a plan that a user should see before a fit."""
    return "\n".join(line for line in str(plan).splitlines() if line.split(maxsplit=1)[0] in PLAN_LINES)
