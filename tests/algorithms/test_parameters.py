"""Parameters are checked before anything is read: each message names what was given and what is allowed."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from spae_dask.algorithms.parameters import FitParameters, check_choice, check_count
from spae_dask.errors import InvalidInput

GOOD = FitParameters(n_components=3, n_nonzero=5)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"n_components": 0}, r"n_components=0 is not allowed: give a whole number from 1 to 8"),
        ({"n_components": 9}, r"n_components=9 .* from 1 to 8"),
        ({"n_nonzero": 9}, r"n_nonzero=9 .* from 1 to 8"),
        ({"n_nonzero": None, "eps": 0.0}, r"eps=0\.0 is not allowed"),
        ({"n_nonzero": None, "keep": 1.0}, r"keep=1\.0 is not allowed: give a number between 0 and 1"),
        ({"n_nonzero": None, "keep": True}, r"keep=True is not allowed"),
        ({"n_nonzero": None, "keep": "all"}, r"keep='all' is not allowed"),
        ({"n_nonzero": None, "eps": 0.1, "keep": 0.9}, r"eps=0\.1 and keep=0\.9 are two targets"),
        ({"n_nonzero": (5, 5)}, r"2 numbers for n_components=3"),
        ({"method": "magic"}, r"method='magic' is not allowed: choose one of .*'batch'"),
        ({"selection": "magic"}, r"selection='magic' .*'dual-set'"),
        ({"strategy": "magic"}, r"strategy='magic' .*'gram'"),
        ({"missing": "magic"}, r"missing='magic' .*'mean'"),
        ({"precision": "magic"}, r"precision='magic' .*'exact'"),
        ({"center": None}, r"center=None is not allowed: give True or False"),
        ({"center": "false"}, r"center='false' is not allowed"),
        ({"scale": 1}, r"scale=1 is not allowed"),
        ({"orthonormal": "no"}, r"orthonormal='no' is not allowed"),
        ({"shared_support": "no"}, r"shared_support='no' is not allowed"),
        ({"certified": "no"}, r"certified='no' is not allowed"),
        ({"split": "magic"}, r"split='magic' .*'paper'"),
        ({"projection": "magic"}, r"projection='magic' .*'frequent-directions'"),
        ({"strategy": "paper", "oversampling": 9}, r"oversampling=9 .* from 1 to 8"),
        ({"strategy": "paper", "oversampling": 1}, r"oversampling=1 is not allowed.* from 2 rows"),
        ({"oversampling": 4, "split": "dual-set"}, r"oversampling=4 and split='dual-set': only strategy='paper'"),
        ({"strategy": "gram", "projection": "frequent-directions"}, r"only strategy='paper' .* strategy='gram'"),
        ({"strategy": "paper", "split": "paper"}, r"5k = 15 columns .* n_nonzero=5: give more than 15"),
    ],
    ids=str,
)
def test_what_is_wrong_is_named_with_what_is_right(change: dict[str, Any], words: str) -> None:
    GOOD.check(100, 8)
    with pytest.raises(InvalidInput, match=words):
        replace(GOOD, **change).check(100, 8)


def test_one_row_is_too_few() -> None:
    with pytest.raises(InvalidInput, match="n_samples = 1"):
        GOOD.check(1, 8)


@pytest.mark.parametrize("kind", [int, np.int8, np.int64, np.uint16])
def test_whole_numbers_of_any_kind_are_numbers(kind: Any) -> None:
    check_count("n", kind(4), 8)
    replace(GOOD, n_components=kind(3), n_nonzero=kind(5)).check(100, 8)


@pytest.mark.parametrize("kind", [float, str, bool, lambda n: None, lambda n: [n]])
def test_other_things_are_not(kind: Any) -> None:
    with pytest.raises(InvalidInput, match="n="):
        check_count("n", kind(4), 8)


def test_names_are_exact() -> None:
    check_choice("color", "red", ("red", "green"))
    for given in ("Red", "", None, 3, ["red"]):
        with pytest.raises(InvalidInput, match=r"color=.* choose one of 'red', 'green'"):
            check_choice("color", given, ("red", "green"))


@pytest.mark.parametrize("eps", [1e-9, 0.1, np.float32(0.5), 3])
def test_an_excess_may_be_any_positive_number(eps: Any) -> None:
    replace(GOOD, n_nonzero=None, eps=eps).check(100, 8)
