"""Gram matrix of small integers: exact sums, the same bits on every machine.

Entries are counted from a fixed integer origin, the middle of their type. Products of a panel of rows are integers. As
long as each sum of a panel stays below 2^24 in float32, or 2^53 in float64, a BLAS makes no rounding in any order of
additions. The state adds panels as 64-bit integers. So the state depends on the rows alone: not on chunks, the order of
merging, the BLAS or the machine. Only the last step rounds, once: it takes the mean out with integers of any length.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from scipy.linalg.blas import dsyrk, ssyrk

from spae_dask.errors import InvalidInput
from spae_dask.passes.accumulators.base import Rows, State, panel_rows_for
from spae_dask.passes.accumulators.gram import Scatter, products_per_row
from spae_dask.passes.accumulators.roundings import largest_error, no_chain, usual_error

SINGLE_WHOLE, WHOLE, LONG_WHOLE = 2**24, 2**53, 2**62
"""Integers up to this magnitude are exact in float32, in float64 and, with room for one more bit, in int64."""

PANEL_ROWS = 1024
"""Rows of a panel, at least. In float32 their products are exact for magnitudes up to 128, which 8-bit integers have
about the middle of their type."""


@dataclass(frozen=True)
class IntegerGram:
    """Recipe for the scatter of integers. :func:`integer_gram` makes it if the sums stay exact.

    One pass; d^2 multiply-adds per row, in float32 for 8-bit integers.

    Parameters
    ----------
    n_features : int
        d.
    origin : int
        Integer that entries are counted from.
    largest : int
        Largest magnitude of an entry about the origin.
    """

    recipe_kind: ClassVar[str] = "spae_dask.accumulators.integer_gram.IntegerGram"
    exact_sums: ClassVar[bool] = True

    n_features: int
    origin: int
    largest: int

    @property
    def single(self) -> bool:
        """True if products of a panel are exact in float32."""
        return self.panel_rows * self.largest**2 <= SINGLE_WHOLE

    @property
    def state_nbytes(self) -> int:
        """A d x d matrix, a d-vector and a number."""
        return 8 * self.n_features * (self.n_features + 1) + 8

    @property
    def panel_rows(self) -> int:
        """Enough rows that touching the d x d matrix is paid for."""
        return panel_rows_for(self.n_features, at_least=PANEL_ROWS)

    def work_nbytes(self, n_rows: int) -> int:
        """The counted rows, a one for each of them, and their product."""
        itemsize = 4 if self.single else 8
        return itemsize * ((self.n_features + 1) * n_rows + self.n_features**2)

    @property
    def flops_per_row(self) -> float:
        """See `products_per_row`."""
        return products_per_row(self.n_features, single=self.single)

    def zero(self) -> State:
        """No rows."""
        d = self.n_features
        return {
            "count": np.zeros((), dtype=np.int64),
            "sum": np.zeros(d, dtype=np.int64),
            # column-major as BLAS's products are; the upper triangle alone is kept up
            "gram": np.zeros((d, d), dtype=np.int64, order="F"),
        }

    def update(self, state: State, rows: Rows, first_row: int) -> State:  # noqa: ARG002 - rows are exchangeable
        """Add rows, in panels whose products are exact."""
        self._refuse_other_types(rows)
        dtype: Any = np.float32 if self.single else np.float64
        syrk = ssyrk if self.single else dsyrk
        for start in range(0, rows.shape[0], self.panel_rows):
            # converted first and subtracted in place: faster than one subtraction that converts
            counted: npt.NDArray[np.floating[Any]] = rows[start : start + self.panel_rows].astype(dtype, order="C")
            counted -= self.origin
            _add(state["sum"], np.ones(len(counted), dtype=dtype) @ counted)
            _add(state["gram"], syrk(1.0, counted.T))
        state["count"] += rows.shape[0]
        return state

    def merge(self, a: State, b: State) -> State:
        """Add."""
        added = {name: np.asarray(a[name] + b[name]) for name in ("count", "sum")}
        return added | {"gram": np.add(a["gram"], b["gram"], order="F")}

    def result(self, state: State) -> Scatter:
        """Mean, in two floats, and full symmetric scatter, each entry the nearest float64 number; of no rows, zeros."""
        n, d = int(state["count"]), self.n_features
        center, scatter = np.zeros((2, d)), np.zeros((d, d))
        sums = state["sum"].astype(object)  # Python's integers are of any length, and their quotients round once
        if n:
            for j, total in enumerate(sums):
                center[:, j] = _in_two_floats(Fraction(self.origin * n + total, n))
                column = state["gram"][: j + 1, j].astype(object)
                scatter[: j + 1, j] = scatter[j, : j + 1] = (n * column - total * sums[: j + 1]) / n
        return Scatter(
            count=n,
            center=center,
            scatter=scatter,
            lengths=np.sqrt(np.diagonal(scatter)),
            error=largest_error(no_chain()),
            noise=usual_error(no_chain()),
            exact_sums=True,
        )

    def in_floats(self, state: State) -> State:
        """State of `Gram` for the same rows: sums about their mean, each rounded once."""
        found, d = self.result(state), self.n_features
        return {
            "count": state["count"].copy(),
            "shift": found.center,
            "sum": np.zeros(d),
            "moved": np.zeros(d),
            "chain": no_chain(),
            "gram": np.asfortranarray(found.scatter),
        }

    def _refuse_other_types(self, rows: Rows) -> None:
        """Refuse rows of a type that holds other numbers, as a dask array with a wrong dtype has them."""
        found = _limits(rows.dtype)
        if rows.size and (found is None or max(self.origin - found[0], found[1] - self.origin) > self.largest):
            raise InvalidInput(
                f"rows are of type {rows.dtype}, and the data were announced as integers from "
                f"{self.origin - self.largest} to {self.origin + self.largest}. Give an array whose dtype is that of "
                "its blocks, such as x.map_blocks(function, dtype=...)."
            )


def integer_gram(n_features: int, dtype: np.dtype[np.generic], n_rows: int) -> IntegerGram | None:
    """Recipe of exact sums of integers; None if entries of this type, or sums over so many rows, need more bits.

    Booleans and integers of 8 bits have exact sums, and those of 16 bits for up to 2^32 rows.

    Parameters
    ----------
    n_features : int
        d.
    dtype : numpy.dtype
        Type of the entries.
    n_rows : int
        n.
    """
    limits = _limits(dtype)
    if limits is None:
        return None
    least, most = limits
    origin = 0 if least < 0 else (most + 1) // 2
    recipe = IntegerGram(n_features, origin, max(origin - least, most - origin))
    of_panel, of_all = (n * recipe.largest**2 for n in (recipe.panel_rows, n_rows))
    return recipe if of_panel <= WHOLE and of_all <= LONG_WHOLE else None


def _limits(dtype: np.dtype[np.generic]) -> tuple[int, int] | None:
    """Least and largest number of an integer type; None for other types."""
    if dtype.kind == "b":
        return 0, 1
    if dtype.kind not in "iu":
        return None
    found = np.iinfo(str(dtype))
    return int(found.min), int(found.max)


def _in_two_floats(value: Fraction) -> tuple[float, float]:
    high = float(value)
    return high, float(value - Fraction(high))


def _add(total: npt.NDArray[np.int64], product: npt.NDArray[np.floating[Any]]) -> None:
    """Add an array of floats that hold integers to one of 64-bit integers, in place."""
    np.add(total, product, out=total, dtype=np.int64, casting="unsafe")
