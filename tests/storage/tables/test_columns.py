"""Columns by name and pattern."""

import pytest

from spae_dask.errors import InvalidInput, NotNumbers
from spae_dask.storage.tables.columns import choose_columns, refuse_non_numeric

NAMES = ("id", "expr_1", "expr_2", "age", "expr_*")


def test_names_come_in_the_order_asked_for_and_patterns_in_that_of_the_table() -> None:
    assert choose_columns(NAMES, ["age", "expr_?", "id"], "t") == (3, 1, 2, 4, 0)


def test_no_column_comes_twice() -> None:
    assert choose_columns(NAMES, ["expr_2", "e*", "expr_2"], "t") == (2, 1, 4)


def test_a_name_that_is_there_is_no_pattern() -> None:
    assert choose_columns(NAMES, ["expr_*"], "t") == (4,)


def test_all_columns_are_meant_where_none_is_named() -> None:
    assert choose_columns(NAMES, None, "t") == (0, 1, 2, 3, 4)


def test_a_missing_name_is_told_with_the_nearest_ones() -> None:
    with pytest.raises(InvalidInput, match=r"t: there is no column 'expr1'\. Did you mean 'expr_1'"):
        choose_columns(NAMES, ["expr1"], "t")


def test_a_pattern_that_fits_nothing_is_told_with_what_there_is() -> None:
    with pytest.raises(InvalidInput, match=r"no column matches the pattern 'zz\*'\. It has the columns 'id', 'expr_1'"):
        choose_columns(NAMES, ["zz*"], "t")


@pytest.mark.parametrize(("wanted", "told"), [("id", "not a list"), ([], "chooses nothing"), ([1], "not a list")])
def test_what_is_no_list_of_names_is_refused(wanted: object, told: str) -> None:
    with pytest.raises(InvalidInput, match=told):
        choose_columns(NAMES, wanted, "t")  # type: ignore[arg-type]


def test_two_columns_of_one_name_are_refused_only_if_they_are_meant() -> None:
    with pytest.raises(InvalidInput, match="several columns named 'a'"):
        choose_columns(("a", "b", "a"), None, "t")
    assert choose_columns(("a", "b", "a"), ["b"], "t") == (1,)


def test_columns_that_are_no_numbers_are_named_with_their_types_up_to_five() -> None:
    refuse_non_numeric({}, 3, "t")
    with pytest.raises(NotNumbers, match=r"t: 1 of 3 columns is not numbers: 'id' \(string\)\. .*--columns"):
        refuse_non_numeric({"id": "string"}, 3, "t")
    with pytest.raises(NotNumbers, match=r"7 of 9 columns are .*'c4' \(date\) and 2 more\."):
        refuse_non_numeric({f"c{i}": "date" for i in range(7)}, 9, "t")


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (["@numeric"], (1, 2, 3)),
        (["@numeric", "!age"], (1, 2)),
        (["!id"], (1, 2, 3, 4)),
        (["!id", "!expr_?"], (3,)),
        (["expr_*", "!expr_2"], (1, 4)),
        (["age", "@numeric"], (3, 1, 2)),
        (["!age", "age"], (0, 1, 2, 4, 3)),
    ],
)
def test_words_stand_for_all_numbers_and_for_all_but(wanted: list[str], expected: tuple[int, ...]) -> None:
    names = ("id", "expr_1", "expr_2", "age", "expr_x")
    assert choose_columns(names, wanted, "t", is_numeric=lambda place: place in (1, 2, 3)) == expected


def test_row_labels_are_not_among_all_columns() -> None:
    assert choose_columns(("label", "a", "b"), ["!a"], "t", everything=[1, 2]) == (2,)
    assert choose_columns(("label", "a"), ["@numeric"], "t", is_numeric=lambda _: True, everything=[1]) == (1,)
    assert choose_columns(("label", "a"), ["label"], "t", everything=[1]) == (0,)


def test_a_name_that_is_there_is_never_a_word() -> None:
    assert choose_columns(("!a", "a", "@numeric"), ["!a"], "t") == (0,)
    assert choose_columns(("!a", "a", "@numeric"), ["@numeric"], "t", is_numeric=lambda _: True) == (2,)


@pytest.mark.parametrize("wanted", [["!zz"], ["!*"], ["a", "!a"], ["!"]])
def test_words_that_find_or_leave_nothing_are_refused(wanted: list[str]) -> None:
    with pytest.raises(InvalidInput, match=r"no column|chooses nothing"):
        choose_columns(("a", "b"), wanted, "t")
