"""Rules name features by name, pattern, number or mask, and refuse what no choice can keep."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spae_dask.errors import InvalidInput
from spae_dask.features import costs_of, features_of, groups_of, limits_of, pairs_in, point_in, positions_of
from spae_dask.rules import Rules

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
    assert Rules.of({"exclude": given}, 6).resolved(NAMES, 6) == Rules(exclude=numbers)
    assert Rules.of({"include": given}, 6).resolved(NAMES, 6) == Rules(include=numbers)


def test_a_file_has_one_name_a_line(tmp_path: Path) -> None:
    panel = tmp_path / "panel.txt"
    panel.write_text("\ufeff# measured already\nCD3E\n\n  a,b\nMT-*\n", encoding="utf-8")
    assert features_of(str(panel)) == ("CD3E", "a,b", "MT-*")
    assert Rules.of({"include": ["LYZ", str(panel)]}).resolved(NAMES, 6).include == (0, 1, 2, 4, 5)


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
        Rules.of(rules, 6).resolved(names, 6)


COSTS = {"CD3E": 1.0, "MT-CO1": 2.0, "MT-ND1": 3.0, "3": 4.0, "LYZ": 5.0, "a,b": 6.0}
GROUPS = {"CD3E": "T", "MT-CO1": "M", "MT-ND1": "M", "LYZ": "B"}


@pytest.mark.parametrize(
    "given",
    [
        COSTS,
        {**COSTS, "of other data": 9.0},
        list(COSTS.values()),
        np.array(list(COSTS.values())),
        {0: 1, 1: 2, np.int64(2): 3, "3": 4, "4": 5, 5: np.float32(6)},
        'CD3E=1,MT-CO1=2,MT-ND1=3,3=4,LYZ=5,"a,b=6"',
        "1,2,3,4,5,6",
    ],
    ids=str,
)
def test_costs_are_found_whatever_tells_them(given: Any) -> None:
    found = Rules.of({"costs": given, "budget": 7}, 6).resolved(NAMES, 6)
    assert found.costs == (1.0, 2.0, 3.0, 4.0, 5.0, 6.0)
    assert found.affordable(6) == 3
    assert Rules.of(vars(found)).resolved(NAMES, 6) == found, "once more is the same"


@pytest.mark.parametrize(
    "given",
    [GROUPS, ["T", "M", "M", None, "B", ""], "T,M,M,,B,", "CD3E=T,MT-CO1=M,MT-ND1=M,LYZ=B"],
    ids=str,
)
def test_groups_are_found_too(given: Any) -> None:
    found = Rules.of({"groups": given, "at_most": {"M": 1, "T": 2}, "at_least": "B=1"}, 6).resolved(NAMES, 6)
    assert found.groups == ("T", "M", "M", "", "B", "")
    assert found.limited == ("B", "M", "T")
    assert [found.limit("at_most", group) for group in found.limited] == [None, 1, 2]
    assert [found.limit("at_least", group) for group in found.limited] == [1, None, None]
    assert Rules.of(vars(found)).resolved(NAMES, 6) == found


def test_files_have_names_and_values_in_two_columns(tmp_path: Path) -> None:
    costs, groups = tmp_path / "costs.csv", tmp_path / "groups.csv"
    costs.write_text('\ufeffgene, cost\nCD3E, 1.5\n\n"a,b",2\n')
    groups.write_text("gene,group\nCD3E,T\nLYZ,\n")
    assert costs_of(str(costs)) == {"CD3E": 1.5, "a,b": 2.0}
    assert groups_of(str(groups)) == {"gene": "group", "CD3E": "T", "LYZ": ""}
    for text in ("", "gene,cost\n", "CD3E,1\nLYZ\n", "CD3E,1\nCD3E,2\n", "CD3E,1,2\n"):
        costs.write_text(text)
        with pytest.raises(
            InvalidInput, match=r"^give a file of two columns, names of features and costs: .*costs\.csv"
        ):
            costs_of(str(costs))
    with pytest.raises(InvalidInput, match=r"cots\.csv cannot be read .*Did you mean .*costs\.csv"):
        costs_of(str(tmp_path / "cots.csv"))


@pytest.mark.parametrize(
    "given", ["CD3E", {}, "", 3, {"CD3E": 0}, {"CD3E": -1.0}, {"CD3E": "x"}, [1.0, np.nan], [True]]
)
def test_other_things_are_no_costs(given: Any) -> None:
    with pytest.raises(InvalidInput, match=r"^give "):
        costs_of(given)


@pytest.mark.parametrize("given", ["x", -1, 1.5, True, {"T": -1}, "T=x", [2]])
def test_other_things_are_no_limits(given: Any) -> None:
    with pytest.raises(InvalidInput, match=r"^give a whole number of at least 0"):
        limits_of(given)


@pytest.mark.parametrize(
    ("text", "kind", "found"),
    [
        ("T=2,B=1", int, {"T": 2, "B": 1}),
        ("2", int, 2),
        ("a=b=2", int, {"a=b": 2}),
        ("x.csv", float, "x.csv"),
        ("1.5,2", float, (1.5, 2.0)),
        ("A=x,y", float, "A=x,y"),
        ("A=x", float, {"A": "x"}),
        ("T,B,,T", str, ("T", "B", "", "T")),
        ("T", str, "T"),
        ("x,y.csv", str, "x,y.csv"),
        ("1 2,3 4", point_in, ((1.0, 2.0), (3.0, 4.0))),
        ("A=1 2,B=3", point_in, {"A": (1.0, 2.0), "B": 3.0}),
    ],
)
def test_pairs_on_the_command_line(text: str, kind: Any, found: Any) -> None:
    assert pairs_in(text, kind) == found


MONEY = {"costs": COSTS, "budget": 7}


@pytest.mark.parametrize(
    ("rules", "words"),
    [
        ({"costs": COSTS}, "costs without budget"),
        ({"budget": 3}, "budget without costs"),
        ({"groups": GROUPS}, "groups without at_most and at_least"),
        ({"at_most": 2}, "at_most without groups"),
        ({"at_least": 2}, "at_least without groups"),
        ({"costs": {"CD3E": 1}, "budget": 3}, r"costs lack 5 of the 6 features: 'MT-CO1', 'MT-ND1', '3' and others"),
        ({"costs": {"CDE": 1}, "budget": 3}, r"costs='CDE' fits none .* Did you mean 'CD3E'"),
        ({"costs": [1.0, 2.0], "budget": 3}, r"give one cost for each of the 6 features; these are 2"),
        ({"costs": COSTS, "budget": 0.5}, r"budget=0.5 is less than the cheapest feature costs, 1"),
        ({"costs": COSTS, "budget": 2, "exclude": "[CM]*"}, r"budget=2 is less than the cheapest feature costs, 4"),
        ({"groups": GROUPS, "at_most": {"X": 1}}, r"at_most names the group 'X'"),
        ({"groups": GROUPS, "at_least": {"M": 3}}, r"at_least=3 of the group 'M' is more than the 2"),
        (
            {"groups": GROUPS, "at_least": {"M": 2}, "exclude": "MT-CO1"},
            r"at_least=2 of the group 'M' is more than the 1",
        ),
        (
            {"groups": GROUPS, "at_most": 1, "include": "MT-*"},
            r"at_most=1 of the group 'M' is less than the 2 features",
        ),
        (
            {"groups": GROUPS, "at_most": 1, "at_least": {"M": 2}},
            r"at_least=2 and at_most=1 of the group 'M' contradict",
        ),
        ({**MONEY, "groups": GROUPS, "at_least": {"M": 2, "B": 1}}, r"budget=7 is less than the 10 that the cheapest"),
    ],
    ids=str,
)
def test_costs_and_groups_that_cannot_be_kept_are_refused_by_name(rules: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        Rules.of(rules, 6).resolved(NAMES, 6)


def test_included_features_are_paid_and_count_in_their_groups() -> None:
    given = {**MONEY, "groups": GROUPS, "at_least": {"M": 2, "B": 1}, "include": "MT-CO1,LYZ"}
    found = Rules.of(given, 6).resolved(NAMES, 6)
    assert found.price([1, 2, 4]) == 3.0
    assert found.affordable(6) == 2
    cheap = {"costs": {"CD3E": 1}, "budget": 1, "include": "3", "exclude": ["MT-*", "LYZ", "a,b"]}
    assert Rules.of(cheap, 6).resolved(NAMES, 6).affordable(6) == 1, "others need no cost"


def test_rules_for_some_columns_have_their_numbers() -> None:
    found = Rules.of({**MONEY, "groups": GROUPS, "at_most": 2, "include": 4, "exclude": [0, 2]}, 6).resolved(NAMES, 6)
    some = found.on([1, 2, 4])
    assert (some.include, some.exclude, some.costs, some.groups) == ((2,), (1,), (2.0, 3.0, 5.0), ("M", "M", "B"))


@pytest.mark.parametrize(
    ("given", "points"),
    [
        ([0, 1, 2, 3, 4, 5.5], (0.0, 1.0, 2.0, 3.0, 4.0, 5.5)),
        (np.arange(12.0).reshape(6, 2), ((0.0, 1.0), (2.0, 3.0), (4.0, 5.0), (6.0, 7.0), (8.0, 9.0), (10.0, 11.0))),
        ('CD3E=0,MT-CO1=1,MT-ND1=2,3=3,LYZ=4,"a,b=5.5"', (0.0, 1.0, 2.0, 3.0, 4.0, 5.5)),
    ],
    ids=str,
)
def test_positions_are_numbers_or_several(given: Any, points: tuple[Any, ...]) -> None:
    found = Rules.of({"positions": given, "min_distance": 2}, 6).resolved(NAMES, 6)
    assert found.positions == points
    assert Rules.of(vars(found)).resolved(NAMES, 6) == found


def test_files_of_positions_have_two_columns_or_more(tmp_path: Path) -> None:
    places = tmp_path / "places.csv"
    places.write_text("sensor,x,y\nCD3E,1,2\nLYZ, 3.5,-4\n")
    assert positions_of(str(places)) == {"CD3E": (1.0, 2.0), "LYZ": (3.5, -4.0)}
    places.write_text("CD3E,442.5\nLYZ,560\n")
    assert positions_of(str(places)) == {"CD3E": 442.5, "LYZ": 560.0}
    for text in ("CD3E\n", "CD3E,1\nLYZ,x\n", "CD3E,1\nLYZ,1,2\n", "CD3E,nan\n"):
        places.write_text(text)
        with pytest.raises(InvalidInput, match=r"^give "):
            positions_of(str(places))


def test_features_that_may_be_chosen_or_are_included_need_a_position() -> None:
    given = {"positions": {"CD3E": (1, 2), "LYZ": (3, 4)}, "min_distance": 1, "exclude": "MT-*"}
    with pytest.raises(InvalidInput, match=r"positions lack 2 of the 6 features: '3', 'a,b'"):
        Rules.of({**given, "include": "3"}, 6).resolved(NAMES, 6)
    found = Rules.of({**given, "exclude": ["MT-*", "3", "a,b"]}, 6).resolved(NAMES, 6)
    assert found.positions == ((1.0, 2.0), (0.0, 0.0), (0.0, 0.0), (0.0, 0.0), (3.0, 4.0), (0.0, 0.0))
