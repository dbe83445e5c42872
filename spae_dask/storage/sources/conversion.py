"""From stored numbers to data: sentinels for missing entries, unsigned bits, a scale and an offset."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

MISSING = ("_FillValue", "missing_value")
"""Attributes that say which stored numbers stand for missing."""


@dataclass(frozen=True)
class Conversion:
    """Arithmetic that makes data of a stored block.

    Parameters
    ----------
    dtype : numpy.dtype
        Type of the data.
    sentinels : tuple of numbers
        Stored numbers that stand for missing; they become NaN. A Python number is compared in the type of the entries,
        a numpy number in the wider of the two types.
    integers : numpy.dtype, optional
        Integer type that the stored bits are read as, if it is not their own.
    scale, offset : float, optional
        Factor and summand of the data, in this order.
    attributes : mapping, optional
        Attributes of the store that declare all this; None if a caller asks for it.
    of_calls : bool
        True for genotypes, whose format has a code for missing: no store declares it, and it is never a number.
    """

    dtype: np.dtype[Any]
    sentinels: tuple[Any, ...] = ()
    integers: np.dtype[Any] | None = None
    scale: float | None = None
    offset: float | None = None
    attributes: Mapping[str, Any] | None = None
    of_calls: bool = False

    def block(self, block: Any) -> Any:
        """Data of some rows, dense or CSR; of sparse rows only stored entries are looked at."""
        if sp.issparse(block):
            rows = sp.csr_array(block)
            return sp.csr_array((self.values(rows.data), rows.indices, rows.indptr), shape=rows.shape)
        return self.values(np.asarray(block))

    def values(self, stored: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Data of stored entries, always a copy."""
        if self.integers is not None:
            stored = stored.astype(self.integers)
        data = stored.astype(self.dtype)
        for sentinel in self.sentinels:
            data[stored == sentinel] = np.nan
        with np.errstate(over="ignore", invalid="ignore"):  # the reader reports infinite entries
            if self.scale is not None:
                data *= self.scale
            if self.offset is not None:
                data += self.offset
        return data

    def describe(self, stored: np.dtype[Any]) -> str:
        """One line for people: the stored numbers, and the numbers they are read as."""
        told = [str(stored)]
        if self.integers is not None:
            told.append(f"taken as {self.integers}")
        if self.scale is not None:
            told.append(f"scale {self.scale}")
        if self.offset is not None:
            told.append(f"offset {self.offset}")
        if self.sentinels:
            told.append(f"missing {', '.join(map(str, self.sentinels))}")
        if self.of_calls:
            return f"genotypes: {', '.join(told)}; read as {self.dtype}"
        kind = "declared" if self.scale is None and self.offset is None else "packed"
        return f"{kind}: {', '.join(told)}; read as {self.dtype} (--raw for stored numbers)"

    def missing_told(self) -> str | None:
        """Sentences on the missing entries, for the error about NaN; None if the store declares none."""
        if self.of_calls:
            return "Genotypes that are not called are read as NaN."
        attributes = self.attributes or {}
        missing = ", ".join(f"{key} {attributes[key]}" for key in MISSING if attributes.get(key) is not None)
        if not missing:
            return None
        return (
            f"The array declares its missing values ({missing}), which are read as NaN. If they are not missing, "
            "--raw (decode=False) reads the stored numbers."
        )
