"""Options that `spae fit`, `spae fit-part` and `spae fit-finish` share."""

import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import typer

from spae_dask.cli.options.data import DataArgument, StrictOption, WhichData
from spae_dask.cli.options.groups import told
from spae_dask.cli.options.parameters import MissingEntries, Reading, Sought
from spae_dask.cli.options.screen import ScreenOptions
from spae_dask.cli.options.where import MemoryOption
from spae_dask.strategies.parameters import option_words

if TYPE_CHECKING:
    from spae_dask.blocks import RowBlocks
    from spae_dask.passes.plan import Plan, Resources


@dataclass(frozen=True, kw_only=True)
class FitGiven:
    """The data, what to find in them, how, and what the screen shows: as on the command line."""

    data: DataArgument
    sought: Sought
    which: WhichData
    missing: MissingEntries
    strict: StrictOption = False
    reading: Reading
    memory: MemoryOption = None
    shown: ScreenOptions

    def check(self) -> None:
        """Refuse none, or more than one, of the ways to say how many nonzeros."""
        if [self.fitted[name] for name in ("n_nonzero", "eps", "keep")].count(None) != 2:
            raise typer.BadParameter(
                "give exactly one: the most features a component may use, how much more than PCA it may lose, or the "
                "share it keeps of the variance that PCA explains, such as 0.95",
                param_hint="'-r' / '--eps' / '--keep'",
            )

    @property
    def fitted(self) -> dict[str, Any]:
        """Parameters of the encoder, and of its plan."""
        found = self.sought.parameters | self.missing.parameters | self.reading.parameters
        return found | {"memory_limit": self.memory}

    def plan(self, source: "RowBlocks", *, calibrate: bool = False, resources: "Resources | None" = None) -> "Plan":
        """Return the plan of the fit: the passes it makes, and the memory and time it needs."""
        from spae_dask.estimators.planning import plan

        return plan(source, calibrate=calibrate, resources=resources, **self.fitted)

    def words(self) -> str:
        """The data and all that differs from the defaults, as on the command line."""
        words = [f"./{self.data}" if self.data.startswith("-") else self.data]  # or it would be taken for an option
        for parameter, value in told(self):
            if value == parameter.default or parameter.name == "data":
                continue
            option = parameter.annotation.__metadata__[0]  # in Annotated, typer takes the first name for a default
            yes = (option.default, *option.param_decls)[0].partition("/")[0]
            words += [yes] * value if parameter.name == "verbose" else option_words(yes, value)
        return shlex.join(words)
