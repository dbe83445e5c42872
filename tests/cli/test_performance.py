"""``--performance-report``: dask's account of what a cluster did."""

import dask
import distributed
import numpy as np
import pytest
import zarr

from spae_dask.cli import performance
from tests.cli.conftest import QUICK


@pytest.fixture(scope="module")
def running():
    """Address of a cluster in threads of this process."""
    with distributed.LocalCluster(1, processes=False, protocol="tcp", dashboard_address=":0") as cluster:
        yield cluster.scheduler_address


@pytest.fixture
def fit(spae, store, tmp_path):
    return lambda *more: spae("fit", store, "-k", 2, "-r", 3, *QUICK, "-o", tmp_path / "e.zarr", *more)


@pytest.fixture
def page(tmp_path):
    return tmp_path / "report.html"


def test_it_is_a_page_that_knows_the_command_and_its_tasks(fit, page):
    ended = fit("--cluster", "local:1", "--performance-report", page)
    assert ended.code == 0
    assert f"wrote     {page}" in ended.err
    text = page.read_text()
    assert text.lstrip().startswith("<!DOCTYPE html>")
    assert "span" in text
    assert "spae fit" in text
    assert sorted(each.name for each in page.parent.iterdir()) == ["e.zarr", "report.html", "x.zarr"]


def test_an_earlier_report_is_replaced_and_nothing_else_is(spae, store, encoder, page, running):
    page.write_text("<html>the year's results</html>")
    again = ("evaluate", store, encoder, "--cluster", running, "--performance-report", page)
    ended = spae(*again)
    assert ended.code == 3
    assert "is not a performance report" in ended.err
    assert page.read_text() == "<html>the year's results</html>"
    page.write_text("<title>Dask Performance Report</title>")
    assert spae(*again).code == 0
    assert "spae evaluate" in page.read_text()


@pytest.mark.parametrize("verb", ["transform", "path"])
def test_other_verbs_that_read_all_rows_write_it_too(spae, store, encoder, page, tmp_path, verb, running):
    more = {"transform": (encoder, "-o", tmp_path / "z.zarr"), "path": ("-k", 1, "-r", 2, *QUICK)}[verb]
    assert spae(verb, store, *more, "--cluster", running, "--performance-report", page).code == 0
    assert f"spae {verb}" in page.read_text()


def test_without_a_cluster_it_is_refused_with_the_remedy(fit, page, tmp_path):
    ended = fit("--cluster", "none", "--performance-report", page)
    assert ended.code == 3
    assert "--cluster local" in ended.err
    assert not page.exists()
    assert not (tmp_path / "e.zarr").exists()


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("none/report.html", "does not exist"),
        ("report.txt", "ends in .html"),
        ("", "ends in .html"),
        ("s3://bucket/report.html", "is a URL"),
        ("e.zarr", "as the output and as the performance report"),
    ],
)
def test_a_place_it_cannot_have_is_told_before_anything_is_run(fit, tmp_path, monkeypatch, name, said):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(distributed.LocalCluster, "__init__", None)  # would fail if it were started
    ended = fit("--cluster", "local:1", "--performance-report", name)
    assert ended.code == 3
    assert said in ended.err
    assert not (tmp_path / "e.zarr").exists()


def test_a_missing_bokeh_is_told_before_anything_is_run(fit, page, monkeypatch):
    monkeypatch.setattr(performance, "find_spec", lambda _: None)
    ended = fit("--cluster", "local:1", "--performance-report", page)
    assert ended.code == 3
    assert 'pip install "spae-dask[dashboard]"' in ended.err


@pytest.mark.parametrize("when", ["__enter__", "__aexit__"])
def test_a_scheduler_that_cannot_make_it_costs_no_results(fit, page, tmp_path, monkeypatch, when, running):
    def broken(*_: object, **__: object) -> None:
        raise ModuleNotFoundError("No module named 'bokeh'")

    monkeypatch.setattr(distributed.performance_report, when, broken)
    ended = fit("--cluster", running, "--performance-report", page)
    assert ended.code == 0
    assert "could not be made (ModuleNotFoundError: No module named 'bokeh')" in ended.err
    assert (tmp_path / "e.zarr").exists()
    assert not page.exists()


def test_a_command_that_fails_has_no_report_and_its_own_error(fit, store, page):
    zarr.open_array(str(store))[7, 3] = np.nan
    ended = fit("--cluster", "local:1", "--performance-report", page)
    assert ended.code == 3
    assert "cluster   tls://" in ended.err
    assert "NaN" in ended.err
    assert "performance" not in ended.err
    assert not page.exists()


def test_a_setting_asks_for_it_wherever_there_is_a_cluster(fit, page, tmp_path, running):
    with dask.config.set({"spae_dask.performance-report": str(page)}):
        assert fit("--cluster", "none").code == 0
        assert not page.exists()
        assert fit("--cluster", running, "--force").code == 0
        assert fit("--cluster", running, "--force").code == 0  # its own page is replaced
    assert "spae fit" in page.read_text()


def test_a_plan_writes_none(spae, store, page, running):
    with dask.config.set({"spae_dask.performance-report": str(page)}):
        assert spae("plan", store, "-k", 2, "-r", 3, "--cluster", running).code == 0
    assert not page.exists()
