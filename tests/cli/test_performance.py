"""``--performance-report``: dask's account of what a cluster did."""

import pytest


@pytest.fixture
def fit(spae, store, tmp_path):
    return lambda *more: spae("fit", store, "-k", 2, "-r", 3, "-o", tmp_path / "e.zarr", *more)


def test_it_is_a_page_that_knows_the_tasks(fit, tmp_path):
    assert fit("--cluster", "local:1", "--performance-report", tmp_path / "report.html").code == 0
    page = (tmp_path / "report.html").read_text()
    assert page.lstrip().startswith("<!DOCTYPE html>")
    assert "sweep" in page


def test_without_a_cluster_it_is_refused_with_the_remedy(fit, tmp_path):
    ended = fit("--cluster", "none", "--performance-report", tmp_path / "report.html")
    assert ended.code == 3
    assert "--cluster local" in ended.err
    assert not (tmp_path / "report.html").exists()
    assert not (tmp_path / "e.zarr").exists()


def test_a_folder_that_is_not_there_is_told_before_anything_is_run(fit, tmp_path):
    ended = fit("--cluster", "local:1", "--performance-report", tmp_path / "none" / "report.html")
    assert ended.code == 5
    assert "its folder is not there" in ended.err
    assert not (tmp_path / "e.zarr").exists()


def test_a_setting_asks_for_it_too(fit, tmp_path, monkeypatch):
    import dask

    with dask.config.set({"spae_dask.performance-report": str(tmp_path / "r.html"), "spae_dask.cluster": "local:1"}):
        assert fit().code == 0
    assert (tmp_path / "r.html").stat().st_size > 1000
