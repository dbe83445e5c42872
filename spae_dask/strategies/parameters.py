"""The parameters of a fit, each written once: its field holds all that the API and the command line need.

The command line, the pipelines, :func:`spae_dask.plan`, ``GridEncoder``, ``sparse_pca`` and the lines that reproduce a
fit are made from the fields of `FitParameters`. To add a parameter, write it in three places: a field here, an argument
of ``SparseEncoder.__init__`` with its paragraph in the docstring, and the algorithm that uses it.
``tests/strategies/test_parameters.py`` holds all doors to the fields.

This module is light: the help of the command line is made from it, and imports no numerical library.
"""

import functools
import inspect
import math
import operator
import reprlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from numbers import Real
from typing import Any, Literal, TypeAlias, TypeVar

from spae_dask.errors import InvalidInput
from spae_dask.features import (
    FeaturesLike,
    LimitsLike,
    ValuesLike,
    costs_of,
    features_of,
    groups_of,
    is_table,
    limits_of,
    positions_of,
)
from spae_dask.flags import WANTED, is_flag
from spae_dask.plain_files import listed
from spae_dask.recipes import Recipe, RecipeLike
from spae_dask.rules import RULES, Rules
from spae_dask.toml.names import did_you_mean

METHODS = ("polished", "batch", "iterative", "doubly-sparse")
SIZES = ("n_nonzero", "n_features", "budget", "eps", "keep")
"""Parameters that say how many features an encoder uses: the first three together, or one of the others."""
SHARED = ("batch", "doubly-sparse")
"""Methods whose components all use the same columns."""
RULED = {"polished": ("dual-set", "greedy", "exchange"), "batch": ("greedy", "exchange")}
"""Methods that keep to rules, and the selections with which they do. The polished method then starts from a greedy
choice in place of dual-set."""
STRATEGIES = ("auto", "gram", "tsqr", "sketch", "stream", "sample", "paper")
EVALUATIONS = ("auto", "gram", "tsqr", "sketch")
"""Strategies that evaluate an encoder, in one read."""
TOLERANCE = 0.01
"""Tolerance of ``strategy="sample"``, if none is given."""
KEEP = 0.95
"""Share of what PCA explains that an encoder keeps, if neither ``n_nonzero``, ``eps`` nor ``keep`` is given."""

TOP_FLAVORS = ("variance", "seurat_v3")
"""Orders of columns of which the first ``n_top_features`` are used."""

CHOSEN = "cv"
"""Number of components or of nonzeros that held-out folds choose."""
MOST_FOLDS = 100
MOST_BOOTSTRAPS = 10_000

UNKNOWN_COMPONENTS = 20
"""Number of components that a fit is planned to have if the data choose it."""

SCALES = ("std", "patterson")
"""Divisors of columns by name: standard deviations, and those of genotypes."""
SCALE_FILES = (".npy", ".csv")
"""Endings of files that hold divisors of columns."""
ScaleLike: TypeAlias = bool | str | Sequence[float]
"""A flag, a name, a file, or a divisor for each column."""

Sizes: TypeAlias = Mapping[str, int]
"""Number of ``"samples"`` and of ``"features"`` of the data, as far as they are known."""

UNKNOWN: Sizes = {}


@dataclass(frozen=True)
class Flag:
    """True or False."""

    def wrong(self, given: Any, sizes: Sizes = UNKNOWN) -> str | None:  # noqa: ARG002 - as of all kinds
        """Say what is allowed, if ``given`` is not; None if it is."""
        return None if is_flag(given) else WANTED


@dataclass(frozen=True)
class Choice:
    """One of the names allowed."""

    names: tuple[str, ...]

    def wrong(self, given: Any, sizes: Sizes = UNKNOWN) -> str | None:  # noqa: ARG002 - as of all kinds
        """Say what is allowed, if ``given`` is not; None if it is."""
        if isinstance(given, str) and given in self.names:
            return None
        return f"give one of {', '.join(map(repr, self.names))}.{did_you_mean(given, list(self.names))}"


@dataclass(frozen=True)
class Count:
    """A whole number from ``least`` up to ``most``, which may be the number of samples or features of the data."""

    least: int = 1
    most: int | Literal["samples", "features"] | None = None
    or_chosen: bool = False
    """True to allow ``CHOSEN``, which has held-out folds choose the number."""
    or_share: bool = False
    """True to allow a share between 0 and 1, for which the data choose the number."""

    def wrong(self, given: Any, sizes: Sizes = UNKNOWN) -> str | None:
        """Say what is allowed, if ``given`` is not; None if it is."""
        if (self.or_chosen and is_chosen(given)) or (self.or_share and is_share(given)):
            return None
        number, most = whole(given), sizes.get(self.most) if isinstance(self.most, str) else self.most
        word = ", a share between 0 and 1 such as 0.95" if self.or_share else ""
        word += f", or {CHOSEN!r}" if self.or_chosen else ""
        if number is not None and self.least <= number <= (math.inf if most is None else most):
            return None
        if most is None:
            return f"give a whole number of at least {self.least}{word}."
        of_data = f", the number of {self.most} (n_{self.most} = {most})" if isinstance(self.most, str) else ""
        return f"give a whole number from {self.least} to {most}{of_data}{word}."


@dataclass(frozen=True)
class Counts:
    """A count of at most the number of features, or one for each component."""

    or_chosen: bool = False
    """True to allow ``CHOSEN``, which has held-out folds choose the number."""

    def wrong(self, given: Any, sizes: Sizes = UNKNOWN) -> str | None:
        """Say what is allowed, if ``given`` is not; None if it is."""
        if self.or_chosen and is_chosen(given):
            return None
        found = [said for each in several(given) or (given,) if (said := Count(most="features").wrong(each, sizes))]
        return f"{found[0][:-1]}, or one for each component, such as 12, 8 and 8." if found else None


