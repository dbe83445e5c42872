"""The page on quality holds the numbers of the tables of the benchmarks, and says what they are."""

from statistics import median

import pytest

from benchmarks import extracts
from benchmarks.table import BEGIN, END

QUALITY = """
| data | k | r | batch | iterative | TPower | GPower l0 | GPower l1 | SparsePCA | MiniBatchSparsePCA | polished |
|---|---|---|---|---|---|---|---|---|---|---|
| one | 5 | 5 | 1.4 | 1.2 | 1.5 | 1.6 | 1.7 | 1.8 | 1.9 | 1.1 |
| one | 5 | 10 | 1.3 | 1.2 | 1.4 | 1.5 | 1.6 | 1.7 | 1.8 | 1.2 |
| two | 5 | 10 | 9.0 / 8.0 | 1.3 / 1.0 | 2.0 / 1.0 | 2.0 / 1.0 | 2.0 / 1.0 | 2.0 / 1.0 | 2.0 / 1.0 | 1.2 / 1.4 |
"""

FIELD = """
| data | tool | read and fit | peak memory | explained | loss / PCA's | nonzeros a component | note |
| --- | --- | --- | --- | --- | --- | --- | --- |
| rows | ours | 2.00 s (1.00 to 3.00) | 9 MiB | 50% | 1.01 | 3 | |
| rows | theirs | 1.00 s (1.00 to 1.00) | 8 MiB | 51% | | | |
| rows | absent | | | | | | not installed |
| more | ours | 4.00 s (4.00 to 4.00) | 9 MiB | 60% | 1.02 | 3 | |
"""


def test_the_page_has_the_tables_of_today() -> None:
    text = extracts.PAGE.read_text(encoding="utf-8")
    quality, field = (
        extracts.rows((extracts.HERE / name).read_text(encoding="utf-8")) for name in ("quality.md", "field.md")
    )
    assert extracts.page(text, quality, field) == text, "run `python -m benchmarks.extracts`"
    assert extracts.PICTURE.is_file()


def test_the_overview_counts_ratios_on_the_data_of_the_fit() -> None:
    found = {row["method"]: row for row in extracts.rows(extracts.overview(extracts.rows(QUALITY)))}
    assert found["polished"]["median ratio"] == f"{median([1.1, 1.2, 1.2]):.4f}"
    assert found["batch"]["largest ratio"] == "9.0000"
    assert found["polished"]["least loss of all, or equal to it"] == "3 of 3"
    assert found["iterative"]["least loss of all, or equal to it"] == "1 of 3"


def test_the_table_of_data_sets_has_one_size() -> None:
    found = extracts.rows(extracts.data_sets(extracts.rows(QUALITY)))
    assert [(row["data"], row["batch"]) for row in found] == [("one", "1.3"), ("two", "9.0 / 8.0")]


def test_tools_that_did_not_run_are_left_out_and_data_are_named_once() -> None:
    found = extracts.rows(extracts.tools(extracts.rows(FIELD)))
    assert [row["data"] for row in found] == ["rows", "", "more"]
    assert [row["read and fit"] for row in found] == ["2.00 s", "1.00 s", "4.00 s"]


def test_the_picture_draws_every_data_set_as_loss_beyond_pca() -> None:
    figure = extracts.picture(extracts.rows(QUALITY))
    panels = [axes for axes in figure.axes if axes.get_title(loc="left")]
    assert [axes.get_title(loc="left") for axes in panels] == ["one", "two"]
    (line,) = (each for each in panels[0].lines if each.get_label() == "polished")
    assert list(line.get_xdata()) == [5, 10]
    assert list(line.get_ydata()) == pytest.approx([10.0, 20.0])


def test_a_page_with_other_marks_is_refused() -> None:
    with pytest.raises(ValueError, match="zip"):
        extracts.page(f"{BEGIN}{END}", extracts.rows(QUALITY), extracts.rows(FIELD))
