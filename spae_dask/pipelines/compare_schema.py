"""The step that sets methods side by side, as its table is written."""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field, model_validator

from spae_dask.pipelines import values
from spae_dask.pipelines.schema import Input, Step, having
from spae_dask.strategies.comparison import COMPARED


class Matrix(BaseModel):
    """One of the matrices of a comparison."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    name: values.Text
    source: values.Text
    array: values.Text | None = None
    columns: values.Names | None = None
    mask: values.Text | None = None
    where: values.Text | None = None
    raw: bool = False
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
        parts = [each for each in self.matrix if (each.columns, each.mask, each.where) != (None, None, None)]
        if parts and self.x_is != "data":
            raise ValueError(
                f"'columns', 'mask' and 'where' of {parts[0].name} choose a part of data, and 'x_is' is {self.x_is!r}. "
                "Leave them out, or give x_is = 'data'."
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
            Input(("matrix", i, "source"), each.source, "matrix", each.raw, each.mask)
            for i, each in enumerate(self.matrix)
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