@dataclass(frozen=True)
class Number:
    """A number between 0 and ``below``, without both."""

    example: str
    below: float = math.inf

    def wrong(self, given: Any, sizes: Sizes = UNKNOWN) -> str | None:  # noqa: ARG002 - as of all kinds
        """Say what is allowed, if ``given`` is not; None if it is."""
        if is_number(given) and 0 < given < self.below:
            return None
        wanted = "positive number" if self.below == math.inf else f"number between 0 and {self.below:g}"
        return f"give a {wanted}, such as {self.example}."


@dataclass(frozen=True)
class Numbers:
    """A number, or several."""

    def wrong(self, given: Any, sizes: Sizes = UNKNOWN) -> str | None:  # noqa: ARG002 - as of all kinds
        """Say what is allowed, if ``given`` is not; None if it is."""
        if all(is_number(each) for each in several(given) or (given,)):
            return None
        return "give a number, such as -1, or several, such as -1 and -2."


@dataclass(frozen=True)
class Steps:
    """The steps of a recipe for raw rows."""

    def wrong(self, given: Any, sizes: Sizes = UNKNOWN) -> str | None:  # noqa: ARG002 - as of all kinds
        """Say what is allowed, if ``given`` is not; None if it is."""
        return _said(lambda: Recipe.of(given))


@dataclass(frozen=True)
class OfRows:
    """Something known of each row: names of where it is kept, or the values."""

    def wrong(self, given: Any, sizes: Sizes = UNKNOWN) -> str | None:  # noqa: ARG002 - as of all kinds
        """Say what is allowed, if ``given`` is not; None if it is."""
        if isinstance(given, str):
            fine = all(each.strip() for each in given.split(","))
        elif isinstance(given, list | tuple):
            fine = bool(given) and all(isinstance(each, str | bool) or is_number(each) for each in given)
        else:  # of an array, a table or a series
            fine = isinstance(given, Mapping) or hasattr(given, "shape") or hasattr(given, "n_rows")
        if fine:
            return None
        return (
            "give names of columns of obs or of the table, such as 'batch,age'. Or give the values of all rows: an "
            "array, a DataFrame, or a dict of arrays."
        )


@dataclass(frozen=True)
class OfRow:
    """One number of each row: the name of where it is kept, or the numbers."""

    def wrong(self, given: Any, sizes: Sizes = UNKNOWN) -> str | None:  # noqa: ARG002 - as of all kinds
        """Say what is allowed, if ``given`` is not; None if it is."""
        if isinstance(given, str):
            fine = bool(given.strip())
        elif isinstance(given, list | tuple):
            fine = bool(given) and all(is_number(each) for each in given)
        else:  # an array or a series
            fine = isinstance(given, Mapping) or any(hasattr(given, each) for each in ("shape", "n_rows", "__array__"))
        if fine:
            return None
        return (
            "give the name of a column of obs or of the table, such as 'weight', or a .npy or .csv file. Or give an "
            "array of one number for each row."
        )


@dataclass(frozen=True)
class Scale:
    """Divisors of the columns: a flag, a name, a file, or a positive number for each column."""

    def wrong(self, given: Any, sizes: Sizes = UNKNOWN) -> str | None:
        """Say what is allowed, if ``given`` is not; None if it is."""
        numbers, d = several(given), sizes.get("features")
        if numbers is None and (is_flag(given) or (isinstance(given, str) and given in SCALES) or is_scale_file(given)):
            return None
        if numbers is None:
            files = " or ".join(SCALE_FILES)
            return f"give True, False, {', '.join(map(repr, SCALES))}, a divisor for each column, or a {files} file."
        if not numbers or not all(is_number(each) and 0 < each < math.inf for each in numbers):
            return "give positive numbers: columns are divided by them."
        if d is None or len(numbers) == d:
            return None
        return f"give one divisor for each of the {d} columns (n_features = {d}); these are {len(numbers)}."


@dataclass(frozen=True)
class Features:
    """Features of the data: names, patterns, numbers, a mask, or a file of names."""

    def wrong(self, given: Any, sizes: Sizes = UNKNOWN) -> str | None:
        """Say what is allowed, if ``given`` is not; None if it is."""
        return _said(lambda: features_of(given, sizes.get("features")))


@dataclass(frozen=True)
class Costs:
    """Costs of features: by feature, of all in order, or in a file."""

    def wrong(self, given: Any, sizes: Sizes = UNKNOWN) -> str | None:
        """Say what is allowed, if ``given`` is not; None if it is."""
        return None if is_table(given) else _said(lambda: costs_of(given, sizes.get("features")))


@dataclass(frozen=True)
class Groups:
    """Groups of features: by feature, of all in order, or in a file."""

    def wrong(self, given: Any, sizes: Sizes = UNKNOWN) -> str | None:
        """Say what is allowed, if ``given`` is not; None if it is."""
        return None if is_table(given) else _said(lambda: groups_of(given, sizes.get("features")))


@dataclass(frozen=True)
class Positions:
    """Positions of features: by feature, of all in order, or in a file."""

    def wrong(self, given: Any, sizes: Sizes = UNKNOWN) -> str | None:
        """Say what is allowed, if ``given`` is not; None if it is."""
        return None if is_table(given) else _said(lambda: positions_of(given, sizes.get("features")))


@dataclass(frozen=True)
class Limits:
    """A whole number for all groups, or one for each."""

    def wrong(self, given: Any, sizes: Sizes = UNKNOWN) -> str | None:  # noqa: ARG002 - as of all kinds
        """Say what is allowed, if ``given`` is not; None if it is."""
        return _said(lambda: limits_of(given))


OfFeatures: TypeAlias = Features | Costs | Groups | Limits | Positions

Kind: TypeAlias = Flag | Choice | Count | Counts | Number | Numbers | Steps | Scale | OfRows | OfRow | OfFeatures


