"""Feature-barcode matrices of Cell Ranger (10x Genomics, ``.h5``), presented in the layout of AnnData.

The file holds features by barcodes in CSC. The same arrays are barcodes by features in CSR, so that cells are rows
without any conversion.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from spae_dask.errors import InvalidInput, warn
from spae_dask.storage.groups import text_of

ARRAYS = ("barcodes", "data", "indices", "indptr", "shape")
"""Members of the group of a matrix in all versions of the format."""

OF_ONE_GENOME = {"gene_names": "name", "genes": "id"}
"""Names of features before Cell Ranger 3, beside the arrays, and their names since then."""

OF_FEATURES = {"id": "gene_ids", "feature_type": "feature_types", "genome": "genome"}
"""Columns that ``scanpy.read_10x_h5`` makes of the features, by the names in the file."""


@dataclass(frozen=True)
class PresentedGroup:
    """A group of arrays and groups in memory or in a file, asked as a group of h5py or Zarr is asked.

    Parameters
    ----------
    attrs : mapping
        Attributes.
    members : mapping
        Arrays and groups by name.
    """

    attrs: Mapping[str, Any]
    members: Mapping[str, Any]

    def get(self, path: str) -> Any:
        """Return the member at a path such as ``var/gene_ids``; None if there is none."""
        name, _, rest = path.partition("/")
        found = self.members.get(name)
        return found if not rest or found is None else found.get(rest)

    def __getitem__(self, path: str) -> Any:
        found = self.get(path)
        if found is None:
            raise KeyError(path)
        return found

    def __contains__(self, path: str) -> bool:
        return self.get(path) is not None

    def __iter__(self) -> Iterator[str]:
        return iter(self.members)


def presented(file: Any, name: str) -> Any:
    """Return the AnnData layout of a file of Cell Ranger; any other HDF5 file is returned as it is.

    Parameters
    ----------
    file : h5py.File
        The open file.
    name : str
        Name of the file in messages.

    Raises
    ------
    InvalidInput
        If it holds a matrix for each of several genomes, or the names of its features are missing.
    """
    groups = [file[key] for key in file if _is_counts(file.get(key))]
    if not groups:
        return file
    if len(groups) > 1:
        raise InvalidInput(
            f"{name} holds the matrices of {len(groups)} genomes: {', '.join(each.name[1:] for each in groups)}. Read "
            "one with scanpy.read_10x_h5(path, genome=NAME), and write it as .h5ad."
        )
    counts = groups[0]
    features = _features(counts)
    shape = counts["shape"][:].tolist()
    if "name" not in features or len(shape) != 2 or any(each.shape != (shape[0],) for each in features.values()):
        raise InvalidInput(
            f"{name} is a feature-barcode matrix, but the names of its features are missing or do not fit its shape, "
            f"{shape}. Write it again, or read it with scanpy and write it as .h5ad."
        )
    arrays = {key: counts[key] for key in ("data", "indices", "indptr")}
    matrix = PresentedGroup({"encoding-type": "csr_matrix", "shape": shape[::-1]}, arrays)
    columns = {shown: features[key] for key, shown in OF_FEATURES.items() if key in features}
    names = _unique([text_of(each) for each in features["name"][:]])
    var = PresentedGroup({"_index": "_index"}, {"_index": names, **columns})
    obs = PresentedGroup({"_index": "_index"}, {"_index": counts["barcodes"]})
    return PresentedGroup({"encoding-type": "anndata"}, {"X": matrix, "obs": obs, "var": var})


def warn_of_feature_types(root: Any, name: str) -> None:
    """Warn if all features of a file are read, and they are of more than one type."""
    types = root.get("var/feature_types") if isinstance(root, PresentedGroup) else None
    kinds = [] if types is None else sorted({text_of(each) for each in types[:]})
    if len(kinds) > 1:
        warn(
            f"{name} holds features of {len(kinds)} types: {', '.join(kinds)}. They are all read. To read one type, "
            f"give --mask \"feature_types == '{kinds[-1]}'\" (mask=...)."
        )


def _is_counts(node: Any) -> bool:
    """Return True if a member of a file is a feature-barcode matrix of any version of the format."""
    return (
        hasattr(node, "keys")
        and all(getattr(node.get(key), "ndim", None) == 1 for key in ARRAYS)
        and ("features" in node or "genes" in node)
    )


def _features(counts: Any) -> dict[str, Any]:
    """Arrays of the features by their names since Cell Ranger 3."""
    if "features" in counts:
        known = ("name", *OF_FEATURES)
        return {key: counts["features"][key] for key in known if getattr(counts["features"].get(key), "ndim", 0) == 1}
    return {since: counts[before] for before, since in OF_ONE_GENOME.items() if before in counts}


def _unique(names: list[str]) -> npt.NDArray[np.str_]:
    """Names of which each occurs once, by the rule of ``AnnData.var_names_make_unique``: ``TBCE``, ``TBCE-1``."""
    made, taken, met, copies = list(names), set(names), set[str](), Counter[str]()
    for place, name in enumerate(names):
        new = name
        while name in met and new in taken:
            copies[name] += 1
            new = f"{name}-{copies[name]}"
        met.add(name)
        taken.add(new)
        made[place] = new
    return np.array(made)
