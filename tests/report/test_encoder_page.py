"""The page about an encoder: what it says, what it does with hostile names, and how a browser takes it."""

import re
from dataclasses import replace

import numpy as np
import pytest

from spae_dask.report.encoder_page import (
    MAX_COLUMNS,
    cost_section,
    encoder_page,
    features_section,
    loadings_section,
    record_section,
)
from spae_dask.report.html import Markup, Page, Section, definitions, render
from spae_dask.report.loss_words import headline, loss_facts
from spae_dask.strategies.feature_table import FeatureFacts
from tests.report.encoders import HOSTILE, certificate, curve, results
from tests.report.page_reader import read_page

SAMPLE = {
    "loss_kind": "estimate", "pca_loss_kind": "estimate", "loss_lower": 11.0, "loss_upper": 13.0, "confidence": 0.95,
    "pca_loss_lower": 9.0, "pca_loss_upper": 11.0, "ratio_lower": 1.15, "ratio_upper": 1.25, "fraction_read": 0.04,
    "left_to_gain": 0.01,
}  # fmt: skip

PLANNED = {
    "reason": "it fits", "bytes_read": 1000, "finish_nbytes": 2048, "finish_seconds": 0.5, "seconds": 2.0,
    "worker_nbytes": 4096, "passes": [{"name": "core", "seconds": 1.5}],
    "resources": {"where": "threads of this process", "memory_limit": 1 << 30},
}  # fmt: skip

MEASURED = {"seconds": 3.0, "peak_nbytes": 1 << 20, "passes": [{"name": "core", "seconds": 1.0}]}


def html_of(found, **more):
    return render(encoder_page(found, name="enc.zarr", **more))


def page_of(found, **more):
    page = read_page(html_of(found, **more), scripts=1)
    assert page.errors == []
    return page


def page_with(*parts):
    """A page of some sections only, without figures, which take their time."""
    sections = tuple(part if isinstance(part, Section) else Section("Part", part) for part in parts)
    page = read_page(render(Page("Page", Markup(""), sections, Markup(""))))
    assert page.errors == []
    return page


def table_of(page, column):
    (found,) = [each for each in page.tables if column in each.columns]
    return found


def test_headings_go_down_one_level_at_a_time_and_pictures_are_described():
    page = page_of(results(names=("a", "b", "c", "d")), curve=curve())
    assert page.levels[0] == 1
    assert all(after <= before + 1 for before, after in zip(page.levels, page.levels[1:], strict=False))
    assert all(len(alt) > 40 for alt in page.alts)
    assert all(table.caption for table in page.tables)


def test_the_summary_gives_the_ratio_the_share_and_how_sure_they_are(undrawn):
    page = page_of(results())
    shown = {text: value for value, text in page.numbers}
    assert shown["1.2000"] == 1.2
    assert shown["88.00%"] == 0.88
    assert shown["90.00%"] == 0.9
    assert shown["2.00%"] == 0.02
    assert "Both losses are exact" in page.text


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"pca_loss_kind": "estimate", "pca_loss_lower": 9.0, "pca_loss_upper": 11.0},
         ["between certain bounds", "certain to lie between 9.000% and 11.000%"]),
        ({"pca_loss_kind": "estimate", "pca_loss_lower": 10.0, "pca_loss_upper": 10.0},
         ["an estimate; certain to be 10.000%"]),
        ({"pca_loss_kind": "certified lower bound", "pca_loss_lower": 10.0},
         ["a certain lower bound", "certain to be no less than 10.000%"]),
        (SAMPLE, ["estimates from 4.0% of the rows", "between 11.000% and 13.000% with 95% confidence",
                  "1.1500 to 1.2500 on all rows, with 95% confidence", "could reduce the ratio by at most 0.0100"]),
        ({"loss_kind": "certified interval", "loss_lower": 11.5, "loss_upper": 12.5, "bound": None},
         ["the bounds below are certain", "between 11.500% and 12.500%", "no bound on the ratio"]),
        ({"eps": 0.1, "theory_n_nonzero": 1234}, ["lose at most 0.1 more than PCA: 4 were not enough", "1,234"]),
        ({"keep": 0.5}, ["keep 0.5 of what PCA explains: 4 were enough"]),
        ({"keep": 0.99}, ["keep 0.99 of what PCA explains: 4 were not enough"]),
        ({"keep": 0.97, "pca_loss_kind": "estimate", "pca_loss_lower": 9.0, "pca_loss_upper": 11.0},
         ["4 were enough by the estimate, not for certain"]),
        ({"loss_error": 0.5}, ["changes both losses by 0.005 of the total"]),
        ({"ratio": float("inf"), "pca_loss": 0.0}, ["loses nothing. This encoder loses 12.000%"]),
        ({"ratio": 1.0, "pca_loss": 0.0, "loss": 0.0}, ["lose only rounding errors"]),
        ({"total": 0.0, "loss": 0.0, "pca_loss": 0.0}, ["the data have no variance, so nothing is lost"]),
    ],
)  # fmt: skip
def test_every_kind_of_certificate_is_put_into_words(changes, said):
    found = results(certificate=certificate(n_nonzero=4, **changes))
    text = " ".join(page_with(headline(found), definitions(loss_facts(found))).text.split())
    for each in said:
        assert each in text