def _said(read: Callable[[], object]) -> str | None:
    """The message with which something is refused; None if it is read."""
    try:
        read()
    except InvalidInput as error:
        return str(error)
    return None


def is_chosen(given: Any) -> bool:
    """Return True for the word that has held-out folds choose a number."""
    return isinstance(given, str) and given == CHOSEN


def is_share(given: Any) -> bool:
    """Return True for a number between 0 and 1, without both."""
    return is_number(given) and 0 < given < 1


def is_scale_file(given: Any) -> bool:
    """Return True for the name of a file of divisors."""
    return isinstance(given, str) and given.endswith(SCALE_FILES)


def whole(given: Any) -> int | None:
    """A whole number of any type as an int; None for all else."""
    try:
        return None if isinstance(given, bool) else operator.index(given)
    except TypeError:
        return None


def several(given: Any) -> tuple[Any, ...] | None:
    """The entries of a list, tuple or array; None for a single value."""
    is_list = isinstance(given, Sequence) and not isinstance(given, str | bytes)
    return tuple(given) if is_list or getattr(given, "ndim", 0) == 1 else None


def is_number(given: Any) -> bool:
    """Tell a real number of any type from all else."""
    return isinstance(given, Real) and not isinstance(given, bool)


@dataclass(frozen=True)
class Parameter:
    """Declaration of a parameter.

    Attributes
    ----------
    name : str
        Name of the field, which is also the key of a step of a pipeline.
    annotation, default : object
        Type and default value. A parameter whose default is None may be None.
    kind : Kind
        Values allowed.
    help : str
        Its paragraph in the help of the command line.
    panel : {"WHAT", "DATA", "WHERE"}
        Panel of the help.
    options : tuple of str
        Spellings on the command line, the long one last.
    metavar : str or None
        Stands for its value in the help.
    argument : str
        Name in Python, for ``SparseEncoder``, ``plan`` and all that take parameters as they do.
    required : bool
        Have the command line and the pipelines use no default.
    """

    name: str
    annotation: Any
    default: Any
    kind: Kind
    help: str
    panel: str
    options: tuple[str, ...]
    metavar: str | None
    argument: str
    required: bool

    @property
    def option(self) -> str:
        """Name of the option, as an identifier."""
        return self.options[-1].removeprefix("--").replace("-", "_")

    def check(self, given: Any, sizes: Sizes = UNKNOWN) -> None:
        """Refuse a value that is not allowed.

        Raises
        ------
        InvalidInput
            Naming the parameter, what was given and what is allowed.
        """
        if given is not None or self.default is not None:
            check_value(self.argument, given, self.kind, sizes)

    def words(self, given: Any) -> list[str]:
        """Command-line words that give a value to the parameter."""
        return option_words(self.options[0], given)


def option_words(option: str, given: Any) -> list[str]:
    """Command-line words that give a value to an option."""
    if isinstance(given, bool):
        return [option if given else option.replace("--", "--no-", 1)]
    if isinstance(given, Mapping):
        given = [f"{name}={_word(value)}" for name, value in given.items()]
    several_given = several(given)
    value = str(given) if several_given is None else listed(map(_word, several_given))
    return [f"{option}={value}"] if option in STAND_ALONE else [option, value]


def _word(given: Any) -> Any:
    """A value, or several with blanks between."""
    found = several(given)
    return given if found is None else " ".join(map(str, found))


def check_value(name: str, given: Any, kind: Kind, sizes: Sizes = UNKNOWN) -> None:
    """Refuse a value that is not of a kind.

    Raises
    ------
    InvalidInput
        Naming the parameter, what was given and what is allowed.
    """
    wrong = kind.wrong(given, sizes)
    if wrong is not None:
        is_one = several(given) is None and not isinstance(given, Mapping)
        shown = repr(given) if is_one else reprlib.repr(given)
        raise InvalidInput(f"{name}={shown} is not allowed: {wrong}")


def _parameter(
    default: Any,
    kind: Kind,
    panel: str,
    help: str,  # noqa: A002 - as typer calls it
    *,
    options: str = "",
    metavar: str | None = None,
    argument: str = "",
    required: bool = False,
) -> Any:
    """A field of `FitParameters`; options and argument are called as the field if nothing else is given."""
    about = {"kind": kind, "panel": panel, "help": help, "options": tuple(options.split()), "metavar": metavar}
    return field(default=default, metadata=about | {"argument": argument, "required": required})


