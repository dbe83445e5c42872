"""An output is where a file system can have it, and never where it would damage the input."""

from pathlib import Path

import pytest

from spae_dask.errors import InvalidInput, OutputExists
from spae_dask.storage.writing.output_paths import refuse_same
from spae_dask.storage.writing.publish import check_output, publish
from tests.storage.writing.small_outputs import listing, write_store


@pytest.mark.parametrize("url", ["s3://bucket/x.zarr", "https://host/x.zarr", "memory://x", "simplecache::s3://b/x"])
def test_a_url_is_refused(url):
    with pytest.raises(InvalidInput, match="is a URL"):
        check_output(url, overwrite=False)


def test_an_empty_path_is_refused_rather_than_taken_for_the_working_directory():
    with pytest.raises(InvalidInput, match="empty"):
        check_output("", overwrite=True)


def test_a_file_url_is_a_local_path(tmp_path):
    with publish(f"file://{tmp_path}/x.txt", overwrite=False) as work:
        work.write_text("whole")
    assert listing(tmp_path) == ["x.txt"]


def test_a_symbolic_link_is_written_through(tmp_path):
    (tmp_path / "scratch").mkdir()
    write_store(tmp_path / "scratch" / "real.zarr", "old")
    (tmp_path / "link.zarr").symlink_to(tmp_path / "scratch" / "real.zarr")
    with publish(tmp_path / "link.zarr", overwrite=True) as work:
        assert work.parent == tmp_path / "scratch"
        write_store(work, "new")
    assert (tmp_path / "link.zarr").is_symlink()
    assert (tmp_path / "link.zarr" / "c" / "0").read_text() == "new"


def test_a_loop_of_links_is_an_input_error(tmp_path):
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    with pytest.raises((InvalidInput, OutputExists)):
        check_output(tmp_path / "a", overwrite=False)


class TestRefuseSame:
    def test_equal_nested_and_enclosing_paths_are_refused(self, tmp_path):
        (tmp_path / "x.zarr" / "inner").mkdir(parents=True)
        for source, output in [
            ("x.zarr", "x.zarr"),
            ("x.zarr", "x.zarr/"),
            ("x.zarr", "x.zarr/codes"),
            ("x.zarr/inner", "x.zarr"),
            ("x.zarr", "y/../x.zarr"),
        ]:
            with pytest.raises(InvalidInput, match="the input"):
                refuse_same(f"{tmp_path}/{source}", f"{tmp_path}/{output}")

    def test_links_and_file_urls_are_seen_through(self, tmp_path):
        (tmp_path / "x.zarr").mkdir()
        (tmp_path / "link").symlink_to(tmp_path / "x.zarr")
        for source, output in [
            (tmp_path / "link", tmp_path / "x.zarr"),
            (tmp_path / "x.zarr", tmp_path / "link" / "codes"),
            (f"file://{tmp_path}/x.zarr", f"{tmp_path}/link"),
            (f"{tmp_path}/x.zarr", f"file://{tmp_path}/x.zarr/codes"),
        ]:
            with pytest.raises(InvalidInput):
                refuse_same(source, output)

    @pytest.mark.parametrize(
        "output", ["s3://b/x.zarr/", "s3://b//x.zarr", "S3://b/x.zarr", "s3://b/x.zarr//codes", "s3://b/"]
    )
    @pytest.mark.parametrize("source", ["s3://b/x.zarr", "S3://b//x.zarr/"])
    def test_urls_of_one_place_are_one_however_they_are_written(self, source, output):
        with pytest.raises(InvalidInput, match="the same, or one contains"):
            refuse_same(source, output)

    def test_chains_and_other_names_of_a_scheme_are_seen_through(self, tmp_path):
        (tmp_path / "x.zarr").mkdir()
        for source in ("simplecache::file://{0}", "local://{0}", "simplecache::local://{0}", "filecache::{0}/"):
            with pytest.raises(InvalidInput, match="the input"):
                refuse_same(source.format(tmp_path / "x.zarr"), tmp_path / "x.zarr")
        for source in ("simplecache::s3://b/x.zarr", "s3a://b/x.zarr", "blockcache::S3A://b/x.zarr/y"):
            with pytest.raises(InvalidInput, match="the same, or one contains"):
                refuse_same(source, "s3://b/x.zarr")
        with pytest.raises(InvalidInput, match="the same, or one contains"):
            refuse_same("gcs://b/x.zarr", "gs://b/x.zarr")

    def test_neighbours_and_remote_sources_are_allowed(self, tmp_path):
        (tmp_path / "x.zarr").mkdir()
        refuse_same(tmp_path / "x.zarr", tmp_path / "x.zarr.codes")
        refuse_same(tmp_path / "x.zarr" / "a", tmp_path / "x.zarr" / "b")
        refuse_same("s3://bucket/x.zarr", tmp_path / "x.zarr")
        refuse_same("s3://bucket/x.zarr", "s3://bucket/x.zarr.codes")
        refuse_same("s3://bucket/x.zarr", "gs://bucket/x.zarr")
        refuse_same(tmp_path / "x.zarr", "s3://bucket/x.zarr")
        refuse_same("the array", tmp_path / "x.zarr")
        refuse_same(f"simplecache::file://{tmp_path}/y.zarr", tmp_path / "x.zarr")
        refuse_same("simplecache::s3://bucket/y.zarr", "s3://bucket/x.zarr")


@pytest.mark.parametrize("n_bytes", [240, 10_000])
def test_a_name_that_no_file_system_takes_is_refused_before_any_work(tmp_path: Path, n_bytes: int) -> None:
    with pytest.raises(InvalidInput, match=r"path .*nnn\.\.\. is too long: .*names of 255 bytes") as raised:
        check_output(tmp_path / ("n" * n_bytes), overwrite=False)
    assert len(str(raised.value)) < 600
    assert check_output(tmp_path / ("n" * 232), overwrite=False).parent == tmp_path


def test_the_longest_name_that_is_taken_is_written_and_replaced(tmp_path: Path) -> None:
    for overwrite in (False, True):
        with publish(tmp_path / ("n" * 232), overwrite=overwrite) as work:
            work.mkdir()
            (work / "zarr.json").write_text("{}")
    assert [each.name for each in tmp_path.iterdir()] == ["n" * 232]


def test_a_path_of_too_many_folders_is_refused_in_few_words(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="too long") as raised:
        check_output(f"{tmp_path}/{'deep/' * 1000}x", overwrite=False)
    assert len(str(raised.value)) < 600
