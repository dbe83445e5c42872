"""What a fit looks for."""

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any

import typer

from spae_dask.cli.options.panels import WHAT


class Method(StrEnum):
    """How the encoder is built."""

    polished = "polished"
    batch = "batch"
    iterative = "iterative"
    doubly_sparse = "doubly-sparse"


class Selection(StrEnum):
    """How its columns are chosen."""

    dual_set = "dual-set"
    barrier = "barrier"
    adaptive = "adaptive"
    adaptive_paper = "adaptive-paper"
    adaptive_derandomized = "adaptive-derandomized"
    greedy = "greedy"
    full_greedy = "full-greedy"
    leverage = "leverage"
    pivoted_qr = "pivoted-qr"
    exchange = "exchange"


def check_nonzeros(given: str | None) -> str | None:
    """Refuse what is no list of whole numbers; which numbers are allowed, the data tell."""
    if given is None or re.fullmatch(r"0*[1-9]\d*(,0*[1-9]\d*)*", given):
        return given
    raise typer.BadParameter(f"{given} is not allowed: give a whole number of 1 or more, or several as in 2,5")


def check_components(given: int) -> int:
    """Refuse what is no number of components."""
    if given >= 1:
        return given
    raise typer.BadParameter(f"{given} is not allowed: give a whole number of 1 or more")


def nonzeros_of(given: str | None) -> int | tuple[int, ...] | None:
    """A number, a tuple of numbers, or ``None``, as the library takes them."""
    if given is None:
        return None
    numbers = tuple(map(int, given.split(",")))
    return numbers if len(numbers) > 1 else numbers[0]


def check_eps(given: float | None) -> float | None:
    """Refuse what is no excess."""
    if given is None or 0 < given < float("inf"):
        return given
    raise typer.BadParameter(f"{given} is not a positive number: 0.05 allows 5 % more loss than PCA's")


def check_keep(given: float | None) -> float | None:
    """Refuse what is no share."""
    if given is None or 0 < given < 1:
        return given
    raise typer.BadParameter(f"{given} is not between 0 and 1: 0.95 keeps 95 % of the variance that PCA explains")


ComponentsOption = Annotated[
    int,
    typer.Option(
        "-k",
        "--components",
        metavar="K",
        callback=check_components,
        help="Number of components.",
        show_default=False,
        rich_help_panel=WHAT,
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
KeepOption = Annotated[
    float | None,
    typer.Option(
        "--keep",
        metavar="P",
        callback=check_keep,
        help="In place of -r: the fewest features found that keep P, such as 0.95, of the variance that PCA explains.",
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
        help="How the paper's methods choose columns (polished starts from them): dual-set, barrier (dual-set's "
        "recursion for one component too, as in the paper), adaptive, adaptive-paper (the paper's 5K columns by "
        "barrier, then sampling), adaptive-derandomized, greedy, full-greedy, leverage, pivoted-qr or exchange.",
        rich_help_panel=WHAT,
    ),
]
CenterOption = Annotated[
    bool, typer.Option("--center/--no-center", help="Take the data about their column means.", rich_help_panel=WHAT)
]
ScaleOption = Annotated[
    bool,
    typer.Option("--scale", help="Divide columns by their standard deviations.", rich_help_panel=WHAT),
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
        help="Rows a doubly sparse decoder is made of; if not given, four a component, or more for --eps or --keep.",
        show_default=False,
        rich_help_panel=WHAT,
    ),
]
SeedOption = Annotated[
    int, typer.Option("--seed", metavar="N", help="Seed of everything random.", rich_help_panel=WHAT)
]


@dataclass(frozen=True)
class Building:
    """How encoders are built, of data taken how."""

    method: MethodOption = Method.polished
    selection: SelectionOption = Selection.dual_set
    center: CenterOption = True
    scale: ScaleOption = False

    @property
    def parameters(self) -> dict[str, Any]:
        """As the library takes them."""
        return {
            "method": self.method.value,
            "selection": self.selection.value,
            "center": self.center,
            "scale": self.scale,
        }