@dataclass(frozen=True)
class FitParameters:
    """Parameters of a fit. ``SparseEncoder`` documents each at length."""

    n_components: int = _parameter(
        2,
        Count(most="features", or_chosen=True, or_share=True),
        "WHAT",
        "Number of components; a share that PCA explains, such as 0.95; or cv, chosen by --folds.",
        options="-k --components",
        metavar="K",
        required=True,
    )
    n_nonzero: int | str | Sequence[int] | None = _parameter(
        None,
        Counts(or_chosen=True),
        "WHAT",
        "Largest number of features of a component: one number, one for each (12,8,8), or cv (--folds).",
        options="-r --nonzeros",
        metavar="R",
    )
    n_features: int | None = _parameter(
        None,
        Count(most="features"),
        "WHAT",
        "Most features of all components together: a panel. With -r, each uses R of them at most.",
        options="-n --n-features",
        metavar="N",
    )
    eps: float | None = _parameter(
        None,
        Number("0.05 for 5 % more loss than PCA's"),
        "WHAT",
        "Instead of -r: use the fewest features found whose loss is at most 1 + E times PCA's loss.",
        metavar="E",
    )
    keep: float | None = _parameter(
        None,
        Number("0.95 for 95 % of the variance that PCA explains", below=1),
        "WHAT",
        "Instead of -r: use the fewest features found that keep a share P of the variance PCA explains.",
        metavar="P",
    )
    method: str = _parameter(
        "polished",
        Choice(METHODS),
        "WHAT",
        "Method that builds the encoder. polished loses the least; batch and iterative are the paper's.",
    )
    selection: str = _parameter(
        "dual-set",
        Choice(
            (
                "dual-set",
                "barrier",
                "adaptive",
                "adaptive-paper",
                "adaptive-derandomized",
                "greedy",
                "full-greedy",
                "leverage",
                "pivoted-qr",
                "exchange",
            )
        ),
        "WHAT",
        "Column selection of the paper's methods. The polished method starts from its result.",
    )
    center: bool = _parameter(True, Flag(), "WHAT", "Subtract the column means.")
    scale: ScaleLike = _parameter(  # noqa: RUF009 - as all fields
        False,
        Scale(),
        "WHAT",
        "Divide columns by standard deviations, those of genotypes (patterson), or numbers in a file.",
        metavar="[=std|patterson|FILE]",
    )
    strategy: str = _parameter(
        "auto",
        Choice(STRATEGIES),
        "WHERE",
        "Passes of the fit and the state they keep. auto chooses the cheapest that fits in memory.",
    )
    precision: str = _parameter(
        "exact",
        Choice(("exact", "fast")),
        "WHERE",
        "Precision of products. fast: float32 products, float64 sums, about half the time.",
    )
    missing: str = _parameter(
        "error",
        Choice(("error", "mean", "zero")),
        "DATA",
        "Treatment of NaN: refuse it, fill it with the column mean (one more pass), or fill it with zero.",
    )
    missing_value: float | Sequence[float] | None = _parameter(
        None,
        Numbers(),
        "DATA",
        "Numbers that mean missing, besides NaN: -1, or -1,-2. --missing sets how they are treated.",
        metavar="X[,X...]",
    )
    recipe: RecipeLike = _parameter(  # noqa: RUF009 - as all fields
        None,
        Steps(),
        "DATA",
        "Steps applied to raw rows as they are read, such as 'normalize_total(1e4), log1p'.",
        metavar="STEPS",
    )
    n_top_features: int | None = _parameter(
        None,
        Count(most="features"),
        "WHAT",
        "Use the N columns of largest variance, which one more read finds. Default: all.",
        options="--top-features",
        metavar="N",
    )
    top_features_flavor: str = _parameter(
        "variance",
        Choice(TOP_FLAVORS),
        "WHAT",
        "Order of --top-features: variances of the recipe's data, or scanpy's order of genes by raw counts.",
    )
    top_features_batch: Any = _parameter(  # noqa: RUF009 - as all fields
        None,
        OfRows(),
        "DATA",
        "With seurat_v3: rank genes in each batch. A column of obs or of the table, or a file.",
        metavar="NAME",
    )
    covariates: Any = _parameter(  # noqa: RUF009 - as all fields
        None,
        OfRows(),
        "DATA",
        "Covariates to remove: columns of obs or of the table, as in batch,age, or a .csv or .npy file.",
        metavar="NAME[,NAME...]",
    )
    row_weights: Any = _parameter(  # noqa: RUF009 - as all fields
        None,
        OfRow(),
        "DATA",
        "Weights of the rows: a column of obs or of the table, or a .csv or .npy file. Default: all 1.",
        metavar="NAME",
    )
    folds: int | None = _parameter(
        None,
        Count(2, MOST_FOLDS),
        "WHAT",
        "Folds of rows, for the loss on rows held out and the stability of features. No further read.",
        metavar="N",
    )
    bootstraps: int = _parameter(
        0,
        Count(0, MOST_BOOTSTRAPS),
        "WHAT",
        "With --folds: resamples of the folds, for a band of the ratio and the stability of features.",
        metavar="B",
    )
    fold_groups: Any = _parameter(  # noqa: RUF009 - as all fields
        None,
        OfRows(),
        "DATA",
        "With --folds: keep rows of a group in one fold. A column of obs or of the table, or a file.",
        metavar="NAME",
    )
    orthonormal: bool = _parameter(
        False,
        Flag(),
        "WHAT",
        "Make components orthonormal. The loss stays the same, but components share their features.",
    )
    shared_support: bool = _parameter(
        False, Flag(), "WHAT", "With --method polished: put all components on the same R features."
    )
    include: FeaturesLike = _parameter(  # noqa: RUF009 - as all fields
        None,
        Features(),
        "WHAT",
        "Features that every component may use beside its R: names, patterns, or a file of names (.txt).",
        metavar="NAMES",
    )
    exclude: FeaturesLike = _parameter(  # noqa: RUF009 - as all fields
        None,
        Features(),
        "WHAT",
        "Features that are never chosen, though they count in the loss: names, 'MT-*', or a file (.txt).",
        metavar="NAMES",
    )
    costs: ValuesLike = _parameter(  # noqa: RUF009 - as all fields
        None,
        Costs(),
        "WHAT",
        "Costs of features, whose sum --budget limits: a .csv file of names and costs, or A=2,B=3.5.",
        metavar="FILE",
    )
    budget: float | None = _parameter(
        None,
        Number("500 for features that cost 500 together"),
        "WHAT",
        "The most that the features of all components may cost together, besides those that --include names.",
        metavar="C",
    )
    groups: ValuesLike = _parameter(  # noqa: RUF009 - as all fields
        None,
        Groups(),
        "WHAT",
        "Groups of features, whose numbers --at-most and --at-least limit: a .csv file of names and groups.",
        metavar="FILE",
    )
    at_most: LimitsLike | None = _parameter(  # noqa: RUF009 - as all fields
        None,
        Limits(),
        "WHAT",
        "Largest number of features of a group: one number, or one for each group, as in T=2,B=1.",
        metavar="M",
    )
    at_least: LimitsLike | None = _parameter(  # noqa: RUF009 - as all fields
        None,
        Limits(),
        "WHAT",
        "Smallest number of features of a group, given in the same way.",
        metavar="M",
    )
    positions: ValuesLike = _parameter(  # noqa: RUF009 - as all fields
        None,
        Positions(),
        "WHAT",
        "Positions of features, for --min-distance: a .csv file of names and numbers, or A=442.5,B=560.",
        metavar="FILE",
    )
    min_distance: float | None = _parameter(
        None,
        Number("10 for features at least 10 apart"),
        "WHAT",
        "Smallest distance between two features of all components together, in units of --positions.",
        metavar="D",
    )
    search_tol: float = _parameter(
        0.001,
        Number("0.001 for 0.1 % of PCA's loss"),
        "WHAT",
        "With --method polished: stop the search at a loss of 1 + T times PCA's loss.",
        metavar="T",
    )
    effort: int = _parameter(
        1,
        Count(0, 3),
        "WHAT",
        "With --method polished: effort of the search, from 0 (the first climb only) to 3.",
        metavar="0-3",
    )
    n_rows: int | None = _parameter(
        None,
        Count(most="samples"),
        "WHAT",
        "With --method doubly-sparse: number of rows in the decoder. Default: 4K, or more for a target.",
        options="--rows",
        metavar="N",
    )
    n_repeats: int = _parameter(
        1,
        Count(most=1000),
        "WHERE",
        "Repeats of --selection adaptive, adaptive-paper or --strategy paper. The fit keeps the best.",
        options="--repeats",
        metavar="N",
    )
    power_iterations: int = _parameter(
        0,
        Count(0, 20),
        "WHERE",
        "With --strategy paper: number of extra passes that sharpen the projection.",
        metavar="N",
    )
    oversampling: int | None = _parameter(
        None,
        Count(2, "features"),
        "WHERE",
        "With --strategy paper: rows of the sketch beyond K. Default: 6K + 1.",
        metavar="P",
    )
    split: str = _parameter(
        "best",
        Choice(("best", "paper", "dual-set")),
        "WHERE",
        "With --strategy paper: features by dual-set. best: smallest bound; paper: 5K; dual-set: all.",
    )
    projection: str = _parameter(
        "randomized",
        Choice(("randomized", "frequent-directions")),
        "WHERE",
        "With --strategy paper: sketch for V_k. frequent-directions is deterministic and saves one pass.",
    )
    certified: bool = _parameter(
        False,
        Flag(),
        "WHERE",
        "With --strategy sketch or stream: report a certified lower bound on PCA's loss, not an estimate.",
    )
    n_candidates: int | None = _parameter(
        None,
        Count(most="features"),
        "WHERE",
        "With --strategy sketch or stream: number of candidate features. Default: 4 or 8 times all nonzeros.",
        options="--candidates",
        metavar="N",
    )
    sketch_rows: int | None = _parameter(
        None,
        Count(most="samples"),
        "WHERE",
        "With --strategy sketch or stream: number of rows of the sketch. The default depends on K and R.",
        metavar="N",
    )
    tolerance: float | None = _parameter(
        None,
        Number("0.01 for 1 % of PCA's loss"),
        "WHERE",
        "Read a sample of row blocks that leaves at most T times PCA's loss to gain. The loss is an estimate.",
        metavar="T",
    )
    keep_state: bool = _parameter(
        False, Flag(), "WHERE", "Store the sums of the pass with the encoder, so that `spae update` can add rows."
    )
    seed: int = _parameter(0, Count(0), "WHAT", "Seed of all random choices.", metavar="N", argument="random_state")

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> "FitParameters":
        """The parameters among values that are named as in Python; those that are not given have their defaults."""
        return cls(**{name: given[each.argument] for name, each in PARAMETERS.items() if each.argument in given})

    def check(self, n_samples: int | None, n_features: int) -> None:
        """Refuse parameters that no matrix, or not this one, allows.

        Parameters
        ----------
        n_samples : int or None
            n; None for a stream, which does not know.
        n_features : int
            d.

        Raises
        ------
        InvalidInput
            Naming the parameter, what was given and the allowed range.
        """
        if n_samples is not None and n_samples < 2:
            raise InvalidInput(
                f"the data have n_samples = {n_samples} row(s); a fit needs at least 2 to see any variation."
            )
        sizes = {"features": n_features} | ({} if n_samples is None else {"samples": n_samples})
        for name, each in PARAMETERS.items():
            each.check(getattr(self, name), sizes)
        self.check_folds()
        self._check_sizes()
        self._check_pipeline()
        self._check_covariates()
        self.check_rules(n_features)
        self._check_kept()
        self._check_row_weights()
        self.check_top()
        if self.tolerance is not None and not self.samples:
            raise InvalidInput(
                f"tolerance={self.tolerance:g} makes strategy='sample' stop early, but strategy={self.strategy!r} "
                "reads all rows. Leave out one of the two."
            )

    @property
    def pca_share(self) -> float | None:
        """Share of the total variance for which the spectrum chooses the number of components; None if it is given."""
        return float(self.n_components) if is_share(self.n_components) else None

    @property
    def planned_components(self) -> int:
        """Number of components to plan for, where the data choose it."""
        return self.n_components if self.pca_share is None else UNKNOWN_COMPONENTS

    @property
    def samples(self) -> bool:
        """True if the fit reads only as many row blocks as the tolerance asks for."""
        return self.strategy == "sample" or (self.strategy == "auto" and self.tolerance is not None)

    @property
    def sample_tolerance(self) -> float:
        """``tolerance``, or what stands for it."""
        return TOLERANCE if self.tolerance is None else float(self.tolerance)

    @property
    def wanted_share(self) -> float | None:
        """Share of what PCA explains that is to be kept; None if ``n_nonzero`` or ``eps`` is given."""
        if self.n_nonzero is not None or self.eps is not None:
            return None
        return KEEP if self.keep is None else float(self.keep)

    def allowed_loss(self, pca_loss: float, total: float) -> float:
        """Largest loss that an encoder may have if ``n_nonzero`` is not given."""
        return allowed_loss(pca_loss, total, eps=self.eps, keep=self.wanted_share)

    @property
    def on_core(self) -> bool:
        """True if the encoder is made on a core or on candidates, without another read."""
        return self.method != "doubly-sparse" and self.strategy != "paper"

    @property
    def can_sketch(self) -> bool:
        """True if the method works on candidate columns alone, without rows or a growing set of columns."""
        own_columns = self.method == "polished" and not self.shared_support
        return own_columns or (self.method != "doubly-sparse" and self.n_nonzero is not None)

    @property
    def rules(self) -> Rules:
        """Rules for the choice of features."""
        return Rules.of(vars(self))

    @property
    def sets_panel(self) -> bool:
        """True if a size of the panel is given, and none of single components: all components share the panel."""
        return self.n_nonzero is None and (self.n_features is not None or self.budget is not None)

    def resolved(self, names: Sequence[object] | None, n_features: int) -> "FitParameters":
        """The same parameters, with features of the rules by number, and a panel as the support that is shared.

        Raises
        ------
        InvalidInput
            If a feature is not there, or no choice can keep to the rules.
        """
        top = whole(self.n_top_features)
        PARAMETERS["n_features"].check(self.n_features, {"features": min(n_features, top or n_features)})
        given = [name for name in RULES if getattr(self, name) is not None]
        for name in given:
            PARAMETERS[name].check(getattr(self, name), {"features": n_features})
        found = Rules.of(vars(self), n_features).resolved(names, n_features) if given else Rules()
        if top is not None and top < len(found.include):
            raise InvalidInput(
                f"n_top_features={top} is less than the {len(found.include)} features that include names, which are "
                "among them. Give a larger number, or include fewer."
            )
        self._check_left("n_features", self.n_features, found, n_features)
        return self.with_rules(found)._with_panel(found, n_features)

    def _with_panel(self, rules: Rules, n_features: int) -> "FitParameters":
        """The same parameters with the size of the panel, and with the whole of it for all components if they may."""
        if self.n_features is None and self.budget is None:
            return self
        limits = (rules.affordable(n_features), whole(self.n_features), whole(self.n_top_features))
        size = min(each for each in limits if each is not None)
        called = f"budget={self.budget}" if self.n_features is None else f"n_features={self.n_features}"
        if self.method == "iterative":
            raise InvalidInput(
                f"{called}: method='iterative' chooses the features of each component by itself. Use "
                "method='polished' or 'batch', or give n_nonzero."
            )
        if self.n_nonzero is None:
            targets = [f"{name}={found:g}" for name in ("eps", "keep") if (found := getattr(self, name)) is not None]
            if targets:
                raise InvalidInput(f"{called} and {targets[0]} are two targets. Give only one.")
            shared = self.shared_support or self.method == "polished"
            return replace(self, n_nonzero=size, n_features=None, shared_support=shared)
        if not self.shared_support and self.method not in SHARED:
            PARAMETERS["n_nonzero"].check(self.n_nonzero, {"features": n_features})
            most = max(several(self.n_nonzero) or (self.n_nonzero,))
            return replace(self, n_features=max(size, most) if self.n_features is None else size)
        if self.n_features is not None:
            raise InvalidInput(
                f"{called} and n_nonzero={self.n_nonzero!r}: all components use the same features here, so that the "
                "two are one number. Give only one."
            )
        return self

    def with_rules(self, found: Rules) -> "FitParameters":
        """The same parameters with other rules; None where there are none."""
        rules: dict[str, Any] = {name: getattr(found, name) if name in found.given else None for name in RULES}
        return replace(self, **rules)

    def check_rules(self, n_features: int) -> None:
        """Check the rules, resolved, against the method and the number of nonzeros.

        Raises
        ------
        InvalidInput
            Naming the rule that cannot be kept.
        """
        rules = self.rules
        if not rules:
            return
        told, selections = rules.told, RULED.get(self.method, ())
        if self.method not in RULED:
            raise InvalidInput(
                f"method={self.method!r} cannot keep to {told}. Use one of {', '.join(map(repr, RULED))}."
            )
        if rules.of_panel and self.method == "batch":
            selections = ("exchange",)
        if self.selection not in selections:
            raise InvalidInput(
                f"selection={self.selection!r} cannot keep to {told} with method={self.method!r}. Use "
                f"{' or '.join(f'selection={name!r}' for name in selections)}."
            )
        self._check_left("n_nonzero", self.n_nonzero, rules, n_features)
        if not rules.of_panel:
            return
        if self.n_nonzero is None or not (self.shared_support or self.method in SHARED or self.n_features is not None):
            raise InvalidInput(
                f"{' and '.join(rules.of_panel)}: these are rules for all components together. Give the size of their "
                "panel: n_features or budget."
            )
        rules.check(n_features, self.n_features or self.shared_size)

    def _check_left(self, name: str, given: Any, rules: Rules, n_features: int) -> None:
        """Refuse numbers of features that are more than the rules leave."""
        left = n_features - len(rules.exclude)
        if given is not None and max(several(given) or (given,)) > left:
            raise InvalidInput(
                f"{name}={given!r} is more than exclude leaves: {left} of {n_features} features. "
                "Give a smaller number, or exclude fewer."
            )

    def _check_pipeline(self) -> None:
        """Check the parameters of the paper's own pipeline against the others."""
        own = [PARAMETERS[name] for name in ("oversampling", "split", "projection")]
        given = [f"{each.name}={found!r}" for each in own if (found := getattr(self, each.name)) != each.default]
        if given and self.strategy != "paper":
            raise InvalidInput(
                f"{' and '.join(given)}: only strategy='paper' uses this, but strategy={self.strategy!r} was given. "
                "Leave it out, or use strategy='paper'."
            )
        if self.split == "paper" and self.n_nonzero is not None and self.shared_size <= 5 * self.n_components:
            raise InvalidInput(
                f"split='paper' takes 5k = {5 * self.n_components} columns first and samples the others, so "
                f"n_nonzero={self.n_nonzero!r} is too small. Give more than {5 * self.n_components}, or use "
                "split='best'."
            )

    def _check_covariates(self) -> None:
        """Check the parameters that covariates rule out."""
        if self.covariates is None:
            return
        if not self.center:
            raise InvalidInput(
                "center=False and covariates contradict each other: a column of ones is among the covariates, so that "
                "what they leave has no means. Leave out one of the two."
            )
        if self.method == "doubly-sparse":
            raise InvalidInput(
                "method='doubly-sparse' makes a decoder of rows of the data, and cannot remove covariates from them. "
                "Use method='polished', 'batch' or 'iterative', or leave out the covariates."
            )

    def _check_row_weights(self) -> None:
        """Check the parameters that row weights rule out."""
        if self.row_weights is None:
            return
        if self.method == "doubly-sparse":
            raise InvalidInput(
                "method='doubly-sparse' draws rows of the data for the decoder, and cannot weigh them. Use "
                "method='polished', 'batch' or 'iterative', or leave out the row weights."
            )
        if self.precision == "fast":
            raise InvalidInput(
                "precision='fast' multiplies in float32, which would round the row weights. Use precision='exact', or "
                "leave out the row weights."
            )
        if self.folds is not None:
            raise InvalidInput(
                f"folds={self.folds} measure losses on rows that all count the same, and row weights are given. Leave "
                "out one of the two."
            )

    def _check_kept(self) -> None:
        """Check the parameters whose fit takes all rows at once, so that no state of it can be added to."""
        if not self.keep_state:
            return
        median = self.recipe is not None and Recipe.of(self.recipe).lacks_target
        of_all = {
            "missing='mean' fills gaps with means of all rows": self.missing == "mean",
            f"recipe='{self.recipe}' takes the median of all rows": median,
            f"n_top_features={self.n_top_features} compares variances of all rows": self.n_top_features is not None,
            "covariates are removed by a fit to all rows": self.covariates is not None,
            f"folds={self.folds} keep a state for each fold": self.folds is not None,
            "row weights are those of the rows of one fit": self.row_weights is not None,
            "method='doubly-sparse' chooses among all rows": self.method == "doubly-sparse",
        }
        found = [reason for reason, applies in of_all.items() if applies]
        if found:
            raise InvalidInput(
                f"keep_state=True stores sums to which new rows are added, but {found[0]}. Leave out one of the two."
            )

    def check_top(self) -> None:
        """Refuse parameters about the columns that vary most that contradict others.

        Raises
        ------
        InvalidInput
            Naming them.
        """
        batches = self.top_features_batch is not None
        if batches and self.top_features_flavor != TOP_FLAVORS[1]:
            raise InvalidInput(
                "top_features_batch names the batches in which top_features_flavor='seurat_v3' ranks genes, and "
                f"top_features_flavor={self.top_features_flavor!r} ranks all rows together. Give "
                "top_features_flavor='seurat_v3', or leave out top_features_batch."
            )
        if self.n_top_features is None and self.top_features_flavor != TOP_FLAVORS[0]:
            raise InvalidInput(
                f"top_features_flavor={self.top_features_flavor!r} orders the columns of which n_top_features are "
                "used, and that is not given. Give n_top_features, such as 2000, or leave out the flavor."
            )
        if batches and self.row_weights is not None:
            raise InvalidInput(
                "top_features_batch ranks genes by rows that all count the same, and row weights are given. Leave out "
                "one of the two."
            )

    def check_folds(self) -> None:
        """Refuse parameters about folds that contradict others.

        Raises
        ------
        InvalidInput
            Naming them.
        """
        chosen = [name for name in ("n_components", "n_nonzero") if is_chosen(getattr(self, name))]
        given = [f"{name}={CHOSEN!r}" for name in chosen] + ["fold_groups"] * (self.fold_groups is not None)
        given += [f"bootstraps={self.bootstraps}"] * bool(self.bootstraps)
        if self.folds is None and given:
            raise InvalidInput(
                f"{' and '.join(given)}: this needs folds of the rows, and there are none. Give folds as well, such "
                "as folds=5, or leave it out."
            )
        if "n_components" in chosen and (self.n_nonzero is None or several(self.n_nonzero) is not None):
            raise InvalidInput(
                f"n_components={CHOSEN!r} needs one n_nonzero for all components. Give a number, or n_nonzero="
                f"{CHOSEN!r}."
            )
        if self.folds is not None and self.method == "doubly-sparse":
            raise InvalidInput(
                "method='doubly-sparse' makes a decoder of rows of the data, and folds keep no rows. Use method="
                "'polished', 'batch' or 'iterative', or leave out folds."
            )

    def _check_sizes(self) -> None:
        """Check ``n_nonzero`` against the others, or that ``eps`` and ``keep`` are one target."""
        sizes = self.sizes
        if sizes is None and self.eps is not None and self.keep is not None:
            raise InvalidInput(
                f"eps={self.eps:g} and keep={self.keep:g} are two targets. Give only one: eps, an excess over PCA's "
                "loss, or keep, a share of the variance that PCA explains."
            )
        if self.pca_share is not None and self.method == "doubly-sparse":
            raise InvalidInput(
                f"n_components={self.n_components} has the data choose the number of components, and method="
                "'doubly-sparse' plans a pass over rows whose number depends on it. Give the number, or use method="
                "'polished', 'batch' or 'iterative'."
            )
        if isinstance(sizes, tuple) and self.pca_share is not None:
            raise InvalidInput(
                f"n_components={self.n_components} has the data choose the number of components, and n_nonzero="
                f"{list(sizes)} has a number for each. Give one number, or the number of components."
            )
        if isinstance(sizes, tuple) and len(sizes) != self.n_components:
            raise InvalidInput(
                f"n_nonzero={list(sizes)} has {len(sizes)} numbers for n_components={self.n_components}. Give one "
                "number, or one for each component."
            )
        most = 0 if sizes is None else max(several(sizes) or (sizes,))
        if self.n_features is not None and most > self.n_features:
            raise InvalidInput(
                f"n_nonzero={self.n_nonzero!r} is more than n_features={self.n_features}, the features of all "
                "components together. Give a smaller number, or a larger panel."
            )
        if isinstance(sizes, tuple) and self.method in SHARED and len(set(sizes)) > 1:
            raise InvalidInput(
                f"n_nonzero={list(sizes)} differs between components, but with method={self.method!r} all components "
                "use the same columns. Give one number, or use method='polished' or 'iterative'."
            )

    @property
    def shared_size(self) -> int:
        """Columns that all components share, where ``n_nonzero`` is given: the least of its numbers."""
        sizes = self.sizes
        assert sizes is not None, "n_nonzero is not given"
        return min(sizes) if isinstance(sizes, tuple) else sizes

    @property
    def sizes(self) -> int | tuple[int, ...] | None:
        """``n_nonzero`` as a number, or a tuple of one a component."""
        found = several(self.n_nonzero)
        return whole(self.n_nonzero) if found is None else tuple(int(each) for each in found)


