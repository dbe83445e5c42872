"""What reaches the terminal, the pipe and the object."""

import json
import os
import pty
import re
import subprocess
import warnings

import pytest

from spae_dask.cli.console import Console, command_context, printable
from spae_dask.cli.options.output import ConsoleOptions
from spae_dask.errors import SpaeWarning
from tests.cli.conftest import SPAE, environment

ANSI = re.compile(r"\x1b\[")
COLOUR = re.compile(r"\x1b\[[0-9;]*[34][0-7][;m]|\x1b\[38;")


def on_a_terminal(*argv: str, **env: str) -> str:
    """What a command writes to a terminal."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [*SPAE, *argv], stdin=theirs, stdout=theirs, stderr=theirs, env=environment(**env), close_fds=True
    )
    os.close(theirs)
    written = b""
    while True:
        try:
            piece = os.read(ours, 4096)
        except OSError:  # Linux says so when the other end is closed
            break
        if not piece:
            break
        written += piece
    os.close(ours)
    process.wait()
    return written.decode()


def test_a_terminal_gets_colours():
    assert COLOUR.search(on_a_terminal("fit", "--bogus"))


def test_no_color_is_honoured():
    assert not COLOUR.search(on_a_terminal("fit", "--bogus", NO_COLOR="1"))
    assert not COLOUR.search(on_a_terminal("fit", "--help", NO_COLOR="1"))


def test_a_terminal_gets_a_bar_on_stderr(store):
    shown = on_a_terminal("check", str(store))
    assert "━" in shown
    assert "rows/s" in shown


def test_the_entry_point_prints_one_json_object_and_nothing_else_and_a_pipe_gets_no_escape_codes(spae_process, store):
    process = spae_process("check", store, "--json", "-vv")
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0
    assert json.loads(out)["check"]["problems"] == []
    assert "rows/s" in err
    assert not ANSI.search(out + err)


def test_a_reader_that_leaves_is_no_error(spae_process, encoder):
    process = spae_process("inspect", encoder)
    process.stdout.close()
    assert process.wait(timeout=60) == 141
    assert process.stderr.read() == ""


def test_names_cannot_steer_the_terminal():
    assert printable("gene\x1b[31m\rA\nB é") == "gene\\x1b[31m\\rA\nB é"


def test_the_same_warning_is_given_once(capsys):
    console = Console(as_json=False, quiet=True, verbose=0)
    for _ in range(2):
        console.warn("use missing='mean'")
    assert capsys.readouterr().err == "warning: use --missing mean\n"


@pytest.mark.parametrize(("verbose", "shown"), [(0, ""), (1, "RuntimeWarning: odd\n")])
def test_warnings_of_other_libraries_are_for_verbose(capsys, verbose, shown):
    with command_context("check", ConsoleOptions(verbose=verbose)):
        warnings.simplefilter("always")
        warnings.warn("odd", RuntimeWarning, stacklevel=1)
    assert capsys.readouterr().err == shown


def test_warnings_are_what_they_were_after_a_command():
    before = warnings.showwarning, list(warnings.filters)
    with command_context("check", ConsoleOptions(), strict=True) as console:
        warnings.warn("ours", SpaeWarning, stacklevel=1)
    assert console.warnings == ["ours"]
    assert (warnings.showwarning, list(warnings.filters)) == before


WHAT = "cannot read https://bob:s3cret@example.org/x.zarr nor s3://b/k?X-Amz-Signature=s3cret"


@pytest.mark.parametrize("log_json", [False, True])
def test_no_message_shows_the_secrets_of_a_url(capsys, log_json):
    console = Console(as_json=True, quiet=False, verbose=1, log_json=log_json)
    console.note(WHAT)
    console.log(WHAT)
    console.warn(WHAT)
    code = console.fail(ValueError(WHAT), debug=True)
    assert console.close(code) == code
    out, err = capsys.readouterr()
    assert "s3cret" not in out + err
    assert err.count("cannot read https://...@example.org/x.zarr nor s3://b/k?...") >= 5
    assert out.count("cannot read https://...@example.org/x.zarr nor s3://b/k?...") == 2, "the error and the warning"


USAGE = ["check x --cluster {}", "report e.zarr -o {}", "path x -k 2 -r 2 -o {}", "run {}", "check {}", "inspect {}"]


@pytest.mark.parametrize("words", USAGE)
def test_no_error_of_a_command_shows_the_secrets_of_a_url(spae, words):
    ended = spae(*words.format("ftp://bob:s3cret@example.org/x.zarr?sig=s3cret").split(), "--json")
    assert ended.code in (2, 3)
    assert "s3cret" not in ended.err
    assert "s3cret" not in json.loads(ended.out)["error"]["message"]


@pytest.mark.parametrize("address", ["tcp://bob:s3cret@127.0.0.1:1", "tls://bob:a/s3cret@h:1", "bob:s3cret@h.org:1"])
def test_an_address_of_a_scheduler_with_a_password_is_refused_and_not_repeated(spae, store, address):
    ended = spae("check", store, "--cluster", address, "--json", "--debug")
    assert ended.code == 2
    assert "s3cret" not in ended.out + ended.err