def test_sums_of_squares_are_not_called_variance():
    text = page_with(headline(results(parameters={"center": False}))).text
    assert "of the sum of squares" in text


def test_the_curve_is_a_table_too(undrawn):
    page = page_of(results(), curve=curve(), origin="From <there>.")
    assert "From <there>." in page.text
    found = table_of(page, "times PCA's loss")
    assert found.rows == {
        "1": ["2", "30.000%", "3.0000", "5.00"],
        "2": ["3", "20.000%", "2.0000", "5.00"],
        "6": ["7", "11.000%", "1.1000", "5.00"],
    }


def test_the_page_says_why_the_line_of_the_bound_breaks(undrawn):
    flat, bounds = curve(), (3.0, 5.0, 4.0)
    points = [replace(point, bound=bound) for point, bound in zip(flat.points, bounds, strict=False)]
    said = "Its line breaks where another theorem"
    assert said in html_of(results(), curve=replace(flat, points=points))
    assert said not in html_of(results(), curve=flat)


def test_without_a_curve_the_page_says_how_to_get_one(undrawn):
    text = page_of(results(provenance={"source": "/data/my X.zarr"})).text
    assert "spae report enc.zarr --data '/data/my X.zarr' -o report.html" in text
    assert "spae path '/data/my X.zarr' -k 2 -r 1,2,4,8 -o path.csv" in text
    assert "--data DATA" in page_of(results(provenance={"source": "the array"})).text


def test_the_features_are_listed_with_what_is_known_of_them_the_largest_weight_first():
    facts = FeatureFacts(costs=(1.0, 2.5, 0.0), groups=("warm", "", "warm"), adds=(0.01, 0.2, 0.0))
    found = results(
        2, 3, names=("red", "green", "blue"), components=np.array([[0.6, 0.0, 0.8], [0.0, -1.0, 0.0]]), facts=facts,
        parameters={"n_components": 2, "n_nonzero": 3, "budget": 4.0},
    )  # fmt: skip
    page = page_with(features_section(found))
    table = table_of(page, "weight")
    assert table.columns == ["feature", "rank", "column", "weight", "adds", "cost", "cost so far", "group"]
    assert table.rows == {
        "green": ["1", "1", "50.00%", "20.000%", "2.5", "2.5", ""],
        "blue": ["2", "2", "32.00%", "0.000%", "0", "2.5", "warm"],
        "red": ["3", "0", "18.00%", "1.000%", "1", "3.5", "warm"],
    }
    assert list(table.rows) == ["green", "blue", "red"]
    assert "Together they cost 3.5 of a budget of 4." in page.text
    assert "that the best 2 codes on all these features lose without this one" in page.text
    assert page.text.index("its place in the data") < page.text.index("green"), "readers meet the columns first"


def test_what_is_not_known_of_features_is_no_column():
    page = page_with(features_section(results()))
    assert table_of(page, "weight").columns == ["feature", "rank", "weight"], "names are columns already"
    assert "cost" not in page.text


def test_the_page_tells_its_story_in_order():
    page = page_of(results(names=("a", "b", "c", "d")), curve=curve())
    assert page.headings == [
        "4 of 50 features, chosen by sparse PCA",
        "The chosen features",
        "More or fewer features",
        "Loss, PCA, and what is left to gain",
        "The components",
        "The loadings",
        "Origin, and a way to repeat the fit",
        "Time and memory",
    ]


def test_loadings_have_a_column_a_component():
    found = results(2, 3, names=("red", "green", "blue"), components=np.array([[0.6, 0.0, 0.8], [0.0, -1.0, 0.0]]))
    table = table_of(page_with(loadings_section(found)), "component 1")
    assert table.rows == {
        "green": ["", "−1.0000"],  # noqa: RUF001 - a real minus
        "blue": ["0.8000", ""],
        "red": ["0.6000", ""],
    }
    assert list(table.rows) == ["green", "blue", "red"]


