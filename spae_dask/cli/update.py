"""``spae update``: rows added to an encoder by a read of those rows alone."""

from typing import Annotated

import typer

from spae_dask.cli.console import command_context
from spae_dask.cli.options.data import DataArgument, EncoderArgument, StrictOption, WhichData
from spae_dask.cli.options.groups import OUTPUT, WHAT, takes_groups
from spae_dask.cli.options.output import ConsoleOptions, ForceOption
from spae_dask.cli.options.target import MemoryOption, PerformanceOption, TargetOptions
from spae_dask.plain_files import in_shell

EXAMPLES = """Examples:

  spae fit X.zarr -k 10 -r 12 -o ENC.zarr --keep-state
  spae update ENC.zarr NEW.zarr
  spae update ENC.zarr NEW.zarr -o ENC2.zarr --forget 0.9
"""


@takes_groups
def update(
    *,
    encoder: EncoderArgument,
    data: DataArgument,
    output: Annotated[
        str | None,
        typer.Option(
            "-o",
            "--output",
            metavar="ENCODER",
            help="Zarr group for the new encoder. Default: it replaces ENCODER once it is complete.",
            show_default=False,
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    forget: Annotated[
        float,
        typer.Option(
            "--forget",
            metavar="W",
            help="Weight of the old rows, above 0 and at most 1. 0.9 counts them as 0.9 times as many.",
            rich_help_panel=WHAT,
        ),
    ] = 1.0,
    which: WhichData,
    strict: StrictOption = False,
    where: TargetOptions,
    performance_report: PerformanceOption = None,
    memory: MemoryOption = None,
    force: ForceOption = False,
    shown: ConsoleOptions,
) -> None:
    """Add the rows of DATA to ENCODER, and build and certify the encoder of all rows.

    Reads the new rows only. ENCODER must be one that `spae fit --keep-state` wrote.
    The result is that of a fit on all rows, with the options of that fit.

    Without -o the new encoder replaces ENCODER in one step. A run that is killed
    leaves the old one.
    """
    with command_context("update", shown, strict=strict) as console:
        from spae_dask.cli.performance import wanted_report
        from spae_dask.cli.target import check_paths
        from spae_dask.errors import InvalidInput
        from spae_dask.estimators.saved import in_order, load_encoder, save_encoder
        from spae_dask.storage.artifacts.artifact_reading import encoder_fingerprint
        from spae_dask.storage.remote.address import is_remote

        target = encoder if output is None else output
        page = wanted_report(performance_report, target)
        if output is None and is_remote(encoder):
            raise InvalidInput(
                f"{encoder} is on an object store, which cannot replace an encoder in one step: a killed run would "
                "leave none. Give the new encoder a URL of its own with -o."
            )
        check_paths(target, [data] if output is None else [data, encoder], force=force or output is None)
        with in_order(data, encoder, f"Use `spae update {in_shell(data)} {in_shell(encoder)}`."):
            known = encoder_fingerprint(encoder)
        fitted = load_encoder(encoder).set_params(memory_limit=memory, progress=console.progress)
        source = which.open(data, memory, console, fitted)
        with where.place(memory, page).ready(source, console):
            fitted.update(source, forget=forget)
        if output is None and encoder_fingerprint(encoder) != known:
            raise InvalidInput(
                f"{encoder} was written again during the update, probably by another update, which would be lost. "
                "Run this one again."
            )
        save_encoder(fitted, target, overwrite=force or output is None)
        certificate = fitted.certificate_
        console.result(
            certificate.text(verbose=console.verbose > 0),
            {
                "data": data,
                "encoder": target,
                "certificate": certificate.as_dict(),
                "selected_features": fitted.selected_features_,
                "parts": fitted.provenance_["parts"],
            },
        )
        console.note(f"wrote              {target}")
        console.note(f"next               spae inspect {in_shell(target)}")
