"""Options that name the data a verb reads, and the part of them it uses."""

import csv
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from spae_dask.cli.options.groups import DATA

if TYPE_CHECKING:
    from spae_dask.blocks import RowBlocks
    from spae_dask.cli.console import Console
    from spae_dask.estimators.sparse_encoder import SparseEncoder


def check_columns(given: str | None) -> str | None:
    """Refuse what names no column."""
    if given is not None and not all(columns_of(given) or ("",)):
        raise typer.BadParameter(f"{given!r} contains an empty name. Write names with commas between: a,b,'expr_*'.")
    return given


def columns_of(given: str | None) -> tuple[str, ...] | None:
    """Names and patterns, as the library takes them; a name with a comma stands in double quotes."""
    if given is None:
        return None
    return tuple(each.strip() for each in next(csv.reader([given], skipinitialspace=True), ()))


DataArgument = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        help="Zarr, Parquet, Arrow, .h5ad, .h5, .nc, .npy, .bed, .pgen (path or URL), or a small .csv, .tsv file.",
        show_default=False,
    ),
]
EncoderArgument = Annotated[
    str,
    typer.Argument(metavar="ENCODER", help="Encoder that `spae fit -o` wrote.", show_default=False),
]
PipelineArgument = Annotated[
    str, typer.Argument(metavar="PIPELINE", help="Pipeline: a TOML file of steps.", show_default=False)
]
ArrayOption = Annotated[
    str | None,
    typer.Option(
        "--array",
        metavar="NAME",
        help="Member of a Zarr group or AnnData store, such as layers/counts, or variable of a grid.",
        rich_help_panel=DATA,
    ),
]
ColumnsOption = Annotated[
    str | None,
    typer.Option(
        "--columns",
        metavar="NAMES",
        callback=check_columns,
        help="Columns: names or patterns (a,b,'expr_*','!id'), @numeric of tables, or numbers. Default: all.",
        show_default=False,
        rich_help_panel=DATA,
    ),
]
MaskOption = Annotated[
    str | None,
    typer.Option(
        "--mask",
        metavar="COLUMN",
        help="Columns of AnnData by a column of var or a condition, cells of a grid by a variable, or none.",
        show_default=False,
        rich_help_panel=DATA,
    ),
]
WhereOption = Annotated[
    str | None,
    typer.Option(
        "--where",
        metavar="CONDITION",
        help='Rows: a condition on obs, columns of a table or coordinates of a grid, as "time.year > 1990".',
        show_default=False,
        rich_help_panel=DATA,
    ),
]
SampleDimOption = Annotated[
    str | None,
    typer.Option(
        "--sample-dim",
        metavar="NAME[,NAME]",
        help="Dimension of a grid that makes the rows. The others make the columns. Default: time.",
        show_default=False,
        rich_help_panel=DATA,
    ),
]
WeightsOption = Annotated[
    str | None,
    typer.Option(
        "--weights",
        metavar="NAME",
        help="Multiply the cells of a grid: coslat, by the root of the cosine of the latitude, or a variable.",
        show_default=False,
        rich_help_panel=DATA,
    ),
]
RawOption = Annotated[
    bool,
    typer.Option(
        "--raw",
        help="Read stored numbers, without the scale, offset and missing values that the file declares.",
        rich_help_panel=DATA,
    ),
]


DeepOption = Annotated[
    bool,
    typer.Option(
        "--deep",
        help="Check shards for missing inner chunks, also on object stores, with one request for each shard.",
        rich_help_panel=DATA,
    ),
]
StrictOption = Annotated[
    bool,
    typer.Option("--strict", help="Treat chunks that are not stored as an error, not a warning.", rich_help_panel=DATA),
]


@dataclass(frozen=True)
class WhichColumns:
    """Data that a verb reads, and the columns of them it uses."""

    array: ArrayOption = None
    columns: ColumnsOption = None
    mask: MaskOption = None
    sample_dim: SampleDimOption = None
    raw: RawOption = False


@dataclass(frozen=True)
class WhichData(WhichColumns):
    """Data that a verb reads, and the part of them it uses."""

    where: WhereOption = None
    weights: WeightsOption = None

    def open(
        self,
        data: str,
        memory: str | None,
        console: "Console | None" = None,
        encoder: "SparseEncoder | None" = None,
        beside: Sequence[str] = (),
    ) -> "RowBlocks":
        """Open the matrix at a path or URL: metadata alone are read, and files that are held in memory within it.

        Under the mask of an encoder that will be applied, unless one is given. The console shows a mask; without
        one the plan tells it. Columns of a table that stand ``beside`` the data, such as covariates, are left out, also
        those of an encoder.
        """
        from spae_dask.blocks import asked_of
        from spae_dask.estimators.applying import open_like
        from spae_dask.estimators.covariates import open_without
        from spae_dask.estimators.planning import mask_note, rows_note
        from spae_dask.estimators.runtime import memory_given
        from spae_dask.recipes import recipe_text

        which: dict[str, Any] = {
            "array": self.array,
            "columns": columns_of(self.columns),
            "mask": self.mask,
            "rows": self.where,
            "sample_dim": self.sample_dim,
            "weights": self.weights,
            "decode": not self.raw,
            "memory_limit": memory_given(memory),
        }
        if encoder is None:
            source = open_without(data, list(beside), **which)
        else:
            source = open_like(encoder, data, beside=beside, **which)
        asked, told = asked_of(source), mask_note(source)
        if console is not None and told is not None:
            console.note(f"columns   {told}")
            console.document |= {"mask": asked["mask"], "n_columns": asked["n_columns"]}
        rows = rows_note(source)
        if console is not None and rows is not None:
            console.note(f"rows      {rows}")
        recipe = recipe_text(getattr(encoder, "recipe", None))
        if console is not None and recipe is not None:
            console.note(f"recipe    of the encoder, for raw rows: {recipe}")
        removed = getattr(encoder, "covariates_", None)
        if console is not None and removed is not None:
            console.note(f"removes   what covariates explain, as the encoder did: {', '.join(removed.names)}")
        return source

    @property
    def words(self) -> str:
        """The same on the command line, after a blank."""
        given = {"--array": self.array, "--columns": self.columns, "--mask": self.mask, "--where": self.where}
        given |= {"--sample-dim": self.sample_dim, "--weights": self.weights}
        chosen = "".join(f" {option} {shlex.quote(value)}" for option, value in given.items() if value is not None)
        return chosen + (" --raw" if self.raw else "")
