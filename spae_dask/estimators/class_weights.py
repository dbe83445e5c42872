"""Weights of rows by the class that each is of, as scikit-learn's ``class_weight`` gives them."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.utils.class_weight import compute_class_weight

from spae_dask.errors import InvalidInput
from spae_dask.estimators.covariates import labels_of
from spae_dask.passes.accumulators import RowWeights
from spae_dask.strategies.parameters import is_number
from spae_dask.toml.names import did_you_mean

BALANCED = "balanced"
"""Weights with which all classes count the same."""


def by_class(weights: RowWeights | None, class_weight: Any, y: Any, x: Any, source: Any) -> RowWeights | None:
    """Weights of rows times those of their classes; as they are without weights of classes.

    Parameters
    ----------
    weights : RowWeights or None
        Weights of all rows; None for 1.
    class_weight : "balanced", mapping or None
        ``n / (number of classes * rows of the class)``, or a weight for each label. Labels that a mapping leaves out
        have the weight 1.
    y : object
        Label of each row: values, or the name of where they are kept.
    x : object
        The data as they are given, in which a name is looked up.
    source : RowBlocks
        The same, opened.

    Raises
    ------
    NotFound
        If there is no column of that name.
    InvalidInput
        If the weights are none of these, there is not one label for each row, or no row is left that counts.
    """
    _check(class_weight)
    if class_weight is None:
        return weights
    if y is None:
        raise InvalidInput(
            f"class_weight={class_weight!r} weighs rows by their labels, and y is None. Give labels, as in fit(X, y), "
            "or leave out class_weight."
        )
    labels = labels_of(y, x, source, "class label", most=source.shape[0])
    codes, levels = labels.values, labels.levels or ()
    if len(levels) == codes.size > 1:
        raise InvalidInput(
            f"class_weight={class_weight!r} weighs rows by their labels, and y has another label in each of the "
            f"{codes.size:,} rows. Give labels of classes, or weights of rows as sample_weight."
        )
    wanted = class_weight if isinstance(class_weight, str) else _by_code(class_weight, levels)
    found = compute_class_weight(wanted, classes=np.arange(len(levels)), y=codes)
    roots = np.sqrt(found[codes]) * (1.0 if weights is None else weights.roots)
    if not roots.any():
        raise InvalidInput("class_weight and sample_weight leave no row with a weight above 0. Give positive weights.")
    return RowWeights(roots)


def _check(class_weight: Any) -> None:
    """Refuse weights of classes that are none."""
    if class_weight is None or (isinstance(class_weight, str) and class_weight == BALANCED):
        return
    if isinstance(class_weight, Mapping) and all(
        is_number(each) and 0 <= each < math.inf for each in class_weight.values()
    ):
        return
    raise InvalidInput(
        f"class_weight={class_weight!r} is not allowed: give {BALANCED!r}, a dict of a number of at least 0 for each "
        "label, or None."
    )


def _by_code(class_weight: Mapping[Any, Any], levels: tuple[str, ...]) -> dict[int, float]:
    """Weights by the number of the label, 1 for labels that have none.

    Names of labels that do not occur are refused if another label has no weight, because it may be misspelled. Else
    they are passed over: a part of the rows, as in cross-validation, may lack a class.
    """
    codes = {level: code for code, level in enumerate(levels)}
    found = {codes[name]: float(each) for key, each in class_weight.items() if (name := _text(key)) in codes}
    others = [_text(key) for key in class_weight if _text(key) not in codes]
    if others and len(found) < len(levels):
        lacking = [level for code, level in enumerate(levels) if code not in found]
        raise InvalidInput(
            f"class_weight names {others[0]!r}, which is no label of y, and has no weight for {lacking[0]!r}."
            f"{did_you_mean(others[0], lacking)} Name labels that are there."
        )
    return dict.fromkeys(range(len(levels)), 1.0) | found


def _text(label: Any) -> str:
    """A label as levels of labels are written."""
    if isinstance(label, bytes):
        return label.decode()
    if isinstance(label, float | np.floating) and float(label).is_integer():
        return str(int(label))
    return str(label)