def parameters_in(fields_of: type) -> Mapping[str, Parameter]:
    """All parameters by name, from the fields that declare them."""
    found = {}
    for each in fields(fields_of):
        about = dict(each.metadata)
        about["options"] = about["options"] or (f"--{each.name.replace('_', '-')}",)
        about["argument"] = about["argument"] or each.name
        found[each.name] = Parameter(each.name, each.type, each.default, **about)
    return found


PARAMETERS = parameters_in(FitParameters)
"""All parameters by name."""

STAND_ALONE = tuple(each.options[-1] for each in PARAMETERS.values() if isinstance(each.kind, Scale))
"""Options that may stand without a value; a value follows an equals sign."""

OF_ROWS = tuple(name for name, each in PARAMETERS.items() if isinstance(each.kind, OfRows | OfRow))
"""Parameters that tell something of all rows, such as covariates. Columns of a table that they name are no data."""

OF_PATHS = (
    "selection",
    "center",
    "scale",
    "missing",
    "missing_value",
    "recipe",
    "n_top_features",
    "top_features_flavor",
    "top_features_batch",
    "covariates",
    "row_weights",
    "n_features",
    *RULES,
    "folds",
    "fold_groups",
    "search_tol",
    "effort",
    "n_repeats",
    "seed",
)
"""Parameters of the encoders of many sizes that one read makes, beside their method and sizes."""


