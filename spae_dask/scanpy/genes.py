"""Genes that a mask chooses, with scanpy's parameter names."""

from enum import Enum
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from spae_dask.storage.masks import DEFAULT, checked_mask, find_mask


class DefaultMask(Enum):
    """The mask that is used if none is given: this column of ``var``, if it is there."""

    HIGHLY_VARIABLE = DEFAULT.removeprefix("var/")


Mask: TypeAlias = "str | npt.NDArray[np.bool_] | DefaultMask | None"

ADVICE = "or mask_var=None to use all of them"


def chosen_genes(adata: Any, mask_var: Mask) -> tuple[npt.NDArray[np.bool_] | None, str | None]:
    """The mask (d,), None for all genes, and the column of ``var`` it was, if it was one."""
    if mask_var is None:
        return None, None
    if not isinstance(mask_var, str | DefaultMask):
        return checked_mask(mask_var, adata.n_vars, "the mask", ADVICE), None
    asked = None if isinstance(mask_var, DefaultMask) else f"var/{mask_var}"
    var, d = adata.var, adata.n_vars
    found = find_mask(asked, "var", list(var.columns), lambda name: var[name], d, "adata", ADVICE)
    return (None, None) if found is None else (found.chosen, found.name.removeprefix("var/"))
