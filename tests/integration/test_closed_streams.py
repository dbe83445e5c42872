"""Commands without standard streams: one that starts workers, and what the ordinary tests see of other commands."""

from spae_dask import load_encoder
from tests.cli.conftest import K, R
from tests.cli.test_streams import CLOSED, assert_fit_ends_well, assert_not_taken, in_shell


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


def test_a_result_that_a_closed_stream_does_not_take_is_an_error_of_storage(tmp_path, store):
    assert_not_taken(tmp_path, "check x.zarr -q", ">&-", CLOSED)


def test_a_fit_ends_well_if_the_reader_of_standard_error_leaves(tmp_path, store):
    assert_fit_ends_well(tmp_path, "2> >(true)")


def test_an_exit_code_does_not_need_standard_error(tmp_path):
    assert in_shell(tmp_path, "{spae} check nope.zarr 2>&-").returncode == 3
