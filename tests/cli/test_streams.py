"""Standard streams that are closed, full, or left by their reader: no traceback, and a code that says so."""

import shlex
import subprocess
import sys

import pytest

from spae_dask import load_encoder
from tests.cli.conftest import K, R, environment

SPAE = f"{shlex.quote(sys.executable)} -m spae_dask"
FULL, NO_SPACE, CLOSED = "/dev/full", "No space left on device", "Bad file descriptor"


def in_shell(tmp_path, line: str) -> subprocess.CompletedProcess[str]:
    """Run a command line of bash; `{spae}` in it is the command."""
    command = line.replace("{spae}", SPAE)
    ended = subprocess.run(
        ["bash", "-c", command], cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=120
    )
    for word in ("Traceback", "Exception ignored", "this is a bug"):
        assert word not in ended.stdout + ended.stderr
    return ended


@pytest.mark.parametrize(
    ("words", "to", "reason"),
    [
        ("check x.zarr -q --json", f"> {FULL}", NO_SPACE),
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
    assert ended.returncode == 5
    (line,) = ended.stderr.splitlines()
    assert line.startswith(f"error: the result cannot be written to standard output: {reason}. ")


def test_an_error_stays_the_error_if_nothing_can_be_printed(tmp_path):
    assert in_shell(tmp_path, "{spae} check nope.zarr --json >&-").returncode == 3


@pytest.mark.parametrize("to", ["<&- 2>&-", f"-v --log-json 2> {FULL}"])
def test_a_fit_ends_well_without_standard_error(tmp_path, store, to):
    assert_fit_ends_well(tmp_path, to)


def assert_fit_ends_well(tmp_path, to: str) -> None:
    ended = in_shell(tmp_path, f"{{spae}} fit x.zarr -k {K} -r {R} --method batch -o e.zarr {to}")
    assert (ended.returncode, ended.stderr) == (0, "")
    certificate = load_encoder(tmp_path / "e.zarr").certificate_
    assert ended.stdout == f"{certificate.text(verbose='-v' in to)}\n"


@pytest.mark.parametrize(
    ("words", "code", "to"),
    [("ft", 2, "2>&-"), ("ft", 2, f"2> {FULL}")],
)
def test_exit_codes_do_not_need_standard_error(tmp_path, store, words, code, to):
    assert in_shell(tmp_path, f"{{spae}} {words} {to}").returncode == code
