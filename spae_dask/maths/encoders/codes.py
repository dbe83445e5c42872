"""Apply an encoder: compute codes from rows, and rows from codes. Only the selected columns are read."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from spae_dask.errors import NonFiniteInput
from spae_dask.maths.linalg.design import Design

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class RowEncoder:
    """The map ``x -> (x - mean) / scale @ H``, restricted to the columns that H uses; less that of what is removed.

    Parameters
    ----------
    columns : ndarray (r,) of int
        Selected columns, ascending.
    H_selected : ndarray (r, k)
        Their rows of H.
    mean, scale : ndarray (r,)
        Their means and scales.
    fill : ndarray (r,) or None
        Values for NaN entries; None refuses them.
    names : tuple of str, optional
        Names of the columns in messages, beside their numbers.
    design : Design, optional
        Covariates of all rows.
    offsets : ndarray (p, k), optional
        Codes of what each column of the covariates explains.
    """

    columns: npt.NDArray[np.intp]
    H_selected: Floats
    mean: Floats
    scale: Floats
    fill: Floats | None = None
    names: tuple[str, ...] | None = None
    design: Design | None = None
    offsets: Floats | None = None

    def encode(self, rows: Any, first_row: int = 0) -> Floats:
        """Codes (m, k) of full-width rows (m, d), dense or sparse."""
        return self.encode_selected(rows[:, self.columns], first_row)

    def encode_selected(self, rows: Any, first_row: int = 0) -> Floats:
        """Codes (m, k) of the selected columns (m, r) of some rows.

        Raises
        ------
        NonFiniteInput
            If an entry is infinite, or NaN without a fill value; row and column are named.
        """
        # converted before entries given twice are summed: the sum may not fit their own type
        rows = rows.astype(np.float64) if sp.issparse(rows) else np.asarray(rows, dtype=np.float64)
        values: Floats = rows.toarray() if sp.issparse(rows) else rows
        if self.fill is not None:
            values = np.where(np.isnan(values), self.fill, values)
        with np.errstate(invalid="ignore"):  # infinity times zero: refused below
            codes = ((values - self.mean) / self.scale) @ self.H_selected
        if self.design is not None and self.offsets is not None:
            codes -= self.design.rows(first_row, first_row + len(codes)) @ self.offsets
        if not np.isfinite(codes).all() and not np.isfinite(values).all():
            row, column = np.argwhere(~np.isfinite(values))[0]
            what = "NaN" if np.isnan(values[row, column]) else "infinity"
            raise NonFiniteInput(
                f"Input X contains {what} at row {first_row + int(row)}, column "
                f"{int(self.columns[column])}{'' if self.names is None else f' ({self.names[column]})'}, which "
                "the encoder uses. Correct the data, or fit with missing='mean' or missing='zero' to fill NaN."
            )
        return codes


@dataclass(frozen=True, eq=False)
class SelectedRowEncoder:
    """The same map, of rows that have the selected columns only.

    Parameters
    ----------
    encoder : RowEncoder
        The map.
    """

    encoder: RowEncoder

    def encode(self, rows: Any, first_row: int = 0) -> Floats:
        """Codes (m, k) of rows (m, r)."""
        return self.encoder.encode_selected(rows, first_row)


def decode_codes(codes: Floats, G: Floats, mean: Floats, scale: Floats) -> Floats:
    """Rows ``codes @ G * scale + mean`` (m, d)."""
    rows: Floats = codes @ G
    rows *= scale
    rows += mean
    return rows
