"""Rules name features by name, pattern, number or mask, and refuse what no choice can keep."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spae_dask.errors import InvalidInput
from spae_dask.rules import Rules, features_of

NAMES = ["CD3E", "MT-CO1", "MT-ND1", "3", "LYZ", "a,b"]


@pytest.mark.parametrize(
    ("given", "numbers"),
    [
        (None, ()),
        ([], ()),
        ("CD3E", (0,)),
        ("MT-*, LYZ", (1, 2, 4)),
        (["LYZ", "CD3E", "LYZ"], (0, 4)),
        ('"a,b"', (5,)),
        (["a,b"], (5,)),
        ("3", (3,)),  # a name that is there is never a number
        ("4", (4,)),
        (2, (2,)),
        (np.int32(2), (2,)),
        ([5, "MT-CO1"], (1, 5)),
        (np.array([4, 0]), (0, 4)),
        (np.array([False, True, False, False, False, True]), (1, 5)),
        ([True, False, False, False, False, False], (0,)),
        (np.zeros(6, dtype=bool), ()),
        ("[CM]*1", (1, 2)),
    ],
    ids=str,
)
def test_features_are_found_whatever_names_them(given: Any, numbers: tuple[int, ...]) -> None:
    assert Rules.of(exclude=given, n_features=6).resolved(NAMES, 6) == Rules(exclude=numbers)
    assert Rules.of(include=given, n_features=6).resolved(NAMES, 6) == Rules(include=numbers)


def test_a_file_has_one_name_a_line(tmp_path: Path) -> None:
    panel = tmp_path / "panel.txt"
    panel.write_text("\ufeff# measured already\nCD3E\n\n  a,b\nMT-*\n", encoding="utf-8")
    assert features_of(str(panel)) == ("CD3E", "a,b", "MT-*")
    assert Rules.of(include=["LYZ", str(panel)]).resolved(NAMES, 6).include == (0, 1, 2, 4, 5)


@pytest.mark.parametrize("given", ["", [""], {}, object(), 1.5, [1.5], b"CD3E", [None], np.zeros((2, 6), dtype=bool)])
def test_other_things_name_no_features(given: Any) -> None:
    with pytest.raises(InvalidInput, match=r"^give names"):
        features_of(given)


def test_a_file_that_is_not_there_is_named_with_its_neighbour(tmp_path: Path) -> None:
    (tmp_path / "panel.txt").write_text("CD3E")
    with pytest.raises(InvalidInput, match=r"panl.txt cannot be read .*Did you mean .*panel.txt"):
        features_of(str(tmp_path / "panl.txt"))


@pytest.mark.parametrize(
    ("rules", "names", "words"),
    [
        ({"exclude": "MTX-*"}, NAMES, r"exclude='MTX-\*' fits none of the names of the 6 features"),
        ({"include": "CD3"}, NAMES, r"include='CD3' fits none .* Did you mean 'CD3E'"),
        ({"include": "CD3E"}, None, r"include='CD3E' is a name, but the data have no names"),
        ({"include": 6}, NAMES, r"include=6 names no feature: the data have 6, with numbers from 0 to 5"),
        ({"include": -1}, None, r"include=-1 names no feature"),
        ({"include": "CD3E,LYZ", "exclude": "CD*"}, NAMES, r"include=CD3E,LYZ and exclude=CD\* .* both name 'CD3E'"),
        ({"exclude": "*"}, NAMES, r"exclude=\* leaves none of the 6 features"),
        ({"exclude": [True, False]}, NAMES, r"give a mask of 6 entries, one for each feature; it has 2"),
    ],
    ids=str,
)
def test_rules_that_cannot_be_kept_are_refused_by_name(rules: dict[str, Any], names: Any, words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        Rules.of(**rules, n_features=6).resolved(names, 6)
