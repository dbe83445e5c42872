"""``spae fit``: the main job."""

import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import typer

from spae_dask.cli.console import command_context
from spae_dask.cli.options.data import DataArgument, StrictOption, WhichData
from spae_dask.cli.options.groups import takes_groups, told
from spae_dask.cli.options.output import Checkpoint, ConsoleOptions, EncoderOutput, ForceOption
from spae_dask.cli.options.parameters import MissingEntries, Reading, Sought
from spae_dask.cli.options.target import MemoryOption, PerformanceOption, TargetOptions
from spae_dask.plain_files import in_shell
from spae_dask.strategies.parameters import OF_ROWS, one_size, option_words

if TYPE_CHECKING:
    from spae_dask.blocks import RowBlocks
    from spae_dask.cli.console import Console
    from spae_dask.estimators.sparse_encoder import SparseEncoder
    from spae_dask.passes.plan import Plan, Resources


@dataclass(frozen=True, kw_only=True)
class FitGiven:
    """The data, what to find in them, how, and what the console shows: as on the command line."""

    data: DataArgument
    sought: Sought
    which: WhichData
    missing: MissingEntries
    strict: StrictOption = False
    reading: Reading
    memory: MemoryOption = None
    shown: ConsoleOptions

    def check(self) -> None:
        """Refuse none, or more than one, of the ways to say how many nonzeros."""
        if not one_size(self.fitted):
            raise typer.BadParameter(
                "give exactly one of -r (features of a component), -n (of all components), --budget (their costs), "
                "--eps and --keep. The first three may come together",
                param_hint="'-r' / '-n' / '--budget' / '--eps' / '--keep'",
            )

    @property
    def fitted(self) -> dict[str, Any]:
        """Parameters of the encoder, and of its plan."""
        found = self.sought.parameters | self.missing.parameters | self.reading.parameters
        return found | {"memory_limit": self.memory}

    def open(self, console: "Console | None" = None) -> "RowBlocks":
        """Open the matrix, without columns of a table that are covariates, groups or row weights."""
        from spae_dask.estimators.covariates import columns_beside

        beside = columns_beside(*(self.fitted[name] for name in OF_ROWS))
        return self.which.open(self.data, self.memory, console, beside=beside)

    def plan(self, source: "RowBlocks", *, calibrate: bool = False, resources: "Resources | None" = None) -> "Plan":
        """Return the plan of the fit: the passes it makes, and the memory and time it needs."""
        from spae_dask.estimators.planning import plan

        return plan(source, calibrate=calibrate, resources=resources, **self.fitted)

    def words(self) -> str:
        """The data and all that differs from the defaults, as on the command line."""
        words = [
            f"./{self.data}" if self.data.startswith("-") else self.data
        ]  # otherwise it would be parsed as an option
        for parameter, value in told(self):
            if value == parameter.default or parameter.name == "data":
                continue
            option = parameter.annotation.__metadata__[0]  # in Annotated, typer takes the first name for a default
            yes = (option.default, *option.param_decls)[0].partition("/")[0]
            words += [yes] * value if parameter.name == "verbose" else option_words(yes, value)
        return shlex.join(words)


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
    where: TargetOptions,
    kept: Checkpoint,
    performance_report: PerformanceOption = None,
) -> None:
    """Find a sparse encoder of DATA, and certify its loss against PCA.

    Needs -k, and one of -r, -n, --budget, --eps and --keep. The data are read once, or
    twice if they have thousands of features. --missing mean adds one pass;
    --tolerance may read only a part. The fit stays within the memory that the plan
    states before it starts.

    The encoder appears only when it is complete. With --checkpoint, the same
    command given again after a kill resumes the work.
    """
    with command_context("fit", given.shown, strict=given.strict) as console:
        given.check()
        check_output(output, given, kept, force=force)
        source = given.open()
        encoder = fit_encoder(source, given, where, kept, performance_report, output, console)
        write_encoder(encoder, source, output, given, console, force=force)
        kept.end(console)


def check_output(output: str, given: FitGiven, kept: Checkpoint, *, force: bool) -> None:
    """Refuse a place where no encoder can be written, before anything is read."""
    from spae_dask.cli.target import check_checkpoint, check_paths

    check_paths(output, [given.data], force=force)
    check_checkpoint(kept.checkpoint, given.data, output)


def fit_encoder(
    source: "RowBlocks",
    given: FitGiven,
    where: TargetOptions,
    kept: Checkpoint,
    performance_report: str | None,
    output: str | None,
    console: "Console",
) -> "SparseEncoder":
    """Fit the encoder where the command says, after its plan is shown."""
    from spae_dask.cli.performance import wanted_report
    from spae_dask.cli.target import report_request
    from spae_dask.estimators.checkpointing import checkpoint_at, with_note
    from spae_dask.estimators.sparse_encoder import SparseEncoder

    place = where.place(given.memory, wanted_report(performance_report, output))
    foreseen = given.plan(source, resources=place.foreseen(source))  # refuses what cannot be before any process starts
    long = foreseen.seconds > WORTH_CALIBRATING
    place = place.sized(source, [lambda resources: given.plan(source, resources=resources)])
    report_request(place, console)
    with place.ready(source, console):
        plan = with_note(given.plan(source, calibrate=long), checkpoint_at(kept.checkpoint))
        console.note(main_lines(place.named(plan, source)))
        return SparseEncoder(**given.fitted, checkpoint=kept.checkpoint, progress=console.progress).fit(source)


def results_of(encoder: "SparseEncoder", given: FitGiven, output: str | None) -> dict[str, Any]:
    """Make the document of a fit."""
    return {
        "data": given.data,
        "encoder": output,
        "certificate": encoder.certificate_.as_dict(),
        "selected_features": encoder.selected_features_,
        "plan": encoder.plan_.as_dict(),
    }


def write_encoder(
    encoder: "SparseEncoder", source: "RowBlocks", output: str, given: FitGiven, console: "Console", *, force: bool
) -> None:
    """Write the fitted encoder, and print its summary and commands that use it."""
    from spae_dask.estimators.saved import save_encoder

    save_encoder(encoder, output, source=source, overwrite=force)
    certificate = encoder.certificate_
    console.result(certificate.text(verbose=console.verbose > 0), results_of(encoder, given, output))
    tell_next(encoder, output, given, console)


def tell_next(encoder: "SparseEncoder", output: str, given: FitGiven, console: "Console") -> None:
    """Print commands that use an encoder."""
    data, certificate = given.data, encoder.certificate_
    member = given.which.words + covariates_words(given.fitted["covariates"])
    console.note(f"wrote              {output}")
    if certificate.fraction_read < 1:
        console.note(f"exact              spae evaluate {in_shell(data)} {in_shell(output)}{member}")
    console.note(f"next               spae inspect {in_shell(output)}")
    if encoder.keep_state:
        console.note(f"                   spae update {in_shell(output)} NEW{given.which.words}")
    console.note(f"                   spae report {in_shell(output)} -o report.html")
    console.note(f"                   spae transform {in_shell(data)} {in_shell(output)} -o CODES.zarr{member}")


def covariates_words(covariates: str | None) -> str:
    """The option that gives covariates to an encoder, after a blank, where it cannot look them up by name itself."""
    from spae_dask.estimators.covariates import columns_named

    return "" if covariates is None or columns_named(covariates) else f" --covariates {in_shell(covariates)}"


def main_lines(plan: Any) -> str:
    """The lines of a plan that a user should see before a fit."""
    return "\n".join(line for line in str(plan).splitlines() if line.split(maxsplit=1)[0] in PLAN_LINES)
