"""A command that starts workers without standard streams."""

from spae_dask import load_encoder
from tests.cli.conftest import K, R
from tests.cli.test_streams import in_shell


def test_no_file_takes_the_number_of_a_closed_stream(tmp_path, store):
    ended = in_shell(
        tmp_path, f"{{spae}} fit x.zarr -k {K} -r {R} --method batch -o e.zarr --cluster local:1 >&- 2>&- <&-"
    )
    assert ended.returncode == 5
    assert load_encoder(tmp_path / "e.zarr").certificate_.n_components == K


def test_a_reader_of_both_streams_that_leaves_ends_the_command_quietly(tmp_path, store):
    line = f"{{spae}} fit x.zarr -k {K} -r {R} --method batch -o e.zarr 2>&1 | head -1; exit ${{PIPESTATUS[0]}}"
    ended = in_shell(tmp_path, line)
    assert ended.returncode == 141
    assert ended.stdout.startswith("data ")
    assert (tmp_path / "e.zarr").is_dir()
