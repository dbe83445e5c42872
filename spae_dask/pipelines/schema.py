"""The steps of a pipeline as their tables are written: one model a kind, with the names and defaults of the library."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, create_model, model_validator

from spae_dask.pipelines import values
from spae_dask.storage.masks import ALL
from spae_dask.strategies.comparison import COMPARED
from spae_dask.strategies.parameters import OF_PATHS, PARAMETERS, is_scale_file, one_size
from spae_dask.toml.lines import KeyPath

Makes = Literal["matrix", "encoder", "path"]


@dataclass(frozen=True)
class Input:
    """Input of a step.

    Attributes
    ----------
    key : tuple
        Key in the step's table that names the input.
    value : str
        Value as written: a path, a URL, or ``@`` and the name of an earlier step.
    wants : {"matrix", "encoder", "path"}
        Kind of input that the step needs.
    which : mapping
        Part of a matrix that is read, as ``open_matrix`` takes it.
    """

    key: KeyPath
    value: str
    wants: Makes
    which: Mapping[str, Any] = field(default_factory=dict)


class Step(BaseModel):
    """Fields that all steps share. Outputs are named after the step: its name and a suffix.

    A kind may say what it ``makes`` for later steps, and whether it is run ``always``, because its outcome depends on
    where it runs.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    makes: ClassVar[Makes | None] = None
    always: ClassVar[bool] = False
    suffix: ClassVar[str] = ".json"

    kind: str
    name: values.Name

    @property
    def inputs(self) -> tuple[Input, ...]:
        """Return the inputs of the step."""
        return ()

    @property
    def suffixes(self) -> tuple[str, ...]:
        """Endings of the names of all that it writes; the first is what ``@NAME`` stands for."""
        return (self.suffix,)

    def parameters(self) -> dict[str, Any]:
        """All that decides the outcome, save the inputs."""
        files = {str(each.key[0]) for each in self.inputs if each.key[0] in PARAMETERS}
        return self.model_dump(exclude={"name", "kind", "data", "encoder", "source", "path"} | files)

    def placed(self, files: Mapping[KeyPath, str]) -> "Step":
        """The same, with the paths of its inputs where a parameter of the library names a file."""
        named = {str(key[0]): file for key, file in files.items() if key[0] in PARAMETERS}
        return self.model_copy(update=named) if named else self


def having(step: type[Step], *names: str) -> Any:
    """A kind of step that also has parameters of a fit as keys."""
    return create_model(step.__name__, __base__=step, **values.parameter_keys(*names))


def arguments_of(step: Step) -> dict[str, Any]:
    """The parameters of a fit that a step has, as ``SparseEncoder`` takes them."""
    return {each.argument: getattr(step, name) for name, each in PARAMETERS.items() if name in type(step).model_fields}


class Part(BaseModel):
    """Fields that choose a part of a matrix, and of a grid what makes its rows and columns."""

    array: values.Text | None = None
    columns: values.Names | None = None
    mask: values.Text | None = None
    where: values.Text | None = None
    sample_dim: values.Text | None = None
    weights: values.Text | None = None
    raw: bool = False

    @property
    def which(self) -> dict[str, Any]:
        """The same as ``open_matrix`` takes it."""
        found = {name: getattr(self, name) for name in ("array", "columns", "mask", "sample_dim", "weights")}
        return {**found, "rows": self.where, "decode": not self.raw}


class OnData(Step, Part):
    """A step that reads a matrix."""

    data: values.Text

    @property
    def inputs(self) -> tuple[Input, ...]:
        """The data, and files of divisors of the columns and of weights of the rows."""
        given = {name: getattr(self, name, None) for name in ("scale", "row_weights")}
        files = (Input((name,), str(value), "path") for name, value in given.items() if is_scale_file(value))
        return (Input(("data",), self.data, "matrix", self.which), *files)