def test_loadings_of_many_components_share_a_column():
    k = MAX_COLUMNS + 1
    table = table_of(page_with(loadings_section(results(k, k, components=np.eye(k)))), "loadings")
    assert table.rows["column 4"] == ["5: 1.0000"]


def test_of_very_many_features_the_largest_weights_are_listed(monkeypatch):
    monkeypatch.setattr("spae_dask.report.encoder_page.MAX_ROWS", 20)
    for section, column in ((features_section, "weight"), (loadings_section, "component 1")):
        page = page_with(section(results(1, 30)))
        assert len(table_of(page, column).rows) == 20
        assert "The table lists the 20 of the largest weight." in page.text


def test_an_encoder_of_nothing_has_a_page():
    page = page_of(results(2, 0, certificate=certificate(total=0.0, loss=0.0, pca_loss=0.0, n_nonzero=0)))
    assert "None: the data contain nothing to encode." in page.text


def test_costs_are_told_as_planned_and_as_measured():
    found = results(provenance={"strategy": "gram", "planned": PLANNED, "measured": MEASURED})
    page = page_with(cost_section(found))
    rows = table_of(page, "planned").rows
    assert rows["passes over the data"] == ["1", "1"]
    assert rows["time after them"] == ["0.5 s", "2.0 s"]
    assert rows["time in all"] == ["2.0 s", "3.0 s"]
    assert rows["peak memory of the calling process, libraries included"] == ["", "1.0 MiB"]
    assert "Strategy gram: it fits." in page.text


@pytest.mark.parametrize(
    "record",
    [
        {},
        {"planned": 3, "measured": "x", "shape": [1], "constant_features": 7, "spae_dask": 1, "strategy": []},
        {"planned": {"passes": [1], "seconds": "2"}, "measured": {"passes": {}}, "source": ["x"], "shape": [1, "y"]},
        {"constant_features": list(range(50)), "selected_rows": [1, 2], "data_fingerprint": "ab", "date": "today"},
    ],
    ids=["none", "wrong", "partly", "long"],
)  # fmt: skip
def test_records_of_other_versions_have_a_page(record):
    found = results(provenance=record, spectrum=np.zeros(0))
    page = page_with(cost_section(found), record_section(found))
    assert table_of(page, "planned").rows["read, decoded"] == ["", "1000 B"]


def test_hostile_names_are_text_and_nothing_else():
    found = results(2, len(HOSTILE), names=HOSTILE, provenance={"source": HOSTILE[0], "strategy": HOSTILE[1]})
    html = html_of(found, curve=curve(), origin=HOSTILE[0])
    page = read_page(html, scripts=1)
    assert page.errors == []
    assert html.count("<script") == 1
    assert "mine" not in page.headings
    rows = table_of(page, "weight").rows
    for name in HOSTILE:
        assert (name or "column 6") in rows


def test_the_page_allows_no_script_but_its_own(undrawn):
    page = page_of(results())
    assert "default-src 'none'" in page.policy
    assert re.search(r"script-src 'sha256-[A-Za-z0-9+/]{43}='", page.policy)


def test_the_same_encoder_is_the_same_page():
    assert html_of(results(), curve=curve()) == html_of(results(), curve=curve())


@pytest.mark.parametrize("of_another_k", [False, True])
def test_without_encoders_of_other_sizes_there_is_no_figure_of_them(of_another_k, undrawn):
    found = results()
    other = curve(found.certificate.n_components + 1) if of_another_k else None
    page = page_of(found, curve=other)
    assert len(page.alts) == len(page_of(found, curve=curve()).alts) - 1
    assert "This report has no encoders of other sizes" in page.text


def test_the_tooltip_of_the_heat_map_has_names_whole_that_are_cut():
    names = ("short", "a name that is much too long for any figure, <really>", "c", "d")
    html = html_of(results(names=names))
    assert "a name that is much too long fo…: a name that is much too long for any figure, &lt;really&gt;" in html
    assert "short: short" not in html


@pytest.mark.parametrize(
    ("source", "told"), [("/data/x.zarr", True), ("s3://bucket/x.zarr", False), ("the DataFrame", False), (None, False)]
)
def test_a_path_is_said_to_be_that_of_the_machine_of_the_fit(source, told):
    page = page_with(record_section(results(provenance={"source": source})))
    assert ("The path is the one on the machine of the fit" in page.text) == told
