"""Options for the console."""

from dataclasses import dataclass
from typing import Annotated

import typer

from spae_dask.cli.options.groups import SCREEN

JsonOption = Annotated[
    bool,
    typer.Option("--json", help="Print one JSON object to stdout and nothing else.", rich_help_panel=SCREEN),
]
QuietOption = Annotated[
    bool, typer.Option("--quiet", "-q", help="Print only the result, warnings and errors.", rich_help_panel=SCREEN)
]
VerboseOption = Annotated[
    int,
    typer.Option(
        "--verbose",
        "-v",
        count=True,
        help="Log events to stderr and show the full certificate. -vv logs everything.",
        show_default=False,
        rich_help_panel=SCREEN,
    ),
]
DebugOption = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.", rich_help_panel=SCREEN)]
LogJsonOption = Annotated[
    bool,
    typer.Option(
        "--log-json",
        help="Write progress, notes, logs, warnings and errors to stderr as JSON, one object per line.",
        rich_help_panel=SCREEN,
    ),
]


@dataclass(frozen=True)
class ConsoleOptions:
    """Options that all verbs share."""

    as_json: JsonOption = False
    quiet: QuietOption = False
    verbose: VerboseOption = 0
    debug: DebugOption = False
    log_json: LogJsonOption = False
