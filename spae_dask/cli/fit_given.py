"""What `spae fit`, `spae fit-part` and `spae fit-finish` are all given, declared once."""

import inspect
import shlex
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from spae_dask.cli import options

if TYPE_CHECKING:
    from spae_dask.blocks import RowBlocks
    from spae_dask.engine.plan import Plan, Resources

EncoderOutput = Annotated[
    str,
    typer.Option(
        "-o",
        "--output",
        metavar="ENCODER",
        help="Where the encoder is written: a Zarr group.",
        show_default=False,
        rich_help_panel=options.OUTPUT,
    ),
]


@dataclass(frozen=True)
class FitGiven:
    """The data, what to find in them, how, and what the screen shows: as on the command line."""

    data: options.DataArgument
    components: options.ComponentsOption
    nonzeros: options.NonzeroOption = None
    eps: options.EpsOption = None
    method: options.MethodOption = options.Method.polished
    selection: options.SelectionOption = options.Selection.dual_set
    center: options.CenterOption = True
    scale: options.ScaleOption = False
    orthonormal: options.OrthonormalOption = False
    shared_support: options.SharedOption = False
    rows: options.RowsOption = None
    seed: options.SeedOption = 0
    array: options.ArrayOption = None
    columns: options.ColumnsOption = None
    missing: options.MissingOption = options.Missing.error
    missing_value: options.MissingValueOption = None
    strict: options.StrictOption = False
    strategy: options.StrategyOption = options.Strategy.auto
    repeats: options.RepeatsOption = 1
    power_iterations: options.PowerOption = 0
    precision: options.PrecisionOption = options.Precision.exact
    certified: options.CertifiedOption = False
    candidates: options.CandidatesOption = None
    sketch_rows: options.SketchRowsOption = None
    tolerance: options.ToleranceOption = None
    memory: options.MemoryOption = None
    as_json: options.JsonOption = False
    quiet: options.QuietOption = False
    verbose: options.VerboseOption = 0
    debug: options.DebugOption = False
    log_json: options.LogJsonOption = False

    def check(self) -> None:
        """Refuse none or both of the two ways to say how many nonzeros."""
        if (self.nonzeros is None) == (self.eps is None):
            raise typer.BadParameter(
                "give exactly one: the most features a component may use, or how much more than PCA it may lose",
                param_hint="'-r' / '--eps'",
            )

    @property
    def screen(self) -> dict[str, Any]:
        """What the session takes."""
        return {
            "as_json": self.as_json,
            "quiet": self.quiet,
            "verbose": self.verbose,
            "debug": self.debug,
            "log_json": self.log_json,
            "strict": self.strict,
        }

    @property
    def planned(self) -> dict[str, Any]:
        """Parameters of a plan and of an encoder."""
        return {
            "n_components": self.components,
            "n_nonzero": options.nonzeros_of(self.nonzeros),
            "method": self.method.value,
            "strategy": self.strategy.value,
            "missing": self.missing.value,
            "missing_value": self.missing_value,
            "shared_support": self.shared_support,
            "precision": self.precision.value,
            "certified": self.certified,
            "n_candidates": self.candidates,
            "sketch_rows": self.sketch_rows,
            "tolerance": self.tolerance,
            "memory_limit": self.memory,
        }

    @property
    def fitted(self) -> dict[str, Any]:
        """Parameters of the encoder."""
        return self.planned | {
            "eps": 0.1 if self.eps is None else self.eps,
            "selection": self.selection.value,
            "center": self.center,
            "scale": self.scale,
            "orthonormal": self.orthonormal,
            "n_rows": self.rows,
            "n_repeats": self.repeats,
            "power_iterations": self.power_iterations,
            "random_state": self.seed,
        }

    def open(self) -> "RowBlocks":
        """The data, of which nothing but metadata is read."""
        from spae_dask.storage.open import open_matrix

        return open_matrix(self.data, array=self.array, columns=options.columns_of(self.columns))

    @property
    def part_of_data(self) -> str:
        """The options that say what of the data is meant, as on the command line, after a blank."""
        given = {"--array": self.array, "--columns": self.columns}
        return "".join(f" {option} {shlex.quote(value)}" for option, value in given.items() if value is not None)

    def plan(self, source: "RowBlocks", *, calibrate: bool = False, resources: "Resources | None" = None) -> "Plan":
        """What the fit will read, hold and take."""
        from spae_dask.estimators.planning import plan

        return plan(source, calibrate=calibrate, resources=resources, **self.planned)

    def words(self) -> str:
        """The data and all that differs from the defaults, as on the command line."""
        hints = get_type_hints(type(self), include_extras=True)
        words = [f"./{self.data}" if self.data.startswith("-") else self.data]  # or it would be taken for an option
        for field in fields(self):
            value = getattr(self, field.name)
            if value == field.default or field.name == "data":
                continue
            option = hints[field.name].__metadata__[0]  # in Annotated, typer takes the first name for a default
            yes, _, no = (option.default, *option.param_decls)[0].partition("/")
            if field.name == "verbose":
                words += [yes] * value
            elif isinstance(value, bool):
                words.append(yes if value else no)
            else:
                words += [yes, str(getattr(value, "value", value))]
        return shlex.join(words)


def takes_fit_options(verb: Callable[..., None]) -> Callable[..., None]:
    """Have a verb take the fields of ``FitGiven`` as options, after its own; it gets them as further keywords."""
    hints = get_type_hints(FitGiven, include_extras=True)
    shared = [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if field.name in ("data", "components") else field.default,
            annotation=hints[field.name],
        )
        for field in fields(FitGiven)
    ]
    own = [
        each.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        for each in inspect.signature(verb, eval_str=True).parameters.values()
        if each.kind is not inspect.Parameter.VAR_KEYWORD
    ]
    parameters = [*own, *shared]
    verb.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # what inspect looks for
    verb.__annotations__ = {each.name: each.annotation for each in parameters}
    return verb
