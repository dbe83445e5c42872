"""The arguments and options that several verbs share, each declared once. Light: nothing heavy is imported."""

import csv
import re
from enum import StrEnum
from typing import Annotated

import typer

WHAT, DATA, WHERE, OUTPUT, SCREEN = (
    "What to find",
    "Data",
    "Where it runs",
    "Output",
    "Screen",
)
"""Panels of the help."""


class Method(StrEnum):
    """How the encoder is built."""

    polished = "polished"
    batch = "batch"
    iterative = "iterative"
    doubly_sparse = "doubly-sparse"


class Selection(StrEnum):
    """How its columns are chosen."""

    dual_set = "dual-set"
    adaptive = "adaptive"
    adaptive_derandomized = "adaptive-derandomized"
    greedy = "greedy"
    full_greedy = "full-greedy"
    leverage = "leverage"
    pivoted_qr = "pivoted-qr"
    exchange = "exchange"


class Strategy(StrEnum):
    """What a read leaves behind."""

    auto = "auto"
    gram = "gram"
    tsqr = "tsqr"
    sketch = "sketch"
    sample = "sample"
    stream = "stream"
    paper = "paper"


class Precision(StrEnum):
    """How products of rows are made."""

    exact = "exact"
    fast = "fast"


class Missing(StrEnum):
    """What NaN means."""

    error = "error"
    mean = "mean"
    zero = "zero"


def check_cluster(given: str | None) -> str | None:
    """Refuse what no connector understands, before anything is imported or read."""
    if given is None or re.fullmatch(r"none|local(:[1-9][0-9]{0,4})?|.*\.toml", given):
        return given
    found = re.fullmatch(r"(?:tcp|tls)://\S+:([0-9]{1,5})", given)
    if found is not None and 0 < int(found[1]) <= 65535:
        return given
    raise typer.BadParameter(
        f"{given!r} is not understood: give none, local, local:N, tcp://HOST:PORT, tls://HOST:PORT or a cluster file, "
        "FILE.toml"
    )


def check_nonzeros(given: str | None) -> str | None:
    """Refuse what is no list of whole numbers; which numbers are allowed, the data tell."""
    if given is None or re.fullmatch(r"\d+(,\d+)*", given):
        return given
    raise typer.BadParameter(f"{given!r} is not a whole number, nor several with commas between them")


def nonzeros_of(given: str | None) -> int | tuple[int, ...] | None:
    """A number, a tuple of numbers, or ``None``, as the library takes them."""
    if given is None:
        return None
    numbers = tuple(map(int, given.split(",")))
    return numbers if len(numbers) > 1 else numbers[0]


def check_columns(given: str | None) -> str | None:
    """Refuse what names no column."""
    if given is not None and not all(columns_of(given) or ("",)):
        raise typer.BadParameter(f"{given!r} has a name that is empty: write a,b,'expr_*'")
    return given


def columns_of(given: str | None) -> tuple[str, ...] | None:
    """Names and patterns, as the library takes them; a name with a comma stands in double quotes."""
    if given is None:
        return None
    return tuple(each.strip() for each in next(csv.reader([given], skipinitialspace=True), ()))


def check_eps(given: float | None) -> float | None:
    """Refuse what is no excess."""
    if given is None or 0 < given < float("inf"):
        return given
    raise typer.BadParameter(f"{given} is not a positive number: 0.05 allows 5 % more loss than PCA's")


def check_tolerance(given: float | None) -> float | None:
    """Refuse what is no tolerance."""
    if given is None or 0 < given < float("inf"):
        return given
    raise typer.BadParameter(f"{given} is not a positive number: 0.01 leaves 1 % of PCA's loss at most to gain")


def check_memory(given: str | None) -> str | None:
    """Refuse what is not a number of bytes."""
    if given is None or (
        re.fullmatch(r"\d+(\.\d*)?\s*([kKMGTP]i?)?[bB]?", given) and float(re.match(r"[\d.]+", given)[0]) > 0  # type: ignore[index]
    ):
        return given
    raise typer.BadParameter(f"{given!r} is not a number of bytes above 0: write 2GB, 512MiB or 2000000000")


