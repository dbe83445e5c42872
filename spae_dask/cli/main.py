"""The command ``spae``. Importing this imports no numerical library: help and usage errors come at once."""

import functools
import signal
import sys
from collections.abc import Callable, Sequence
from typing import Annotated, Any, NoReturn

import typer
from rich.markup import escape
from typer.main import get_command

from spae_dask import __version__
from spae_dask.cli import (
    certs,
    check,
    checkpoint,
    clean,
    demo,
    evaluate,
    fit,
    fit_finish,
    fit_part,
    ingest,
    inspect,
    mpi,
    panel,
    path,
    plan,
    prove,
    report,
    submit,
    transform,
    update,
)
from spae_dask.cli import run as run_verb
from spae_dask.cli.console import STDOUT, Console, forget, prepare_streams, unwritten
from spae_dask.cli.exits import BROKEN_PIPE
from spae_dask.cli.parsing import UsageError, Verb, asked_for_help, in_paragraphs
from spae_dask.machine import return_freed_arrays

app = typer.Typer(
    name="spae",
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes: 0 done, 2 usage, 3 bad input, 4 does not fit the memory, 5 storage, 6 cluster. 75 parts "
    "missing, 130 interrupted, 143 terminated. Start with `spae demo`, or with `spae check DATA`. `spae "
    "help COMMAND` shows more.",
)

DEMO_EXAMPLES = """Examples:

  spae demo
  spae demo -o somewhere/else --json
"""

VERBS: dict[str, tuple[Callable[..., None], str]] = {
    "demo": (demo.demo, DEMO_EXAMPLES),
    "ingest": (ingest.ingest, ingest.EXAMPLES),
    "check": (check.check, check.EXAMPLES),
    "plan": (plan.plan, plan.EXAMPLES),
    "fit": (fit.fit, fit.EXAMPLES),
    "fit-part": (fit_part.fit_part, fit_part.EXAMPLES),
    "fit-finish": (fit_finish.fit_finish, fit_finish.EXAMPLES),
    "update": (update.update, update.EXAMPLES),
    "transform": (transform.transform, transform.EXAMPLES),
    "evaluate": (evaluate.evaluate, evaluate.EXAMPLES),
    "path": (path.path, path.EXAMPLES),
    "panel": (panel.panel, panel.EXAMPLES),
    "prove": (prove.prove, prove.EXAMPLES),
    "inspect": (inspect.inspect, inspect.EXAMPLES),
    "report": (report.report, report.EXAMPLES),
    "run": (run_verb.run, run_verb.EXAMPLES),
    "submit": (submit.submit, submit.EXAMPLES),
    "certs": (certs.certs, certs.EXAMPLES),
    "clean": (clean.clean, clean.EXAMPLES),
}
"""In the order of use, which is the order of the help."""

for _name, (_verb, _examples) in VERBS.items():
    app.command(_name, cls=Verb, epilog=_examples)(_verb)
app.add_typer(checkpoint.app, name="checkpoint")
app.command("mpi", epilog=mpi.EXAMPLES, context_settings=mpi.TAKES_COMMAND)(mpi.mpi)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"spae {__version__}")
        raise typer.Exit


@app.callback()
def spae(
    version: Annotated[
        bool, typer.Option("--version", "-V", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Sparse PCA with a certificate, on matrices that do not fit in memory."""


@functools.cache
def _command() -> Any:
    """The command with its verbs, whose texts mean what they say: ``[demo]`` in them is no markup."""
    command = get_command(app)
    every: list[Any] = [command]
    for each in every:
        every += getattr(each, "commands", {}).values()
        each.epilog = escape(each.epilog or "")
        each.help = in_paragraphs(each.help or "")
        for texts in (each, *each.params):
            texts.help = escape(getattr(texts, "help", None) or "")
    return command


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and give back its exit code; nothing is raised for what a user can do wrong.

    Parameters
    ----------
    argv : sequence of str, optional
        The words after ``spae``; those of this process if not given.
    """
    words = asked_for_help(list(sys.argv[1:] if argv is None else argv))
    try:
        code = _command()(args=words or ["--help"], prog_name="spae", standalone_mode=False, obj=main)
        if not words:
            code = 2
    except UsageError as error:
        console = Console(as_json="--json" in words, quiet=True, verbose=0, log_json="--log-json" in words)
        code = console.close(console.fail(error, debug=False))
    return int(code or 0)


def run() -> NoReturn:
    """Run the command of this process, and end the process."""
    prepare_streams()
    return_freed_arrays()
    try:
        code = main()
        sys.stdout.flush()
    except KeyboardInterrupt:  # before there was anything to clean up
        code = 128 + signal.SIGINT
    except BrokenPipeError:
        forget(STDOUT)
        code = BROKEN_PIPE
    except OSError as error:  # of help and version; commands report their own
        forget(STDOUT)
        code = Console(as_json=False, quiet=True, verbose=0).fail(unwritten(error), debug=False)
    sys.exit(code)