def one_size(given: Mapping[str, Any]) -> bool:
    """Return True if parameters say in one way how many features an encoder uses."""
    sizes = [name for name in SIZES if given.get(name) is not None]
    return len(sizes) == 1 or (bool(sizes) and set(sizes) <= set(SIZES[:3]))


def allowed_loss(pca_loss: float, total: float, *, eps: float | None, keep: float | None) -> float:
    """Most an encoder may lose: ``1 + eps`` times PCA's loss, or all but ``keep`` times what PCA explains.

    It rises with ``pca_loss``, so that a lower bound on PCA's loss gives the safe side.

    Parameters
    ----------
    pca_loss, total : float
        PCA's loss, or a bound on it, and ``||X||^2``.
    eps, keep : float or None
        The target: one of the two.
    """
    if keep is None:
        assert eps is not None, "a target is an excess or a share"
        return (1 + eps) * pca_loss
    return (1 - keep) * total + keep * pca_loss


Function = TypeVar("Function", bound=Callable[..., Any])


def takes_parameters(*, without: Sequence[str] = ()) -> Callable[[Function], Function]:
    """Have ``**parameters`` of a function be the parameters of a fit, with their names and defaults.

    ``help`` and notebooks show all of them. A name that is not known is refused, and the nearest one is suggested.

    Parameters
    ----------
    without : sequence of str
        Parameters that the function does not take, or takes by another name.

    Examples
    --------
    >>> @takes_parameters()
    ... def told(x, *, n_components=10, **parameters):
    ...     return n_components, parameters["method"]
    >>> told("x", method="batch"), told("x", n_components=3)
    ((10, 'batch'), (3, 'polished'))
    >>> told("x", metod="batch")
    Traceback (most recent call last):
    TypeError: told() takes no parameter 'metod'. Did you mean 'method'?
    """

    def decorated(function: Function) -> Function:
        own = inspect.signature(function)
        first = [each for each in own.parameters.values() if each.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD]
        last = [each for each in own.parameters.values() if each.kind is inspect.Parameter.KEYWORD_ONLY]
        more = [
            inspect.Parameter(
                each.argument, inspect.Parameter.KEYWORD_ONLY, default=each.default, annotation=each.annotation
            )
            for each in PARAMETERS.values()
            if each.argument not in own.parameters and each.name not in without
        ]
        signature = own.replace(parameters=[*first, *more, *last])

        @functools.wraps(function)
        def called(*args: Any, **given: Any) -> Any:
            for name in given:
                if name not in signature.parameters:
                    near = did_you_mean(name, list(signature.parameters))
                    raise TypeError(f"{function.__qualname__}() takes no parameter {name!r}.{near}")
            return function(*args, **{each.name: each.default for each in more} | given)

        called.__signature__ = signature  # type: ignore[attr-defined]  # what inspect looks for
        return called  # type: ignore[return-value]  # of the same signature, with more names

    return decorated


def check_choice(name: str, given: object, allowed: Sequence[str]) -> None:
    """Refuse a value that is not one of the names allowed."""
    check_value(name, given, Choice(tuple(allowed)))


def check_count(name: str, given: object, n_features: int) -> None:
    """Refuse a value that is not a whole number from 1 to the number of features."""
    check_value(name, given, Count(most="features"), {"features": n_features})