class Ingest(Step):
    """``spae ingest``: any matrix to a Zarr array that reads fast."""

    makes: ClassVar[Makes | None] = "matrix"
    suffix: ClassVar[str] = ".zarr"

    source: values.Text
    array: values.Text | None = None
    columns: values.Names | None = None
    mask: values.Text | None = None
    raw: bool = False
    header: bool | None = None
    variable: values.Text | None = None
    sample_dim: values.Text | None = None
    dtype: values.Type | None = None
    chunks: values.Chunks | None = None
    codec: values.Codec | None = None

    @property
    def inputs(self) -> tuple[Input, ...]:
        """The source."""
        which: dict[str, Any] = {"columns": self.columns, "mask": self.mask or ALL, "sample_dim": self.sample_dim}
        which |= {"array": self.array or self.variable, "decode": not self.raw}
        return (Input(("source",), self.source, "matrix", which),)


class Check(having(OnData, "missing_value", "recipe")):  # type: ignore[misc]
    """``spae check``: what is wrong with data."""

    strict: bool = False
    deep: bool = False


class Planned(having(OnData, *PARAMETERS)):  # type: ignore[misc]
    """All parameters of a fit."""

    @property
    def encoder_parameters(self) -> dict[str, Any]:
        """Parameters in the form that ``SparseEncoder`` and ``plan`` take."""
        return arguments_of(self)


class Plan(Planned):
    """``spae plan``: refuses what would not fit."""

    always: ClassVar[bool] = True


class Resumable(OnData):
    """A step that stores the states of its passes, and resumes from them after a kill."""

    checkpoint: values.Text | Literal[False] | None = None
    """A folder, from the one of the results, or a URL; ``false`` for none. If not given, NAME.checkpoint there."""

    def parameters(self) -> dict[str, Any]:
        """Without where the checkpoint is, which decides nothing."""
        return {name: value for name, value in super().parameters().items() if name != "checkpoint"}


class Fit(Planned, Resumable):
    """``spae fit``: an encoder and its certificate."""

    makes: ClassVar[Makes | None] = "encoder"
    suffix: ClassVar[str] = ".zarr"

    @model_validator(mode="after")
    def _one_size(self) -> "Fit":
        if not one_size(vars(self)):
            raise ValueError(
                "give exactly one of 'n_nonzero' (features of a component), 'n_features' (of all components), 'budget' "
                "(their costs), 'eps' and 'keep'. The first three may come together."
            )
        return self


class OnEncoder(OnData):
    """A step that applies an encoder to a matrix."""

    encoder: values.Text

    @property
    def inputs(self) -> tuple[Input, ...]:
        """The data and the encoder."""
        return (*super().inputs, Input(("encoder",), self.encoder, "encoder"))


class Transform(having(OnEncoder, "covariates")):  # type: ignore[misc]
    """``spae transform``: the codes of all rows."""

    makes: ClassVar[Makes | None] = "matrix"
    suffix: ClassVar[str] = ".zarr"


class Evaluate(having(OnEncoder, "covariates", "row_weights"), Resumable):  # type: ignore[misc]
    """``spae evaluate``: the loss of an encoder on data."""

    strategy: values.Evaluation = "auto"
    by: values.WholeNumber | values.Text | None = None
    figure: values.Formats = ()

    @property
    def suffixes(self) -> tuple[str, ...]:
        """A record, and figures of parts."""
        return (self.suffix, *(f".{each}" for each in self.figure))

    @model_validator(mode="after")
    def _of_parts(self) -> "Evaluate":
        if self.figure and self.by is None:
            raise ValueError("'figure' shows parts of the rows. Give 'by' too, or leave it out.")
        if self.by is not None and self.row_weights is not None:
            raise ValueError("'by' measures parts of rows that all count the same. Leave out 'by' or 'row_weights'.")
        return self


class Path(having(Resumable, *OF_PATHS)):  # type: ignore[misc]
    """``spae path``: loss for every k and r."""

    makes: ClassVar[Makes | None] = "path"
    suffix: ClassVar[str] = ".csv"

    n_components: values.Counts
    n_nonzero: values.Counts
    method: values.CoreMethod = "polished"
    figure: values.Formats = ()

    @property
    def suffixes(self) -> tuple[str, ...]:
        """A table, and figures."""
        return (self.suffix, *(f".{each}" for each in self.figure))