DataArgument = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        help="A Zarr array, group or AnnData store, a Parquet file or folder, or an Arrow file (path or URL), or an "
        ".h5ad or .npy file.",
        show_default=False,
    ),
]
EncoderArgument = Annotated[
    str,
    typer.Argument(metavar="ENCODER", help="An encoder that `spae fit -o` wrote.", show_default=False),
]
ArrayOption = Annotated[
    str | None,
    typer.Option(
        "--array",
        metavar="NAME",
        help="Which member, if DATA is a Zarr group or of AnnData, such as layers/counts.",
        rich_help_panel=DATA,
    ),
]
ColumnsOption = Annotated[
    str | None,
    typer.Option(
        "--columns",
        metavar="NAMES",
        callback=check_columns,
        help="Which columns of a table: names or patterns with commas between, as in a,b,'expr_*'. Default: all.",
        show_default=False,
        rich_help_panel=DATA,
    ),
]
MissingOption = Annotated[
    Missing,
    typer.Option(
        "--missing",
        help="What NaN means: refuse it, or fill it with the column's mean (one more read) or with zero.",
        rich_help_panel=DATA,
    ),
]
MissingValueOption = Annotated[
    float | None,
    typer.Option(
        "--missing-value",
        metavar="X",
        help="A number that stands for missing beside NaN, such as -1 in genotypes; --missing says what becomes of it.",
        show_default=False,
        rich_help_panel=DATA,
    ),
]
StrictOption = Annotated[
    bool,
    typer.Option("--strict", help="Chunks that are not stored are an error, not a warning.", rich_help_panel=DATA),
]

ComponentsOption = Annotated[
    int,
    typer.Option(
        "-k", "--components", metavar="K", help="Number of components.", show_default=False, rich_help_panel=WHAT
    ),
]
NonzeroOption = Annotated[
    str | None,
    typer.Option(
        "-r",
        "--nonzeros",
        metavar="R",
        callback=check_nonzeros,
        help="The most features a component may use: one number, or one a component, as in 12,8,8.",
        rich_help_panel=WHAT,
    ),
]
EpsOption = Annotated[
    float | None,
    typer.Option(
        "--eps",
        metavar="E",
        callback=check_eps,
        help="In place of -r: the fewest features found that lose at most 1 + E times what PCA loses.",
        rich_help_panel=WHAT,
    ),
]
MethodOption = Annotated[
    Method,
    typer.Option(
        "--method",
        metavar="NAME",
        help="How the encoder is built: polished (each component on the best R features found for it), batch (the "
        "paper's: all on the same R), iterative (the paper's: one after another) or doubly-sparse (few rows as well; "
        "one more read).",
        rich_help_panel=WHAT,
    ),
]
SelectionOption = Annotated[
    Selection,
    typer.Option(
        "--selection",
        metavar="NAME",
        help="How the paper's methods choose columns (polished starts from them): dual-set, adaptive, "
        "adaptive-derandomized, greedy, full-greedy, leverage, pivoted-qr or exchange.",
        rich_help_panel=WHAT,
    ),
]
OrthonormalOption = Annotated[
    bool,
    typer.Option(
        "--orthonormal",
        help="Orthonormal components: the same loss and features in all, but each may use all of them.",
        rich_help_panel=WHAT,
    ),
]
SharedOption = Annotated[
    bool,
    typer.Option("--shared-support", help="Polished, but all components on the same R features.", rich_help_panel=WHAT),
]
RowsOption = Annotated[
    int | None,
    typer.Option(
        "--rows",
        metavar="N",
        min=1,
        help="Rows a doubly sparse decoder is made of; four a component if not given.",
        show_default=False,
        rich_help_panel=WHAT,
    ),
]
RepeatsOption = Annotated[
    int,
    typer.Option(
        "--repeats",
        metavar="N",
        min=1,
        help="With --strategy paper: sampling rounds, of which the best is kept.",
        rich_help_panel=WHERE,
    ),
]
PowerOption = Annotated[
    int,
    typer.Option(
        "--power-iterations",
        metavar="N",
        min=0,
        help="With --strategy paper: extra passes that sharpen the projection.",
        rich_help_panel=WHERE,
    ),
]
CenterOption = Annotated[
    bool, typer.Option("--center/--no-center", help="Take the data about their column means.", rich_help_panel=WHAT)
]
ScaleOption = Annotated[
    bool,
    typer.Option("--scale", help="Divide columns by their standard deviations.", rich_help_panel=WHAT),
]
SeedOption = Annotated[
    int, typer.Option("--seed", metavar="N", help="Seed of everything random.", rich_help_panel=WHAT)
]
StrategyOption = Annotated[
    Strategy,
    typer.Option(
        "--strategy",
        help="What the read leaves behind: a Gram matrix, or a triangular factor (more digits of float64 data). "
        "sketch: two reads, for any number of features. stream: one read for any number, losses in certified "
        "intervals. sample: no more row blocks than --tolerance takes. paper: the paper's own five passes, each with a "
        "thin state, for --method batch.",
        rich_help_panel=WHERE,
    ),
]
PrecisionOption = Annotated[
    Precision,
    typer.Option(
        "--precision",
        help="exact: all arithmetic in float64. fast: products in float32, summed in float64, at about half the time; "
        "the loss is then known to 3e-5 of the total, usually a hundred times better.",
        rich_help_panel=WHERE,
    ),
]
CertifiedOption = Annotated[
    bool,
    typer.Option(
        "--certified",
        help="With --strategy sketch or stream: a certified lower bound on PCA's loss in place of an estimate.",
        rich_help_panel=WHERE,
    ),
]
CandidatesOption = Annotated[
    int | None,
    typer.Option(
        "--candidates",
        metavar="N",
        min=1,
        help="With --strategy sketch: features that the second read settles exactly. Default: 4 times all nonzeros. "
        "With stream: features that are searched. Default: 8 times all nonzeros, at least 256.",
        show_default=False,
        rich_help_panel=WHERE,
    ),
]
SketchRowsOption = Annotated[
    int | None,
    typer.Option(
        "--sketch-rows",
        metavar="N",
        min=1,
        help="With --strategy sketch: rows of the sketch. Default: 20 times the nonzeros of a component, at least 200. "
        "With stream: 4 times the components, at least 128; more make its intervals narrower.",
        show_default=False,
        rich_help_panel=WHERE,
    ),
]
ToleranceOption = Annotated[
    float | None,
    typer.Option(
        "--tolerance",
        metavar="T",
        callback=check_tolerance,
        help="Read row blocks in random order until at most T times PCA's loss is left to gain; the certificate is "
        "then an estimate. With --strategy sample: 0.01.",
        show_default=False,
        rich_help_panel=WHERE,
    ),
]
CalibrateOption = Annotated[
    bool,
    typer.Option(
        "--calibrate/--no-calibrate",
        help="Measure rates on a few blocks, or go by nominal ones and read nothing.",
        rich_help_panel=WHERE,
    ),
]
ClusterOption = Annotated[
    str | None,
    typer.Option(
        "--cluster",
        metavar="WHERE",
        callback=check_cluster,
        help="none (threads of this process), local or local:N (N processes; one a core), or the address of a running "
        "Dask scheduler, tcp://HOST:PORT or tls://HOST:PORT, or FILE.toml, which describes workers on Slurm, PBS, LSF, "
        "SGE or Kubernetes. Default: local, but none for data under 64 MiB, because starting processes takes longer "
        "than reading those.",
        show_default=False,
        rich_help_panel=WHERE,
    ),
]
TlsDirOption = Annotated[
    str | None,
    typer.Option(
        "--tls-dir",
        metavar="DIR",
        help="With --cluster tls://...: folder of certificates, as `spae certs` writes it. Default: those that dask's "
        "own configuration names.",
        show_default=False,
        rich_help_panel=WHERE,
    ),
]
MemoryOption = Annotated[
    str | None,
    typer.Option(
        "--memory",
        metavar="BYTES",
        callback=check_memory,
        help="What each process may use, such as 2GB. What does not fit is refused before it starts. "
        "Default: the machine's memory, shared out.",
        show_default=False,
        rich_help_panel=WHERE,
    ),
]

