"""How data are read, and how exactly results are known."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any

import typer

from spae_dask.cli.options.panels import WHERE


class Strategy(StrEnum):
    """What a read leaves behind."""

    auto = "auto"
    gram = "gram"
    tsqr = "tsqr"
    sketch = "sketch"
    sample = "sample"
    stream = "stream"
    paper = "paper"


class Projection(StrEnum):
    """Ways in which the paper's own pipeline finds V_k."""

    randomized = "randomized"
    frequent_directions = "frequent-directions"


class Split(StrEnum):
    """Ways in which the paper's own pipeline divides R between dual-set and sampling."""

    best = "best"
    paper = "paper"
    dual_set = "dual-set"


class Precision(StrEnum):
    """How products of rows are made."""

    exact = "exact"
    fast = "fast"


def check_tolerance(given: float | None) -> float | None:
    """Refuse what is no tolerance."""
    if given is None or 0 < given < float("inf"):
        return given
    raise typer.BadParameter(f"{given} is not a positive number: 0.01 leaves 1 % of PCA's loss at most to gain")


StrategyOption = Annotated[
    Strategy,
    typer.Option(
        "--strategy",
        help="What the read leaves behind: a Gram matrix, or a triangular factor (more digits of float64 data). "
        "sketch: two reads, for any number of features. stream: one read for any number, losses in certified "
        "intervals. sample: no more row blocks than --tolerance takes. paper: the paper's own passes, each with a thin "
        "state, for --method batch.",
        rich_help_panel=WHERE,
    ),
]
RepeatsOption = Annotated[
    int,
    typer.Option(
        "--repeats",
        metavar="N",
        min=1,
        help="Independent repeats of a random selection, of which the best is kept: of --selection adaptive and "
        "adaptive-paper, and of --strategy paper, whose repeats share the passes.",
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
OversamplingOption = Annotated[
    int | None,
    typer.Option(
        "--oversampling",
        metavar="P",
        min=2,
        help="With --strategy paper: the sketch that V_k is found on has K + P rows, and V_k is within 1 + K/(P - 1) "
        "of PCA on average. Default: 6K + 1, hence 1 + 1/6.",
        show_default=False,
        rich_help_panel=WHERE,
    ),
]
SplitOption = Annotated[
    Split,
    typer.Option(
        "--split",
        help="With --strategy paper: how many of the R features dual-set chooses before the others are sampled. best: "
        "for the smallest bound. paper: 5K. dual-set: all of them.",
        rich_help_panel=WHERE,
    ),
]
ProjectionOption = Annotated[
    Projection,
    typer.Option(
        "--projection",
        help="With --strategy paper: how V_k is found. frequent-directions: one pass less, and nothing random; with "
        "--split dual-set it is the paper's deterministic algorithm.",
        rich_help_panel=WHERE,
    ),
]
PrecisionOption = Annotated[
    Precision,
    typer.Option(
        "--precision",
        help="exact: all arithmetic in float64. fast: products in float32, summed in float64, at about half the time; "
        "the certificate then says how far rounding may move the loss, about 1e-4 of the total.",
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


@dataclass(frozen=True)
class Pipeline:
    """Options of the paper's own pipeline, and repeats of random selections."""

    repeats: RepeatsOption = 1
    power_iterations: PowerOption = 0
    oversampling: OversamplingOption = None
    split: SplitOption = Split.best
    projection: ProjectionOption = Projection.randomized

    @property
    def parameters(self) -> dict[str, Any]:
        """As the library takes them."""
        return {
            "n_repeats": self.repeats,
            "power_iterations": self.power_iterations,
            "oversampling": self.oversampling,
            "split": self.split.value,
            "projection": self.projection.value,
        }


@dataclass(frozen=True)
class Exactness:
    """How exactly a strategy is to know its results."""

    precision: PrecisionOption = Precision.exact
    certified: CertifiedOption = False
    candidates: CandidatesOption = None
    sketch_rows: SketchRowsOption = None
    tolerance: ToleranceOption = None

    @property
    def parameters(self) -> dict[str, Any]:
        """As the library takes them."""
        return {
            "precision": self.precision.value,
            "certified": self.certified,
            "n_candidates": self.candidates,
            "sketch_rows": self.sketch_rows,
            "tolerance": self.tolerance,
        }
