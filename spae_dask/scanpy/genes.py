"""Which genes a mask chooses."""

from enum import Enum
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from spae_dask.errors import InvalidInput


class DefaultMask(Enum):
    """The mask that is used if none is given: this column of ``var``, if it is there."""

    HIGHLY_VARIABLE = "highly_variable"


Mask: TypeAlias = "str | npt.NDArray[np.bool_] | DefaultMask | None"


def chosen_genes(adata: Any, mask_var: Mask) -> tuple[npt.NDArray[np.bool_] | None, str | None]:
    """The mask (d,), None for all genes, and the column of ``var`` it was, if it was one."""
    if isinstance(mask_var, DefaultMask):
        mask_var = mask_var.value if mask_var.value in adata.var.columns else None
    if mask_var is None:
        return None, None
    name = mask_var if isinstance(mask_var, str) else None
    if name is not None and name not in adata.var.columns:
        has = ", ".join(map(repr, adata.var.columns)) or "none"
        raise InvalidInput(
            f"mask_var={name!r} is no column of adata.var, which has {has}. Give one of these, or a mask."
        )
    given = np.asarray(mask_var if name is None else adata.var[name])
    called = "the mask" if name is None else f"adata.var[{name!r}]"
    if given.dtype == object and all(isinstance(each, bool | np.bool_) for each in given.ravel()):
        given = given.astype(bool)  # as columns of nullable type come
    if given.dtype != bool or given.shape != (adata.n_vars,):
        raise InvalidInput(
            f"{called} is {given.dtype} of shape {given.shape}. Allowed is a boolean for each of the {adata.n_vars:,} "
            "genes, none of them missing."
        )
    if not given.any():
        raise InvalidInput(f"{called} chooses no gene. Give a mask with genes, or mask_var=None to use all of them.")
    return given, name