class Report(Step, Part):
    """``spae report``: a page about an encoder, with the losses of a path, or drawn from data, if those are named."""

    suffix: ClassVar[str] = ".html"

    encoder: values.Text
    path: values.Text | None = None
    data: values.Text | None = None

    @model_validator(mode="after")
    def _one_curve(self) -> "Report":
        if self.path is not None and self.data is not None:
            raise ValueError("give only one of 'path', a file of losses, and 'data', from which losses are computed.")
        if self.data is None and self.which != Part().which:
            raise ValueError(
                f"{', '.join(map(repr, Part.model_fields))} choose a part of 'data', which is not given. Give 'data', "
                "or leave them out."
            )
        return self

    @property
    def inputs(self) -> tuple[Input, ...]:
        """The encoder, and the table of a path, or the data."""
        path = () if self.path is None else (Input(("path",), self.path, "path"),)
        data = () if self.data is None else (Input(("data",), self.data, "matrix", self.which),)
        return (Input(("encoder",), self.encoder, "encoder"), *path, *data)


class Matrix(Part):
    """One of the matrices of a comparison."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    name: values.Text
    source: values.Text
    n_nonzero: values.Counts | None = None
    """In place of the step's."""


class Encoders(BaseModel):
    """Encoders of a comparison that are written out, coefficient by coefficient."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    matrix: values.Text
    n_nonzero: values.WholeNumber


class Compare(having(Step, "selection", "seed")):  # type: ignore[misc]
    """Methods side by side, as in the paper's experiments.

    ``x_is`` names the content of a matrix's file. ``"matrix"`` is a correlation or covariance matrix that is X itself,
    as in the paper. ``"factor"`` is such a matrix that is X'X. ``"data"`` is the rows of X, which are taken about their
    mean, and of which ``columns``, ``mask`` and ``where`` choose some.
    """

    matrix: list[Matrix] = Field(min_length=1)
    x_is: values.XIs = "matrix"
    methods: values.ComparedMethods = tuple(COMPARED)
    n_components: values.WholeNumber
    n_nonzero: values.Counts
    encoders: Encoders | None = None
    figure: values.Formats = values.FORMATS

    @model_validator(mode="after")
    def _names_are_known(self) -> "Compare":
        names = [each.name for each in self.matrix]
        if len(set(names)) < len(names):
            raise ValueError("two of its matrices have the same name. Give each its own name.")
        of_rows = ("columns", "mask", "where", "sample_dim", "weights")
        parts = [each for each in self.matrix if any(getattr(each, name) is not None for name in of_rows)]
        if parts and self.x_is != "data":
            raise ValueError(
                f"{', '.join(map(repr, of_rows))} of {parts[0].name} choose a part of data, and 'x_is' is "
                f"{self.x_is!r}. Leave them out, or give x_is = 'data'."
            )
        if self.encoders is not None:
            if self.encoders.matrix not in names:
                raise ValueError(f"'encoders.matrix' is {self.encoders.matrix!r}. Give one of {', '.join(names)}.")
            if self.encoders.n_nonzero not in self.sizes_of(self.matrix[names.index(self.encoders.matrix)]):
                raise ValueError(
                    f"'encoders.n_nonzero' is {self.encoders.n_nonzero}, which is not in the 'n_nonzero' of "
                    f"{self.encoders.matrix}. Give one of those."
                )
        return self

    def sizes_of(self, matrix: Matrix) -> tuple[int, ...]:
        """Nonzeros a column may have, on one of the matrices."""
        return matrix.n_nonzero or self.n_nonzero

    @property
    def inputs(self) -> tuple[Input, ...]:
        """The matrices."""
        return tuple(
            Input(("matrix", i, "source"), each.source, "matrix", each.which) for i, each in enumerate(self.matrix)
        )

    @property
    def suffixes(self) -> tuple[str, ...]:
        """The points; the encoders, for machines and for people; figures."""
        encoders = () if self.encoders is None else (".encoders.csv", ".encoders.txt")
        return (".csv", *encoders, *(f".{each}" for each in self.figure))

    def parameters(self) -> dict[str, Any]:
        """All that decides the outcome, save the content of the matrices."""
        found: dict[str, Any] = super().parameters()
        for each in found["matrix"]:
            del each["source"]
        return found
