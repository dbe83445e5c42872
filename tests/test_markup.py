"""Tables for notebooks hold what they are given, and nothing of it as markup."""

from spae_dask.markup import html_table, interval, labelled_lines
from tests.report.page_reader import read_page


def test_cells_and_headings_are_escaped_and_line_breaks_kept():
    page = read_page(html_table("<b>&", ["<i>", "x"], [["<script>alert(1)</script>", "a\nb"]]))
    assert page.errors == []
    assert page.tables[0].caption == "<b>&"
    assert page.tables[0].columns == ["<i>", "x"]
    assert page.tables[0].rows == {"<script>alert(1)</script>": ["ab"]}
    assert "a<br>b" in html_table("", [], [["x", "a\nb"]])


def test_a_table_without_headings_has_none():
    assert "<thead>" not in html_table("caption", [], [["name", "value"]])


def test_lines_are_split_into_names_and_what_they_say():
    assert labelled_lines("one  first\n     more\ntwo  second", 5) == [("one", "first\nmore"), ("two", "second")]


def test_an_interval_that_is_a_point_as_printed_is_a_number():
    assert interval("1.017", "1.018") == "1.017 to 1.018"
    assert interval("1.017", "1.017") == "1.017"
