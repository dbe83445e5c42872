"""Sections tell the numbers they are given, for encoders and data of any kind."""

from dataclasses import replace

import numpy as np

from spae_dask.report.html import Markup, Page, Section, render
from spae_dask.report.sections import components_table, loss_table
from spae_dask.strategies.certificate import Certificate
from tests.report.page_reader import read_page

CERTIFICATE = Certificate(
    loss=12.0, pca_loss=10.0, ratio=1.2, pca_loss_kind="exact", total=100.0, explained=0.88, symmetric_explained=80.0,
    symmetric_ratio=0.9, bound=5.0, theorem="Theorem 1", n_components=2, n_nonzero=3, combined_nonzero=4,
    loss_error=1e-9, passes=1, bytes_read=1000,
)  # fmt: skip


def read(*parts):
    sections = [part if isinstance(part, Section) else Section("Part", part) for part in parts]
    page = read_page(render(Page("Page", Markup(""), tuple(sections), Markup(""))))
    assert page.errors == []
    return page


def test_the_loss_table_gives_shares_ratio_and_bound():
    (table,) = read(loss_table([("training", CERTIFICATE)])).tables
    assert table.columns == ["", "training"]
    assert table.rows == {
        "PCA, the least loss of any encoder (exact)": ["10.000%"],
        "sparse encoder": ["12.000%"],
        "ratio of the second to the first": ["1.2000"],
        "ratio that the theorem guarantees": ["at most 5.00"],
    }


def test_the_loss_table_adds_rows_for_own_decoders_and_a_fitted_pca():
    held_out = replace(CERTIFICATE, decoder_loss=15.0, bound=None)
    page = read(loss_table([("training", CERTIFICATE), ("held out", held_out)], [10.0, 11.0]))
    (table,) = page.tables
    assert table.rows["sparse encoder, with the decoder it was fitted with"] == ["12.000%", "15.000%"]
    assert table.rows["PCA, with the components it was fitted with"] == ["10.000%", "11.000%"]
    assert table.rows["ratio that the theorem guarantees"] == ["at most 5.00", ""]


def test_the_loss_table_says_how_pcas_loss_is_known_and_stands_an_infinite_ratio():
    odd = replace(CERTIFICATE, pca_loss_kind="estimate", pca_loss=0.0, ratio=np.inf)
    (table,) = read(loss_table([("all", odd)])).tables
    assert table.rows["PCA, the least loss of any encoder (estimate)"] == ["0.000%"]
    assert table.rows["ratio of the second to the first"] == ["inf"]


def test_the_components_table_adds_up_and_compares_with_pca():
    (table,) = read(components_table(np.array([0.5, 0.25]), np.array([0.6, 0.3]))).tables
    assert table.rows == {
        "1": ["50.000%", "50.000%", "60.000%", "60.000%"],
        "2": ["25.000%", "75.000%", "30.000%", "90.000%"],
    }


def test_the_components_table_leaves_pca_out_where_it_is_not_known():
    (table,) = read(components_table(np.array([0.5, 0.25]), None)).tables
    assert table.columns == ["component", "encoder", "encoder so far"]
    assert table.rows["2"] == ["25.000%", "75.000%"]
