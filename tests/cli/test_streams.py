"""Standard streams that are closed, full, or left by their reader: no traceback, and a code that says so."""

import shlex
import subprocess
import sys

import pytest

from spae_dask import load_encoder
from tests.cli.conftest import QUICK, K, R, environment

SPAE = f"{shlex.quote(sys.executable)} -m spae_dask"
FULL, NO_SPACE, CLOSED = "/dev/full", "No space left on device", "Bad file descriptor"


def in_shell(tmp_path, line: str) -> subprocess.CompletedProcess[str]:
    """Run a command line of bash; `{spae}` in it is the command."""
    command = line.replace("{spae}", SPAE)
    ended = subprocess.run(
        ["bash", "-c", command], cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=120
    )
    assert_no_bug(ended.stdout + ended.stderr)
    return ended


def assert_no_bug(written: str) -> None:
    for word in ("Traceback", "Exception ignored", "this is a bug"):
        assert word not in written


def forked(start, *words, redirections) -> tuple[int, str, str]:
    """The code and the output of a command whose interpreter does not begin with these streams."""
    process = start(*words, redirections=redirections)
    out, err = process.communicate(timeout=120)
    assert_no_bug(out + err)
    return process.returncode, out, err


@pytest.mark.parametrize(
    ("words", "to", "reason"),
    [
        ("--help", ">&-", CLOSED),
        ("fit --help", f"> {FULL}", NO_SPACE),
        ("--version", ">&-", CLOSED),
    ],
    ids=lambda w: w,
)
def test_a_result_that_standard_output_does_not_take_is_an_error_of_storage(tmp_path, store, words, to, reason):
    assert_not_taken(tmp_path, words, to, reason)


def assert_not_taken(tmp_path, words: str, to: str, reason: str) -> None:
    ended = in_shell(tmp_path, f"{{spae}} {words} {to}")
    assert_error_of_storage(ended.returncode, ended.stderr, reason)


def test_a_json_result_that_standard_output_does_not_take_is_an_error_of_storage(spae_forked, store):
    code, _, err = forked(spae_forked, "check", store, "-q", "--json", redirections={1: FULL})
    assert_error_of_storage(code, err, NO_SPACE)


def assert_error_of_storage(code: int, err: str, reason: str) -> None:
    assert code == 5
    (line,) = err.splitlines()
    assert line.startswith(f"error: the result cannot be written to standard output: {reason}. ")


def test_an_error_stays_the_error_if_nothing_can_be_printed(spae_forked, tmp_path):
    assert forked(spae_forked, "check", tmp_path / "nope.zarr", "--json", redirections={1: None})[0] == 3


def test_a_fit_ends_well_if_its_interpreter_begins_without_input_and_standard_error(tmp_path, store):
    assert_fit_ends_well(tmp_path, "<&- 2>&-")


def assert_fit_ends_well(tmp_path, to: str) -> None:
    ended = in_shell(tmp_path, f"{{spae}} fit x.zarr -k {K} -r {R} --method batch -o e.zarr {to}")
    assert_ended_well(tmp_path, ended.returncode, ended.stdout, ended.stderr, verbose="-v" in to)


def test_a_fit_ends_well_if_standard_error_takes_nothing(spae_forked, tmp_path, store):
    words = ("fit", store, "-k", K, "-r", R, *QUICK, "-o", tmp_path / "e.zarr", "-v", "--log-json")
    assert_ended_well(tmp_path, *forked(spae_forked, *words, redirections={2: FULL}), verbose=True)


def assert_ended_well(tmp_path, code: int, out: str, err: str, *, verbose: bool) -> None:
    assert (code, err) == (0, "")
    assert out == f"{load_encoder(tmp_path / 'e.zarr').certificate_.text(verbose=verbose)}\n"


@pytest.mark.parametrize(
    ("words", "code", "to"),
    [("ft", 2, "2>&-"), ("ft", 2, f"2> {FULL}")],
)
def test_exit_codes_do_not_need_standard_error(tmp_path, store, words, code, to):
    assert in_shell(tmp_path, f"{{spae}} {words} {to}").returncode == code


def test_a_standard_error_of_the_caller_stays_open(tmp_path):
    program = """
import sys
sys.stderr = open(2, "w", closefd=False)  # nothing else refers to it
from spae_dask.cli.main import run
sys.argv = ["spae", "check", "nope.zarr"]
try:
    run()
except SystemExit as end:
    print("ended with", end.code, file=sys.stderr)
"""
    ended = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=120
    )
    assert_no_bug(ended.stderr)
    error, end = ended.stderr.splitlines()
    assert error.startswith("error: there is nothing at nope.zarr.")
    assert end == "ended with 3"
