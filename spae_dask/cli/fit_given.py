"""What `spae fit`, `spae fit-part` and `spae fit-finish` are all given, declared once."""

import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import typer

from spae_dask.cli.options.data import DataArgument, MissingEntries, StrictOption, WhichData
from spae_dask.cli.options.groups import told
from spae_dask.cli.options.screen import ScreenOptions
from spae_dask.cli.options.search import (
    Building,
    ComponentsOption,
    EpsOption,
    KeepOption,
    NonzeroOption,
    OrthonormalOption,
    RowsOption,
    SeedOption,
    SharedOption,
    nonzeros_of,
)
from spae_dask.cli.options.strategy import Exactness, Pipeline, Strategy, StrategyOption
from spae_dask.cli.options.where import MemoryOption

if TYPE_CHECKING:
    from spae_dask.blocks import RowBlocks
    from spae_dask.engine.plan import Plan, Resources


@dataclass(frozen=True, kw_only=True)
class FitGiven:
    """The data, what to find in them, how, and what the screen shows: as on the command line."""

    data: DataArgument
    components: ComponentsOption
    nonzeros: NonzeroOption = None
    eps: EpsOption = None
    keep: KeepOption = None
    building: Building
    orthonormal: OrthonormalOption = False
    shared_support: SharedOption = False
    rows: RowsOption = None
    seed: SeedOption = 0
    which: WhichData
    missing: MissingEntries
    strict: StrictOption = False
    strategy: StrategyOption = Strategy.auto
    pipeline: Pipeline
    exactness: Exactness
    memory: MemoryOption = None
    shown: ScreenOptions

    def check(self) -> None:
        """Refuse none, or more than one, of the ways to say how many nonzeros."""
        if [self.nonzeros, self.eps, self.keep].count(None) != 2:
            raise typer.BadParameter(
                "give exactly one: the most features a component may use, how much more than PCA it may lose, or the "
                "share it keeps of the variance that PCA explains, such as 0.95",
                param_hint="'-r' / '--eps' / '--keep'",
            )

    @property
    def fitted(self) -> dict[str, Any]:
        """Parameters of the encoder, and of its plan."""
        return {
            "n_components": self.components,
            "n_nonzero": nonzeros_of(self.nonzeros),
            "eps": self.eps,
            "keep": self.keep,
            **self.building.parameters,
            "strategy": self.strategy.value,
            "orthonormal": self.orthonormal,
            "shared_support": self.shared_support,
            "n_rows": self.rows,
            **self.pipeline.parameters,
            **self.missing.parameters,
            **self.exactness.parameters,
            "random_state": self.seed,
            "memory_limit": self.memory,
        }

    def plan(self, source: "RowBlocks", *, calibrate: bool = False, resources: "Resources | None" = None) -> "Plan":
        """What the fit will read, hold and take."""
        from spae_dask.estimators.planning import plan

        return plan(source, calibrate=calibrate, resources=resources, **self.fitted)

    def words(self) -> str:
        """The data and all that differs from the defaults, as on the command line."""
        words = [f"./{self.data}" if self.data.startswith("-") else self.data]  # or it would be taken for an option
        for parameter, value in told(self):
            if value == parameter.default or parameter.name == "data":
                continue
            option = parameter.annotation.__metadata__[0]  # in Annotated, typer takes the first name for a default
            yes, _, no = (option.default, *option.param_decls)[0].partition("/")
            if parameter.name == "verbose":
                words += [yes] * value
            elif isinstance(value, bool):
                words.append(yes if value else no)
            elif isinstance(value, list | tuple):
                words += [word for each in value for word in (yes, str(each))]
            else:
                words += [yes, str(getattr(value, "value", value))]
        return shlex.join(words)