CheckpointOption = Annotated[
    str | None,
    typer.Option(
        "--checkpoint",
        metavar="DIR",
        help="Keep what is done so far in this folder, which all workers must see, or under this URL (s3://...). The "
        "same command given again reads only what is missing, and comes to the same bits. Removed when the output is "
        "written.",
        show_default=False,
        rich_help_panel=WHERE,
    ),
]
SharedCheckpointOption = Annotated[
    str,
    typer.Option(
        "--checkpoint",
        metavar="DIR",
        help="The folder, which all parts must see, or the URL (s3://...) in which the parts come together.",
        show_default=False,
        rich_help_panel=WHERE,
    ),
]
KeepCheckpointOption = Annotated[
    bool,
    typer.Option("--keep-checkpoint", help="Leave the checkpoint when the output is written.", rich_help_panel=WHERE),
]
PerformanceOption = Annotated[
    str | None,
    typer.Option(
        "--performance-report",
        metavar="FILE.html",
        help="Write dask's report of what the cluster did, an HTML page, when all went well.",
        show_default=False,
        rich_help_panel=WHERE,
    ),
]
ForceOption = Annotated[
    bool, typer.Option("--force", "-f", help="Replace the output if it exists.", rich_help_panel=OUTPUT)
]
JsonOption = Annotated[
    bool,
    typer.Option("--json", help="Print one JSON object on stdout, and nothing else there.", rich_help_panel=SCREEN),
]
QuietOption = Annotated[
    bool, typer.Option("--quiet", "-q", help="Only the result, warnings and errors.", rich_help_panel=SCREEN)
]
VerboseOption = Annotated[
    int,
    typer.Option(
        "--verbose",
        "-v",
        count=True,
        help="Log what happens on stderr; -vv for all of it.",
        show_default=False,
        rich_help_panel=SCREEN,
    ),
]
LogJsonOption = Annotated[
    bool,
    typer.Option(
        "--log-json",
        help="Progress, notes, logs, warnings and errors as JSON objects, one a line, on stderr.",
        rich_help_panel=SCREEN,
    ),
]
DebugOption = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.", rich_help_panel=SCREEN)]
